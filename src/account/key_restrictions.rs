//! Restrictions of an API key in addition to the plan of its account: expiry, monthly images and scopes; parses durations and times.

use super::{InvalidText, Scopes};
use crate::store::{Day, UnixSeconds};

/// A century: longer than any sensible duration, and far from overflow.
const MAX_SECONDS: i64 = 100 * 366 * 24 * 60 * 60;

/// The restrictions of a new key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRestrictions {
    /// When it expires; `None` for never.
    pub expires_at: Option<UnixSeconds>,
    /// Images in a calendar month (UTC); `None` for the quota of the plan alone.
    pub images_per_month: Option<u64>,
    /// The endpoints that it may call.
    pub scopes: Scopes,
}

/// The time after `now` by a duration such as `30d` or `12h`. A day has 24 hours.
pub(super) fn parse_duration(duration: &str, now: UnixSeconds) -> Result<UnixSeconds, InvalidText> {
    let expected = || InvalidText("a duration such as 30d or 12h, of at most a century".to_owned());
    let span: jiff::Span = duration.trim().parse().map_err(|_| expected())?;
    let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| expected())?;
    let seconds = Some(length.as_secs()).filter(|seconds| (1..=MAX_SECONDS).contains(seconds)).ok_or_else(expected)?;
    Ok(UnixSeconds(now.0.saturating_add(seconds)))
}

/// The time of an RFC 3339 text, or the midnight (UTC) at which a date begins.
pub(super) fn parse_time(text: &str) -> Result<UnixSeconds, InvalidText> {
    let expected = || InvalidText("a time such as 2027-01-31T12:00:00Z, or a date such as 2027-01-31".to_owned());
    let text = text.trim();
    let date = Day::parse(text).map(Day::starts);
    let time = || text.parse::<jiff::Timestamp>().ok().map(|time| UnixSeconds(time.as_second()));
    date.or_else(time).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_parsed() {
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
            assert_eq!(parse_duration(text, now).ok(), expected, "{text:?}");
        }
        for (text, at) in [
            ("2027-01-31", Some(1_801_353_600)),
            ("2027-01-31T12:00:00Z", Some(1_801_396_800)),
            ("2027-01-31T12:00:00+02:00", Some(1_801_389_600)),
            ("2027-02-30", None),
            ("31.1.2027", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text).ok(), at.map(UnixSeconds), "{text:?}");
        }
    }
}
