//! Encoding of versioned records: an enum with one variant per version, in postcard.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A versioned record: bytes in the table, the newest form in the program.
pub trait Record: Serialize + DeserializeOwned {
    /// The newest form.
    type Latest;

    /// Converts whichever version was stored.
    fn latest(self) -> Self::Latest;

    /// Wraps the newest form for storing.
    fn from_latest(latest: Self::Latest) -> Self;

    /// The bytes to store.
    fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a record holds only plain fields, and a Vec grows")
    }

    /// Reads stored bytes.
    ///
    /// # Errors
    /// When the bytes are not exactly one record of a known version.
    fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (record, rest) = postcard::take_from_bytes(bytes).map_err(RecordError::Malformed)?;
        if rest.is_empty() { Ok(record) } else { Err(RecordError::Trailing(rest.len())) }
    }
}

/// Why stored bytes are not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Cut off, an unknown version, or not text where text belongs.
    #[error("malformed record")]
    Malformed(#[source] postcard::Error),
    /// A whole record and then something else.
    #[error("{0} bytes after the end of the record")]
    Trailing(usize),
}

/// A record with a single version. A second version needs a separate enum, whose bytes of the first version are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OneVersion<V> {
    /// The version.
    V1(V),
}

impl<V: Serialize + DeserializeOwned> Record for OneVersion<V> {
    type Latest = V;

    fn latest(self) -> V {
        let Self::V1(latest) = self;
        latest
    }

    fn from_latest(latest: V) -> Self {
        Self::V1(latest)
    }
}
