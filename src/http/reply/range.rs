//! Parses `Range` and `If-Range` (RFC 9110, section 14) into one range of bytes.
//!
//! Several ranges at once are answered with the whole file, which the standard allows.
//!
//! Our own and not `http-range-header` 1.0, which refuses `Bytes = 10-19` (spaces around `=`) and takes `bytes=-5` of an
//! empty file as satisfiable, and not `headers` 0.4, which drops a suffix longer than the file.

use hyper::header::{HeaderMap, IF_RANGE, RANGE};

/// The part of a file that a request selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedRange {
    /// All of it: 200.
    Whole,
    /// From the first to the last byte, both included: 206.
    Part {
        /// Counted from 0.
        first: u64,
        /// At least `first`, and within the file.
        last: u64,
    },
    /// Outside of the file: 416.
    Unsatisfiable,
}

/// The range that a request selects of a file of `bytes` bytes with the entity tag `tag`, quotes included.
pub(crate) fn requested(headers: &HeaderMap, bytes: u64, tag: &str) -> RequestedRange {
    let mut sent = headers.get_all(RANGE).iter();
    let (Some(range), None) = (sent.next().and_then(|value| value.to_str().ok()), sent.next()) else {
        return RequestedRange::Whole;
    };
    // The condition names another file. The comparison is strong: no weak tag and no date matches.
    if headers.get_all(IF_RANGE).iter().any(|condition| condition.as_bytes() != tag.as_bytes()) {
        return RequestedRange::Whole;
    }
    parse(range, bytes).unwrap_or(RequestedRange::Whole)
}

/// Parses a `Range`; `None` where it is malformed or has another unit, and so is ignored.
fn parse(range: &str, bytes: u64) -> Option<RequestedRange> {
    let (unit, spec) = range.split_once('=')?;
    let (first, last) = spec.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond 64 bits is beyond every file.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = match (first, last) {
        ("", last) => {
            let count = number(last)?;
            if count == 0 {
                return Some(RequestedRange::Unsatisfiable);
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
        return Some(RequestedRange::Unsatisfiable);
    }
    Some(RequestedRange::Part { first, last: last.min(bytes - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const TAG: &str = "\"job_1.webm\"";

    fn of(range: &str, bytes: u64) -> RequestedRange {
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_str(range).expect("text"))]);
        requested(&headers, bytes, TAG)
    }

    #[test]
    fn ranges_follow_rfc_9110() {
        let part = |first, last| RequestedRange::Part { first, last };
        for (range, expected) in [
            ("bytes=0-0", part(0, 0)),
            ("bytes=0-499", part(0, 99)),
            ("bytes=10-19", part(10, 19)),
            ("Bytes = 10-19", part(10, 19)),
            ("bytes=99-", part(99, 99)),
            ("bytes=-1", part(99, 99)),
            ("bytes=-1000", part(0, 99)),
            ("bytes=0-99999999999999999999999", part(0, 99)),
            ("bytes=100-", RequestedRange::Unsatisfiable),
            ("bytes=100-200", RequestedRange::Unsatisfiable),
            ("bytes=99999999999999999999999-", RequestedRange::Unsatisfiable),
            ("bytes=-0", RequestedRange::Unsatisfiable),
            ("bytes=20-10", RequestedRange::Whole),
            ("bytes=0-9,20-29", RequestedRange::Whole),
            ("bytes=", RequestedRange::Whole),
            ("bytes=-", RequestedRange::Whole),
            ("bytes=a-b", RequestedRange::Whole),
            ("bytes=+1-2", RequestedRange::Whole),
            ("items=0-9", RequestedRange::Whole),
            ("0-9", RequestedRange::Whole),
        ] {
            assert_eq!(of(range, 100), expected, "{range}");
        }
        assert_eq!(of("bytes=0-", 0), RequestedRange::Unsatisfiable, "an empty file");
        assert_eq!(of("bytes=-5", 0), RequestedRange::Unsatisfiable, "an empty file");
        assert_eq!(requested(&HeaderMap::new(), 100, TAG), RequestedRange::Whole);
    }

    #[test]
    fn a_failed_condition_gives_the_whole_file() {
        let with = |condition: &str| {
            let condition = HeaderValue::from_str(condition).expect("text");
            let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=1-2")), (IF_RANGE, condition)]);
            requested(&headers, 100, TAG)
        };
        assert_eq!(with(TAG), RequestedRange::Part { first: 1, last: 2 });
        for other in ["\"other\"", "W/\"job_1.webm\"", "job_1.webm", "Sat, 21 Nov 2026 09:00:00 GMT"] {
            assert_eq!(with(other), RequestedRange::Whole, "{other}");
        }
    }
}
