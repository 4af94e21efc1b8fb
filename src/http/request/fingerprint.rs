//! Fingerprints a request for its `Idempotency-Key`, and compares fetched files with the files that were billed under the key.
//!
//! What is sent is part of the fingerprint; what is behind its URLs can be compared only once it is fetched.

use super::image_request::{Inputs, Pictures};
use crate::account::IdempotencyKey;
use crate::http::reply::{ApiError, ErrorCode, MODEL, Result};
use crate::recipe::{Endpoint, Fields, MASK_FILE};
use crate::store::{BilledPictures, NOTHING_FETCHED};
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use std::iter;
use tokio::task::spawn_blocking;

/// The caller's name for a request, under which it may be repeated.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The `Idempotency-Key` of a request, if it has one.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().and_then(|text| IdempotencyKey::try_from(text).ok());
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key)),
        (Some(_) | None, _) => {
            let message = "an Idempotency-Key is sent once and has 1 to 255 visible ASCII characters";
            Err(ApiError::new(ErrorCode::InvalidParameter, message).param("Idempotency-Key"))
        }
    }
}

/// 409: the key was used for another request.
pub(crate) fn conflict() -> ApiError {
    ApiError::new(ErrorCode::IdempotencyConflict, "this Idempotency-Key was used for another request")
}

/// Path and fields of a request, the fields sorted.
pub(crate) fn texts<'a>(path: &'a str, fields: &'a Fields) -> Vec<&'a str> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable();
    iter::once(path).chain(fields.into_iter().flat_map(|(name, value)| [name, value])).collect()
}

/// SHA-256 of pieces, each preceded by its length.
pub(crate) fn hash(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.as_ref().len() as u64).to_le_bytes());
        hash.update(piece);
    }
    hash.finalize().into()
}

/// SHA-256 of a whole request: its fields and its preset's, its files and URLs, and the named model. Fetched files are compared later
/// ([`EarlierPictures::compare`]).
///
/// Ten pictures take a tenth of a second, too long for an async thread.
pub(crate) async fn fingerprint(
    endpoint: &Endpoint,
    fields: &Fields,
    inputs: &Inputs,
    headers: &HeaderMap,
) -> Result<[u8; 32]> {
    let texts = texts(endpoint.path, fields);
    let mut pieces: Vec<_> = texts.into_iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    pieces.push(inputs.background.clone().unwrap_or_default());
    match &inputs.pictures {
        Pictures::File(bytes) => pieces.push(bytes.clone()),
        Pictures::Files(files) => pieces.extend(files.iter().map(|file| file.bytes.clone())),
        Pictures::Url(url) => pieces.push(url.to_string().into()),
        Pictures::Urls(urls) => pieces.extend(urls.iter().cloned().map(Bytes::from)),
    }
    // Separates a URL from a file of equal bytes. Nothing is added for the endpoint's usual kind of picture, so that fingerprints stored
    // by earlier versions stay valid for their day.
    if inputs.pictures.is_url() != endpoint.input.is_url() {
        pieces.push(Bytes::from_static(if inputs.pictures.is_url() { b"url" } else { b"file" }));
    }
    if let Some(mask) = &inputs.mask {
        pieces.extend([Bytes::from_static(MASK_FILE.as_bytes()), mask.clone()]);
    }
    pieces.extend(headers.get(MODEL).map(|model| Bytes::copy_from_slice(model.as_bytes())));
    Ok(spawn_blocking(move || hash(pieces)).await?)
}

/// The pictures that were billed before under the key of a request. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlierPictures {
    /// `None` where the request has no key.
    billed: Option<BilledPictures>,
}

/// A finished picture, by its index in the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PictureDigest {
    index: usize,
    /// SHA-256 of what was fetched for it.
    fetched: [u8; 32],
}

impl PictureDigest {
    pub(crate) const fn index(&self) -> usize {
        self.index
    }
}

impl EarlierPictures {
    pub(crate) fn of(billed: BilledPictures) -> Self {
        Self { billed: Some(billed) }
    }

