//! Which of the listed objects are worked on.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// What is taken for a picture when nothing is said, by the ends of names. The content decides how a file is read.
pub const EXTENSIONS: [&str; 8] = ["jpg", "jpeg", "jpe", "jfif", "png", "webp", "heic", "heif"];

/// Globs that say which keys are taken.
///
/// A glob with a slash is held against the key below the place that is read, and `*` does not cross a slash there
/// (`**` does); one without is held against the name alone.
#[derive(Clone, Debug)]
pub struct Select {
    /// Nothing: by extension.
    include: Option<Globs>,
    exclude: Globs,
}

/// A glob is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SelectError(#[from] globset::Error);

#[derive(Clone, Debug)]
struct Globs {
    keys: GlobSet,
    names: GlobSet,
}

impl Globs {
    fn new(globs: &[String]) -> Result<Self, globset::Error> {
        let (mut keys, mut names) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for text in globs {
            let glob = GlobBuilder::new(text).literal_separator(true).build()?;
            if text.contains('/') {
                keys.add(glob)
            } else {
                names.add(glob)
            };
        }
        Ok(Self { keys: keys.build()?, names: names.build()? })
    }

    fn hold(&self, key: &str) -> bool {
        let name = key.rsplit('/').next().unwrap_or(key);
        self.names.is_match(name) || self.keys.is_match(key)
    }
}

impl Select {
    /// Takes what one of `include` holds (pictures, by their extensions, when there is none) and none of `exclude` does.
    ///
    /// # Errors
    /// When a glob is malformed.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, SelectError> {
        let include = if include.is_empty() { None } else { Some(Globs::new(include)?) };
        Ok(Self { include, exclude: Globs::new(exclude)? })
    }

    /// Whether `key`, relative to the place that is read, is taken.
    #[must_use]
    pub fn takes(&self, key: &str) -> bool {
        let included = match &self.include {
            Some(globs) => globs.hold(key),
            None => has_known_extension(key),
        };
        included && !self.exclude.hold(key)
    }
}

fn has_known_extension(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    name.rsplit_once('.')
        .is_some_and(|(_, extension)| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(include: &[&str], exclude: &[&str]) -> Select {
        let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
        Select::new(&owned(include), &owned(exclude)).unwrap()
    }

    #[test]
    fn pictures_are_taken_when_nothing_is_said() {
        let select = select(&[], &["thumbs/**", "*.small.*"]);
        for taken in ["a.jpg", "x/B.JPEG", "ü/c.webp", "x/thumbs/a.png"] {
            assert!(select.takes(taken), "{taken}");
        }
        for left in ["a.txt", "jpg", "x.jpg/readme", "thumbs/a.jpg", "x/a.small.jpg", ""] {
            assert!(!select.takes(left), "{left}");
        }
    }

    #[test]
    fn a_glob_without_a_slash_is_about_the_name() {
        let select = select(&["IMG_*", "shop/*/front.*"], &["*.txt"]);
        for taken in ["IMG_1", "x/y/IMG_2.jpg", "shop/7/front.jpg"] {
            assert!(select.takes(taken), "{taken}");
        }
        for left in ["shop/7/8/front.jpg", "x/shop/7/front.jpg", "IMG_1.txt", "IMG_1/a.jpg"] {
            assert!(!select.takes(left), "{left}");
        }
        assert!(Select::new(&["[".to_owned()], &[]).is_err());
    }
}
