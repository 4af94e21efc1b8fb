//! What is stored, version by version.
//!
//! A record is an enum with one variant per version, in postcard: the variant's index is the first byte. A version that
//! was released is never edited, reordered or removed; a new one is a new variant at the end, and `latest` converts.
//! `schemas/records/` holds the exact bytes of every version, and a test reads each of them.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Seconds since 1970-01-01 UTC; shown as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// The present second.
    #[must_use]
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_second())
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0) {
            Ok(time) => write!(f, "{time}"),
            // Outside the years that a calendar has; only a damaged record says so.
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

/// What an account may use. Each plan includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plan {
    /// A number of free images each month.
    Free,
    /// Billed; all features that need a paid plan.
    Paid,
    /// Paid, and the Plus-tier fields.
    Plus,
}

impl Plan {
    /// All plans, smallest first.
    pub const ALL: [Self; 3] = [Self::Free, Self::Paid, Self::Plus];

    /// The plan's name as callers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Paid => "paid",
            Self::Plus => "plus",
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Plan {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|plan| plan.name() == text).ok_or("expected free, paid or plus")
    }
}

/// An account, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountRecord {
    /// Since 0.1.
    V1(AccountV1),
}

/// Version 1 of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountV1 {
    /// Unique name; also the key of the table.
    pub name: String,
    /// What it may use.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixSeconds,
}

/// A key, as stored. The token itself is not in it, in no form: its SHA-256 is the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyRecord {
    /// Since 0.1.
    V1(KeyV1),
}

/// Version 1 of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyV1 {
    /// Public id, `key_` + 12 characters.
    pub id: String,
    /// Name of the account it belongs to.
    pub account: String,
    /// The owner's own words.
    pub label: String,
    /// A sandbox key: never bills, marks its results.
    pub test: bool,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// When it was revoked; it stopped working then.
    pub revoked_at: Option<UnixSeconds>,
}

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

impl Record for AccountRecord {
    type Latest = AccountV1;

    fn latest(self) -> AccountV1 {
        let Self::V1(account) = self;
        account
    }

    fn from_latest(latest: AccountV1) -> Self {
        Self::V1(latest)
    }
}

impl Record for KeyRecord {
    type Latest = KeyV1;

    fn latest(self) -> KeyV1 {
        let Self::V1(key) = self;
        key
    }

    fn from_latest(latest: KeyV1) -> Self {
        Self::V1(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_rfc_3339_and_a_nonsense_time_does_not_panic() {
        assert_eq!(UnixSeconds(1_767_225_600).to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(UnixSeconds(i64::MAX).to_string(), "@9223372036854775807");
    }

    #[test]
    fn plans_are_ordered_and_their_names_read_back() {
        assert!(Plan::Free < Plan::Paid && Plan::Paid < Plan::Plus);
        for plan in Plan::ALL {
            assert_eq!(plan.name().parse(), Ok(plan));
        }
        assert!("Plus".parse::<Plan>().is_err());
    }
}