    /// Whether the picture at `index` was billed before.
    pub(crate) fn is_billed(&self, index: usize) -> bool {
        self.at(index).is_some()
    }

    fn at(&self, index: usize) -> Option<[u8; 32]> {
        self.billed.as_ref().and_then(|billed| billed.get(index).copied().flatten())
    }

    /// Compares the files fetched for the picture at `index` (source, background, watermark and mask; `None` for a file that was sent) with
    /// the billed ones.
    ///
    /// # Errors
    /// 409 where the picture was billed with other bytes.
    pub(crate) async fn compare(&self, index: usize, fetched: [Option<Bytes>; 4]) -> Result<PictureDigest> {
        let digest = if self.billed.is_none() || fetched.iter().all(Option::is_none) {
            NOTHING_FETCHED
        } else {
            // A picture of 10 MB takes too long for an async thread.
            let hashed = spawn_blocking(move || {
                let present = fetched.each_ref().map(|bytes| u8::from(bytes.is_some()));
                // Digests stored by versions without masks stay valid for their day.
                let present = if fetched[3].is_some() { &present[..] } else { &present[..3] };
                hash(iter::once(present).chain(fetched.iter().flatten().map(|bytes| &bytes[..])))
            });
            hashed.await?
        };
        match self.at(index) {
            Some(before) if before != digest => Err(conflict()),
            Some(_) | None => Ok(PictureDigest { index, fetched: digest }),
        }
    }

    /// The billed pictures after `made` is billed, of a request with `pictures` pictures.
    pub(crate) fn with(&self, made: PictureDigest, pictures: usize) -> BilledPictures {
        let mut all: Vec<_> = (0..pictures).map(|index| self.at(index)).collect();
        if let Some(place) = all.get_mut(made.index) {
            *place = Some(made.fetched);
        }
        all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::reply::ErrorCode;

    fn fetched(source: &'static str, mark: Option<&'static str>) -> [Option<Bytes>; 4] {
        [Some(Bytes::from(source)), None, mark.map(Bytes::from), None]
    }

    #[tokio::test]
    async fn the_digest_covers_every_fetched_file_and_uploads_share_one() {
        let keyed = EarlierPictures::of(BilledPictures::default());
        let all = [
            fetched("a", None),
            fetched("b", None),
            fetched("a", Some("b")),
            fetched("ab", None),
            [Some(Bytes::from("a")), Some(Bytes::from("b")), None, None],
            [Some(Bytes::from("a")), None, None, Some(Bytes::from("b"))],
            [None, Some(Bytes::from("a")), None, None],
            [None, None, None, None],
        ];
        let mut digests = Vec::new();
        for fetched in all {
            digests.push(keyed.compare(0, fetched).await.expect("nothing was billed").fetched);
        }
        assert_eq!(digests.last(), Some(&NOTHING_FETCHED));
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 8);
        let unkeyed = EarlierPictures::default().compare(0, fetched("a", None)).await.expect("nothing was billed");
        assert_eq!(unkeyed.fetched, NOTHING_FETCHED, "nothing is hashed without a key");
    }

    #[tokio::test]
    async fn other_bytes_are_refused_only_where_a_picture_was_billed() {
        let first = EarlierPictures::of(BilledPictures::default());
        let made = first.compare(1, fetched("a", None)).await.expect("nothing was billed");
        let again = EarlierPictures::of(first.with(made, 3));
        assert_eq!([0, 1, 2, 3].map(|index| again.is_billed(index)), [false, true, false, false]);
        let same = again.compare(1, fetched("a", None)).await.expect("the same bytes");
        let other = again.compare(1, fetched("b", None)).await.expect_err("other bytes");
        assert_eq!(other.code, ErrorCode::IdempotencyConflict);
        let failed_before = again.compare(2, fetched("b", None)).await.expect("it was not billed");
        assert_eq!(again.with(failed_before, 3)[..], [None, Some(same.fetched), Some(failed_before.fetched)]);
    }
}
