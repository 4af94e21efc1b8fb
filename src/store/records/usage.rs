//! Stored usage: images and price per account and month, and per key and day.

use serde::{Deserialize, Serialize};

use super::OneVersion;

/// An account's usage in a month, in the newest form.
pub type Usage = UsageV1;

/// A key's usage on a day, in the newest form.
pub type KeyDay = KeyDayV1;

/// An account's usage in a month, as stored. Account and month are the key of the table. Since schema 2.
pub type UsageRecord = OneVersion<UsageV1>;

/// Version 1 of an account's usage in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageV1 {
    /// Images billed.
    pub images: u64,
    /// Their price, in millionths of a dollar.
    pub microdollars: u64,
}

impl UsageV1 {
    /// The sum of both, saturating.
    pub(in crate::store) const fn plus(self, more: Self) -> Self {
        Self {
            images: self.images.saturating_add(more.images),
            microdollars: self.microdollars.saturating_add(more.microdollars),
        }
    }
}

/// A key's usage on a day (UTC), as stored. Account, day and key are the key of the table. Since schema 6.
pub type KeyDayRecord = OneVersion<KeyDayV1>;

/// Version 1 of a key's usage on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDayV1 {
    /// Images billed, as in the account's month: pictures, and one for each started second of a clip.
    pub images: u64,
    /// Length of the clips among them.
    pub milliseconds: u64,
    /// Their price, in millionths of a dollar.
    pub microdollars: u64,
}

impl KeyDayV1 {
    /// The sum of both, saturating.
    pub(crate) const fn plus(self, more: Self) -> Self {
        Self {
            images: self.images.saturating_add(more.images),
            milliseconds: self.milliseconds.saturating_add(more.milliseconds),
            microdollars: self.microdollars.saturating_add(more.microdollars),
        }
    }
}
