//! Stored billed request: fingerprint and billed pictures under an `Idempotency-Key`.

use serde::{Deserialize, Serialize};

use super::Record;
use crate::recipe::MAX_BATCH;
use crate::store::UnixSeconds;

/// A billed request in its newest form.
pub type Request = RequestV2;

/// A billed request, as stored. Account and `Idempotency-Key` are the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestRecord {
    /// Since schema 2.
    V1(RequestV1),
    /// Since schema 5.
    V2(RequestV2),
}

/// Version 1 of a billed request: a repetition is not billed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestV1 {
    /// SHA-256 of the request; the same key with another one is a conflict.
    pub fingerprint: [u8; 32],
    /// Images billed.
    pub images: u64,
    /// When it was billed.
    pub at: UnixSeconds,
}

/// Version 2 of a billed request: adds which pictures were billed, and the hash of their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestV2 {
    /// SHA-256 of the request, the fields of its preset included; the same key with another one is a conflict.
    pub fingerprint: [u8; 32],
    /// Images billed.
    pub images: u64,
    /// When it was billed last.
    pub at: UnixSeconds,
    /// By the picture's position in the request: SHA-256 of what was fetched for it, [`NOTHING_FETCHED`] where nothing was;
    /// `None` where it was not billed.
    pub pictures: Vec<Option<[u8; 32]>>,
}

/// Stands for the SHA-256 of a picture for which nothing was fetched.
pub const NOTHING_FETCHED: [u8; 32] = [0; 32];

impl RequestV2 {
    /// The pictures of version 1, which did not store them: uploads count as billed, and fetched pictures as fetched from
    /// other bytes.
    pub(in crate::store) fn pictures_before_v2() -> Vec<Option<[u8; 32]>> {
        vec![Some(NOTHING_FETCHED); MAX_BATCH]
    }
}

impl Record for RequestRecord {
    type Latest = RequestV2;

    fn latest(self) -> RequestV2 {
        match self {
            Self::V1(RequestV1 { fingerprint, images, at }) => {
                RequestV2 { fingerprint, images, at, pictures: RequestV2::pictures_before_v2() }
            }
            Self::V2(request) => request,
        }
    }

    fn from_latest(latest: RequestV2) -> Self {
        Self::V2(latest)
    }
}
