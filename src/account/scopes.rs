//! Scopes of an API key: the endpoints that it may call.

use std::fmt;

use super::InvalidText;
use crate::recipe::{ENDPOINTS, VIDEO_PATH};

/// The scopes of `/presets` and `/bulk`, which are not image endpoints.
const OTHERS: [&str; 2] = ["presets", "bulk"];

/// The endpoints that a key may call; empty for all of them. `/account`, `/usage`, `/estimate` and `/jobs` are open to
/// every key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Checks names of endpoints: their paths, with or without the leading slash.
    ///
    /// # Errors
    /// When one is not the path of an endpoint that a key can be restricted to.
    pub fn of<T: AsRef<str>>(names: &[T]) -> Result<Self, InvalidText> {
        let mut scopes = Vec::new();
        for name in names {
            let name = name.as_ref().trim().trim_start_matches('/');
            if !known().any(|known| known == name) {
                let known = known().collect::<Vec<_>>().join(", ");
                return Err(InvalidText(format!("endpoints out of {known}; not {name:?}")));
            }
            scopes.push(name.to_owned());
        }
        scopes.sort_unstable();
        scopes.dedup();
        Ok(Self(scopes))
    }

    /// Scopes from a stored key.
    pub(crate) const fn from_stored(names: Vec<String>) -> Self {
        Self(names)
    }

    /// Whether there are endpoints that the key may not call.
    #[must_use]
    pub const fn are_limited(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a key with these scopes may call the endpoint of this path.
    #[must_use]
    pub fn allow(&self, path: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|scope| path.strip_prefix('/') == Some(scope))
    }

    pub(super) fn into_names(self) -> Vec<String> {
        self.0
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

fn known() -> impl Iterator<Item = &'static str> {
    let paths = ENDPOINTS.iter().map(|endpoint| endpoint.path).chain([VIDEO_PATH]);
    paths.map(|path| path.trim_start_matches('/')).chain(OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_endpoint_paths_and_an_empty_list_allows_all() {
        let scopes = Scopes::of(&["/studio-shot", "remove", " remove ", "video/remove"]).expect("endpoints");
        assert_eq!(scopes.to_string(), "remove, studio-shot, video/remove");
        for (path, allowed) in
            [("/remove", true), ("/remove-url", false), ("/video/remove", true), ("/presets", false), ("remove", false)]
        {
            assert_eq!(scopes.allow(path), allowed, "{path}");
            assert!(Scopes::default().allow(path), "{path}");
        }
        for wrong in ["remov", "", "account", "video"] {
            assert!(Scopes::of(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
