//! What narrows a key down beside its account's plan: an expiry, images in a month, and the endpoints that it is for.

use std::fmt;

use crate::recipe::{ENDPOINTS, VIDEO_PATH};
use crate::store::UnixSeconds;

/// The scope of `/presets`, which is no endpoint of pictures and belongs to the whole account.
const PRESETS: &str = "presets";

/// A century: longer than any sensible duration, and far from the end of the type.
const MAX_SECONDS: i64 = 100 * 366 * 24 * 60 * 60;

/// The endpoints that a key is for; none for all of them. `/account`, `/usage`, `/estimate` and `/jobs` are open to every
/// key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

/// A value is not acceptable; says what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct InvalidBound(String);

impl Scopes {
    /// Checks names of endpoints: their paths, with or without the leading slash.
    ///
    /// # Errors
    /// When one is the path of no endpoint that a key can be bound to.
    pub fn of<T: AsRef<str>>(names: &[T]) -> Result<Self, InvalidBound> {
        let mut scopes = Vec::new();
        for name in names {
            let name = name.as_ref().trim().trim_start_matches('/');
            if !known().any(|known| known == name) {
                let known = known().collect::<Vec<_>>().join(", ");
                return Err(InvalidBound(format!("endpoints out of {known}; not {name:?}")));
            }
            scopes.push(name.to_owned());
        }
        scopes.sort_unstable();
        scopes.dedup();
        Ok(Self(scopes))
    }

    /// Those that were stored.
    pub(super) const fn stored(names: Vec<String>) -> Self {
        Self(names)
    }

    /// Whether a key with these may call the endpoint of this path.
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
    paths.map(|path| path.trim_start_matches('/')).chain([PRESETS])
}

/// The bounds of a new key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyBounds {
    /// From when on it is refused; nothing for never.
    pub expires_at: Option<UnixSeconds>,
    /// Images that it may have made in a calendar month (UTC); nothing for no bound of its own.
    pub images_per_month: Option<u64>,
    /// The endpoints that it is for.
    pub scopes: Scopes,
}

/// Bounds that change. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// When it expires; nothing inside for never.
    pub expires_at: Option<Option<UnixSeconds>>,
    /// Images in a month; nothing inside for no bound of its own.
    pub images_per_month: Option<Option<u64>>,
    /// The endpoints that it is for.
    pub scopes: Option<Scopes>,
}

/// The time that is so long after `now`, from a duration such as `30d` or `12h`. A day has 24 hours.
pub(super) fn after(duration: &str, now: UnixSeconds) -> Result<UnixSeconds, InvalidBound> {
    let expected = || InvalidBound("a duration such as 30d or 12h, of at most a century".to_owned());
    let span: jiff::Span = duration.trim().parse().map_err(|_| expected())?;
    let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| expected())?;
    let seconds = Some(length.as_secs()).filter(|seconds| (1..=MAX_SECONDS).contains(seconds)).ok_or_else(expected)?;
    Ok(UnixSeconds(now.0.saturating_add(seconds)))
}

/// A time from RFC 3339 or a date, which begins at midnight UTC.
pub(super) fn time(text: &str) -> Result<UnixSeconds, InvalidBound> {
    let expected = || InvalidBound("a time such as 2027-01-31T12:00:00Z, or a date such as 2027-01-31".to_owned());
    let text = text.trim();
    let date = crate::store::Day::parse(text).map(crate::store::Day::starts);
    let time = || text.parse::<jiff::Timestamp>().ok().map(|time| UnixSeconds(time.as_second()));
    date.or_else(time).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_read_as_people_write_them() {
        let now = UnixSeconds(1_000);
        for (text, seconds) in [
            ("30d", Some(30 * 86_400)),
            ("12h", Some(43_200)),
            (" 90m ", Some(5_400)),
            ("2w", Some(14 * 86_400)),
            ("1d 12h", Some(129_600)),
            ("0s", None),
            ("-5m", None),
            ("1mo", None),
            ("30", None),
            ("soon", None),
            ("", None),
            ("99999999d", None),
        ] {
            let expected = seconds.map(|seconds: i64| UnixSeconds(now.0 + seconds));
            assert_eq!(after(text, now).ok(), expected, "{text:?}");
        }
        for (text, at) in [
            ("2027-01-31", Some(1_801_353_600)),
            ("2027-01-31T12:00:00Z", Some(1_801_396_800)),
            ("2027-01-31T12:00:00+02:00", Some(1_801_389_600)),
            ("2027-02-30", None),
            ("31.1.2027", None),
            ("", None),
        ] {
            assert_eq!(time(text).ok(), at.map(UnixSeconds), "{text:?}");
        }
    }

    #[test]
    fn scopes_are_paths_of_endpoints_and_none_of_them_is_all() {
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
