//! `Range` and `If-Range` (RFC 9110, section 14): one range of bytes; several at once are answered with the whole, which
//! the standard allows.

use hyper::header::{HeaderMap, IF_RANGE, RANGE};

/// What part of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it: 200.
    Whole,
    /// From the first to the last byte, both included: 206.
    Part {
        /// Counted from 0.
        first: u64,
        /// At least `first`, and there.
        last: u64,
    },
    /// Nothing that is there: 416.
    Nothing,
}

/// Reads what a request wants of a file of `bytes` bytes whose entity tag is `tag`, quotes included.
pub(super) fn wanted(headers: &HeaderMap, bytes: u64, tag: &str) -> Wanted {
    let mut sent = headers.get_all(RANGE).iter();
    let (Some(range), None) = (sent.next().and_then(|value| value.to_str().ok()), sent.next()) else {
        return Wanted::Whole;
    };
    // Of another file than the one that is here: a strong comparison, so that no weak tag and no date will do.
    if headers.get_all(IF_RANGE).iter().any(|condition| condition.as_bytes() != tag.as_bytes()) {
        return Wanted::Whole;
    }
    part(range, bytes).unwrap_or(Wanted::Whole)
}

/// Nothing for what is no range, or none of ours: it is passed over.
fn part(range: &str, bytes: u64) -> Option<Wanted> {
    let (unit, spec) = range.split_once('=')?;
    let (first, last) = spec.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Beyond 64 bits it is beyond every file.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = match (first, last) {
        ("", last) => {
            let count = number(last)?;
            if count == 0 {
                return Some(Wanted::Nothing);
            }
            (bytes.saturating_sub(count), u64::MAX)
        }
        (first, "") => (number(first)?, u64::MAX),
        (first, last) => (number(first)?, number(last)?),
    };
    if last < first {
        return None;
    }
    if first >= bytes {
        return Some(Wanted::Nothing);
    }
    Some(Wanted::Part { first, last: last.min(bytes - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    const TAG: &str = "\"job_1.webm\"";

    fn of(range: &str, bytes: u64) -> Wanted {
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_str(range).expect("text"))]);
        wanted(&headers, bytes, TAG)
    }

    #[test]
    fn ranges_are_read_as_the_standard_has_them() {
        let part = |first, last| Wanted::Part { first, last };
        for (range, expected) in [
            ("bytes=0-0", part(0, 0)),
            ("bytes=0-499", part(0, 99)),
            ("bytes=10-19", part(10, 19)),
            ("Bytes = 10-19", part(10, 19)),
            ("bytes=99-", part(99, 99)),
            ("bytes=-1", part(99, 99)),
            ("bytes=-1000", part(0, 99)),
            ("bytes=0-99999999999999999999999", part(0, 99)),
            ("bytes=100-", Wanted::Nothing),
            ("bytes=100-200", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=20-10", Wanted::Whole),
            ("bytes=0-9,20-29", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("items=0-9", Wanted::Whole),
            ("0-9", Wanted::Whole),
        ] {
            assert_eq!(of(range, 100), expected, "{range}");
        }
        assert_eq!(of("bytes=0-", 0), Wanted::Nothing, "an empty file");
        assert_eq!(of("bytes=-5", 0), Wanted::Nothing, "an empty file");
        assert_eq!(wanted(&HeaderMap::new(), 100, TAG), Wanted::Whole);
    }

    #[test]
    fn a_condition_that_does_not_hold_gives_the_whole() {
        let with = |condition: &str| {
            let condition = HeaderValue::from_str(condition).expect("text");
            let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=1-2")), (IF_RANGE, condition)]);
            wanted(&headers, 100, TAG)
        };
        assert_eq!(with(TAG), Wanted::Part { first: 1, last: 2 });
        for other in ["\"other\"", "W/\"job_1.webm\"", "job_1.webm", "Sat, 21 Nov 2026 09:00:00 GMT"] {
            assert_eq!(with(other), Wanted::Whole, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_part_is_always_inside(range in "bytes=[0-9]{0,21}-[0-9]{0,21}", bytes in 0..300_u64) {
            if let Wanted::Part { first, last } = of(&range, bytes) {
                prop_assert!(first <= last && last < bytes);
            }
        }
    }
}
