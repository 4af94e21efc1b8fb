//! Compares what was fetched for a picture with what was billed under the request's `Idempotency-Key`.
//!
//! What was sent is compared before (`cover`); what is behind its addresses is known only when it was fetched.

use super::cover::{hash, other_request};
use super::error::ApiError;
use crate::account::BilledPictures;
use crate::store::NOTHING_FETCHED;
use bytes::Bytes;
use std::iter;
use tokio::task::spawn_blocking;

/// The pictures that were billed under the key of a request. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// None where the request has no key.
    billed: Option<BilledPictures>,
}

/// A picture that was made, by its place in the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    index: usize,
    /// SHA-256 of what was fetched for it.
    fetched: [u8; 32],
}

impl Contents {
    pub(super) fn of(billed: BilledPictures) -> Self {
        Self { billed: Some(billed) }
    }

    /// Whether the picture at `index` was billed before.
    pub(super) fn is_billed(&self, index: usize) -> bool {
        self.at(index).is_some()
    }

    fn at(&self, index: usize) -> Option<[u8; 32]> {
        self.billed.as_ref().and_then(|billed| billed.get(index).copied().flatten())
    }

    /// Compares what was fetched for the picture at `index`: its source, its background and its watermark, those of them
    /// that have an address.
    ///
    /// # Errors
    /// 409 where the picture was billed and other bytes had been fetched for it.
    pub(super) async fn compare(&self, index: usize, fetched: [Option<Bytes>; 3]) -> Result<Made, ApiError> {
        let digest = if self.billed.is_none() || fetched.iter().all(Option::is_none) {
            NOTHING_FETCHED
        } else {
            // A picture of 10 MB takes too long for a thread that others wait for.
            let hashed = spawn_blocking(move || {
                let present = fetched.each_ref().map(|bytes| u8::from(bytes.is_some()));
                hash(iter::once(&present[..]).chain(fetched.iter().flatten().map(|bytes| &bytes[..])))
            });
            hashed.await.map_err(|error| ApiError::internal(error.to_string()))?
        };
        match self.at(index) {
            Some(before) if before != digest => Err(other_request()),
            Some(_) | None => Ok(Made { index, fetched: digest }),
        }
    }

    /// How many of `made` were not billed before.
    pub(super) fn new_among(&self, made: &[Made]) -> u64 {
        made.iter().filter(|made| !self.is_billed(made.index)).count() as u64
    }

    /// All that is billed once `made` is, of a request for `pictures` pictures.
    pub(super) fn with(&self, made: &[Made], pictures: usize) -> BilledPictures {
        let mut all: Vec<_> = (0..pictures).map(|index| self.at(index)).collect();
        for made in made {
            if let Some(place) = all.get_mut(made.index) {
                *place = Some(made.fetched);
            }
        }
        all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::error::ErrorCode;

    fn fetched(source: &'static str, mark: Option<&'static str>) -> [Option<Bytes>; 3] {
        [Some(Bytes::from(source)), None, mark.map(Bytes::from)]
    }

    #[tokio::test]
    async fn every_fetched_file_tells_pictures_apart_and_those_of_an_upload_are_alike() {
        let keyed = Contents::of(BilledPictures::default());
        let all = [
            fetched("a", None),
            fetched("b", None),
            fetched("a", Some("b")),
            fetched("ab", None),
            [Some(Bytes::from("a")), Some(Bytes::from("b")), None],
            [None, Some(Bytes::from("a")), None],
            [None, None, None],
        ];
        let mut digests = Vec::new();
        for fetched in all {
            digests.push(keyed.compare(0, fetched).await.expect("nothing was billed").fetched);
        }
        assert_eq!(digests.last(), Some(&NOTHING_FETCHED));
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 7);
        let unkeyed = Contents::default().compare(0, fetched("a", None)).await.expect("nothing was billed");
        assert_eq!(unkeyed.fetched, NOTHING_FETCHED, "nothing is hashed without a key");
    }

    #[tokio::test]
    async fn other_bytes_are_refused_where_a_picture_was_billed_and_nowhere_else() {
        let first = Contents::of(BilledPictures::default());
        let made = [first.compare(1, fetched("a", None)).await.expect("nothing was billed")];
        assert_eq!(first.new_among(&made), 1);
        let again = Contents::of(first.with(&made, 3));
        assert_eq!([0, 1, 2, 3].map(|index| again.is_billed(index)), [false, true, false, false]);
        let same = again.compare(1, fetched("a", None)).await.expect("the same bytes");
        assert_eq!(again.new_among(&[same]), 0);
        let other = again.compare(1, fetched("b", None)).await.expect_err("other bytes");
        assert_eq!(other.code, ErrorCode::IdempotencyConflict);
        let failed_before = again.compare(2, fetched("b", None)).await.expect("it was not billed");
        assert_eq!(again.new_among(&[same, failed_before]), 1);
        assert_eq!(again.with(&[failed_before], 3)[..], [None, Some(same.fetched), Some(failed_before.fetched)]);
    }
}
