//! The cursor of a listing: where its last job is in the order of a key's jobs, clips and bulk runs together.

use std::fmt;

use crate::store::{BulkJob, Job};

/// The place of a job in a listing, which begins with the greatest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Its creation in milliseconds since 1970; of a clip at least one more than the place of the clip before.
    pub place: i64,
    /// Its id.
    pub id: String,
}

impl Cursor {
    /// The place of a clip.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self { place: job.place, id: job.id.clone() }
    }

    /// Reads a cursor as it is displayed; nothing from any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (place, id) = text.split_once('.')?;
        let place = place.parse().ok()?;
        (BulkJob::is_id(id) || Job::is_id(id)).then(|| Self { place, id: id.to_owned() })
    }

    /// Place and id.
    #[must_use]
    pub fn parts(&self) -> (i64, &str) {
        (self.place, &self.id)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_a_clip_and_of_a_run_is_read_as_it_was_shown() {
        for text in ["1700000000123.job_0123456789abcdefABCDEF01", "-5.bulk_3f0c9a1be2d4"] {
            let cursor = Cursor::parse(text).expect(text);
            assert_eq!(cursor.to_string(), text);
        }
        let malformed = "x x.job_0123456789abcdefABCDEF01 99999999999999999999.bulk_3f0c9a1be2d4 1.bulk_' 1.bulk_\0 \
            bulk_3f0c9a1be2d4 .bulk_3f0c9a1be2d4";
        for text in malformed.split_whitespace().chain([""]) {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }
}
