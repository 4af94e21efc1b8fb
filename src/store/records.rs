//! What is stored, version by version.
//!
//! A record is an enum with one variant per version, in postcard: the variant's index is the first byte. A version that
//! was released is never edited, reordered or removed; a new one is a new variant at the end, and `latest` converts.
//! `schemas/records/` holds the exact bytes of every version, and a test reads each of them.

use crate::recipe::{InferenceMode, MAX_BATCH};
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

impl UnixSeconds {
    /// The time as a calendar has it; the nearest one that it has for a nonsense time.
    fn timestamp(self) -> jiff::Timestamp {
        let nearest = if self.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        jiff::Timestamp::from_second(self.0).unwrap_or(nearest)
    }
}

/// A calendar month in UTC, as the number `year * 100 + month`: 202611 is November 2026.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Month(pub u32);

impl Month {
    /// The month that a time is in. Times before the year 0 count as its first month.
    #[must_use]
    pub fn of(time: UnixSeconds) -> Self {
        let date = jiff::tz::Offset::UTC.to_datetime(time.timestamp()).date();
        let (Ok(year), Ok(month)) = (u32::try_from(date.year()), u32::try_from(date.month())) else {
            return Self(1);
        };
        Self(year * 100 + month)
    }

    /// The first second of the next month; the end of time for a number that is no month.
    #[must_use]
    pub fn ends(self) -> UnixSeconds {
        let (year, month) = (self.0 / 100, self.0 % 100);
        let (year, month) = if month == 12 { (year.saturating_add(1), 1) } else { (year, month + 1) };
        let date = i16::try_from(year).ok().zip(i8::try_from(month).ok()).filter(|_| self.is_valid());
        date.and_then(|(year, month)| jiff::civil::Date::new(year, month, 1).ok())
            .and_then(|date| jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok())
            .map_or(UnixSeconds(i64::MAX), |time| UnixSeconds(time.as_second()))
    }

    /// The month before this one; itself for the first of all.
    #[must_use]
    pub const fn previous(self) -> Self {
        match (self.0 / 100, self.0 % 100) {
            (0, 0 | 1) => self,
            (year, 0 | 1) => Self((year - 1) * 100 + 12),
            (year, month) => Self(year * 100 + month - 1),
        }
    }

    /// Whether a calendar has it.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        matches!(self.0 % 100, 1..=12) && self.0 / 100 <= 9999
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0 / 100, self.0 % 100)
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

/// Which model cuts out for an account where a request does not say; nothing where the daemon's does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountModel(pub Option<InferenceMode>);

impl AccountModel {
    /// What operators write for the daemon's.
    const DEFAULT: &'static str = "default";

    /// As operators write it: `default`, `standard` or `quality`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            None => Self::DEFAULT,
            Some(model) => model.name(),
        }
    }
}

impl std::str::FromStr for AccountModel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let model = InferenceMode::ALL.into_iter().find(|model| model.name() == text);
        let known = model.is_some() || text == Self::DEFAULT;
        known.then_some(Self(model)).ok_or("expected default, standard or quality")
    }
}

/// An account, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountRecord {
    /// Schema 1.
    V1(AccountV1),
    /// Since schema 2.
    V2(AccountV2),
    /// Since schema 4.
    V3(AccountV3),
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

/// Version 2 of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountV2 {
    /// Unique name; also the key of the table.
    pub name: String,
    /// What it may use.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// Whether it is on the allow-list of the generated backgrounds.
    pub generates: bool,
}

/// Version 3 of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountV3 {
    /// Unique name; also the key of the table.
    pub name: String,
    /// What it may use.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// Whether it is on the allow-list of the generated backgrounds.
    pub generates: bool,
    /// Which model cuts out for it.
    pub model: AccountModel,
}

/// A key, as stored. The token itself is not in it, in no form: its SHA-256 is the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyRecord {
    /// Schema 1.
    V1(KeyV1),
    /// Since schema 2.
    V2(KeyV2),
    /// Since schema 6.
    V3(KeyV3),
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

/// Version 2 of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyV2 {
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
    /// When it was last used, some seconds late: uses are written in batches.
    pub last_used_at: Option<UnixSeconds>,
}

/// Version 3 of a key: may expire, have a bound of its own, be for some endpoints only, and have two secrets for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyV3 {
    /// Public id, `key_` + 12 characters. It stays when the secret is replaced.
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
    /// When it was last used, some seconds late: uses are written in batches.
    pub last_used_at: Option<UnixSeconds>,
    /// From when on it is refused.
    pub expires_at: Option<UnixSeconds>,
    /// Images that it may have made in a calendar month (UTC).
    pub images_per_month: Option<u64>,
    /// The endpoints it is for, each as its path without the leading slash; none for all of them.
    pub scopes: Vec<String>,
    /// The secret before this one, while it still works.
    pub previous: Option<PreviousSecret>,
}

/// A replaced secret that still works. Part of a stored key: never edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// From when on it is refused.
    pub until: UnixSeconds,
}

/// A preset, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PresetRecord {
    /// Since schema 2.
    V1(PresetV1),
}

/// Version 1 of a preset: parameters saved under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresetV1 {
    /// Public id, `preset_` + 12 characters; with the account the key of the table.
    pub id: String,
    /// Name of the account it belongs to.
    pub account: String,
    /// The owner's name for it, unique in the account.
    pub name: String,
    /// The endpoint it was made for, as its path.
    pub endpoint: Option<String>,
    /// The parameters: a JSON object as text.
    pub params: String,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// When it was last overwritten.
    pub updated_at: UnixSeconds,
}

/// What an account used in a month, as stored. Account and month are the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UsageRecord {
    /// Since schema 2.
    V1(UsageV1),
}

/// Version 1 of an account's use in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageV1 {
    /// Images billed.
    pub images: u64,
    /// Their price, in millionths of a dollar.
    pub microdollars: u64,
}

/// What a key used on a day (UTC), as stored. Account, day and key are the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyDayRecord {
    /// Since schema 6.
    V1(KeyDayV1),
}

/// Version 1 of a key's use on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDayV1 {
    /// Images billed, as the account's month counts them: pictures, and one for each second of a clip that was begun.
    pub images: u64,
    /// Length of the clips among them.
    pub milliseconds: u64,
    /// Their price, in millionths of a dollar.
    pub microdollars: u64,
}

/// A billed request, as stored. Account and `Idempotency-Key` are the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestRecord {
    /// Since schema 2.
    V1(RequestV1),
    /// Since schema 5.
    V2(RequestV2),
}

/// Version 1 of a billed request: a repetition of it is not billed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestV1 {
    /// SHA-256 of what was asked; the same key with another one is a conflict.
    pub fingerprint: [u8; 32],
    /// Images billed.
    pub images: u64,
    /// When it was billed.
    pub at: UnixSeconds,
}

/// Version 2 of a billed request: says for which pictures it was billed, and from which bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestV2 {
    /// SHA-256 of what was sent, the fields of its preset included; the same key with another one is a conflict.
    pub fingerprint: [u8; 32],
    /// Images billed.
    pub images: u64,
    /// When it was billed last.
    pub at: UnixSeconds,
    /// By the place of the picture in the request: SHA-256 of what was fetched for it, [`NOTHING_FETCHED`] where nothing
    /// was; none where the picture was not billed.
    pub pictures: Vec<Option<[u8; 32]>>,
}

/// In place of the SHA-256 of what was fetched for a picture for which nothing was fetched.
pub const NOTHING_FETCHED: [u8; 32] = [0; 32];

impl RequestV2 {
    /// The pictures of a version that did not keep them: all of an upload count as billed, and all that are fetched as
    /// fetched from other bytes.
    pub(super) fn pictures_before_v2() -> Vec<Option<[u8; 32]>> {
        vec![Some(NOTHING_FETCHED); MAX_BATCH]
    }
}

/// A job, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobRecord {
    /// Since schema 3.
    V1(JobV1),
}

/// Version 1 of a job: work that outlives its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobV1 {
    /// Public id, `job_` + 24 characters; the key of the table.
    pub id: String,
    /// Public id of the key that asked for it; nobody else sees it.
    pub key_id: String,
    /// Name of the account that is billed.
    pub account: String,
    /// Asked for with a sandbox key: never billed, and its result is marked.
    pub test: bool,
    /// Where it stands.
    pub state: JobState,
    /// How far it was when this was written, 0 to 100.
    pub progress: u8,
    /// What was asked for: names and values, as they were sent and judged.
    pub fields: Vec<(String, String)>,
    /// The file that it makes, as `format` names it.
    pub format: String,
    /// The `Idempotency-Key`, unique for the key while the record lives.
    pub name: Option<String>,
    /// SHA-256 of what was asked; the same name with another one is a conflict.
    pub fingerprint: [u8; 32],
    /// Millionths of a dollar for a second of the result.
    pub unit_price: u64,
    /// The month that it is billed to.
    pub month: Month,
    /// Images of the month's quota that it holds until it ends.
    pub reserved: u64,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// Its place in the queue and in listings: the time of its creation in milliseconds, later than that of any before.
    pub place: i64,
    /// When its state last changed.
    pub updated_at: UnixSeconds,
    /// When the record goes: 24 h after it was created, and from its end on 24 h after that.
    pub expires_at: UnixSeconds,
    /// What it made.
    pub result: Option<JobResult>,
    /// What the caller should know, each as a sentence.
    pub warnings: Vec<String>,
    /// Why it made nothing.
    pub error: Option<JobError>,
    /// Who hears of its end.
    pub webhook: Option<Webhook>,
}

/// Where a job stands. Queued → processing → done or failed, and queued → failed; back only from processing to queued,
/// when the daemon starts. Stored: never edited, reordered or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for its turn.
    Queued,
    /// Somebody works on it.
    Processing,
    /// It has a result.
    Done,
    /// It has an error.
    Failed,
}

impl JobState {
    /// All states, in the order that a job takes.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Processing, Self::Done, Self::Failed];

    /// The state as the API calls it: `queued`, `processing`, `done`, `error`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Failed => "error",
        }
    }

    /// Whether nothing more happens to it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Processing => false,
            Self::Done | Self::Failed => true,
        }
    }
}

/// What a job made. Part of a stored job: never edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// Name of the object that holds the file; nothing after it was deleted.
    pub object: Option<String>,
    /// Size of the file.
    pub bytes: u64,
    /// Frames in it.
    pub frames: u64,
    /// So many frames,
    pub rate_frames: u32,
    /// in so many seconds.
    pub rate_seconds: u32,
    /// When the object is deleted.
    pub expires_at: UnixSeconds,
}

impl JobResult {
    /// How long it is: `frames · rate_seconds / rate_frames`.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        (self.frames as f64) * f64::from(self.rate_seconds) / f64::from(self.rate_frames.max(1))
    }
}

/// Why a job made nothing. Part of a stored job: never edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// One word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

/// Who hears of the end of a job, and how often that was tried. Part of a stored job: never edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// Scheme and host by which the caller reached this daemon, for the addresses in the message.
    pub base: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next; nothing before the job's end, and after it was delivered or given up.
    pub next_at: Option<UnixSeconds>,
}

impl JobV1 {
    /// Whether a text has the form of a job's id. One that has is the name of a folder, and no way out of one.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        let random = text.strip_prefix("job_");
        random.is_some_and(|random| random.len() == 24 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    }

    /// When something of it is to be deleted: the object of its result, then the job itself. Nothing before its end.
    #[must_use]
    pub fn due_at(&self) -> Option<UnixSeconds> {
        if !self.state.is_final() {
            return None;
        }
        let held = self.result.as_ref().filter(|result| result.object.is_some());
        Some(held.map_or(self.expires_at, |result| result.expires_at.min(self.expires_at)))
    }

    /// When its end is to be told next.
    #[must_use]
    pub fn webhook_at(&self) -> Option<UnixSeconds> {
        self.webhook.as_ref().and_then(|webhook| webhook.next_at)
    }
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
    type Latest = AccountV3;

    fn latest(self) -> AccountV3 {
        let model = AccountModel::default();
        match self {
            Self::V1(AccountV1 { name, plan, created_at }) => {
                AccountV3 { name, plan, created_at, generates: false, model }
            }
            Self::V2(AccountV2 { name, plan, created_at, generates }) => {
                AccountV3 { name, plan, created_at, generates, model }
            }
            Self::V3(account) => account,
        }
    }

    fn from_latest(latest: AccountV3) -> Self {
        Self::V3(latest)
    }
}

impl Record for KeyRecord {
    type Latest = KeyV3;

    fn latest(self) -> KeyV3 {
        let unbounded = |KeyV2 { id, account, label, test, created_at, revoked_at, last_used_at }| KeyV3 {
            id,
            account,
            label,
            test,
            created_at,
            revoked_at,
            last_used_at,
            expires_at: None,
            images_per_month: None,
            scopes: Vec::new(),
            previous: None,
        };
        match self {
            Self::V1(KeyV1 { id, account, label, test, created_at, revoked_at }) => {
                unbounded(KeyV2 { id, account, label, test, created_at, revoked_at, last_used_at: None })
            }
            Self::V2(key) => unbounded(key),
            Self::V3(key) => key,
        }
    }

    fn from_latest(latest: KeyV3) -> Self {
        Self::V3(latest)
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

/// A record that has one version so far.
macro_rules! record_of_one_version {
    ($record:ident, $version:ident) => {
        impl Record for $record {
            type Latest = $version;

            fn latest(self) -> $version {
                let Self::V1(latest) = self;
                latest
            }

            fn from_latest(latest: $version) -> Self {
                Self::V1(latest)
            }
        }
    };
}

record_of_one_version!(PresetRecord, PresetV1);
record_of_one_version!(UsageRecord, UsageV1);
record_of_one_version!(KeyDayRecord, KeyDayV1);
record_of_one_version!(JobRecord, JobV1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_rfc_3339_and_a_nonsense_time_does_not_panic() {
        assert_eq!(UnixSeconds(1_767_225_600).to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(UnixSeconds(i64::MAX).to_string(), "@9223372036854775807");
    }

    #[test]
    fn a_month_ends_where_the_next_one_begins() {
        // 2026-11-30T23:59:59Z, 2026-12-01, 2026-12-31T23:59:59Z, 2027-01-01.
        for (time, month) in [(1_796_083_199, 202_611), (1_796_083_200, 202_612), (1_798_761_599, 202_612)] {
            assert_eq!(Month::of(UnixSeconds(time)), Month(month), "{time}");
        }
        assert_eq!(Month(202_611).ends(), UnixSeconds(1_796_083_200));
        assert_eq!(Month(202_612).ends(), UnixSeconds(1_798_761_600));
        let mut month = Month::of(UnixSeconds(0));
        for _ in 0..1200 {
            let next = Month::of(month.ends());
            assert_eq!(Month::of(UnixSeconds(month.ends().0 - 1)), month);
            assert_eq!(next.previous(), month);
            month = next;
        }
        assert_eq!(month.to_string(), "2070-01");
    }

    #[test]
    fn nonsense_times_and_months_do_not_panic() {
        for time in [i64::MIN, i64::MIN + 1, -1, i64::MAX] {
            assert!(Month::of(UnixSeconds(time)).is_valid(), "{time}");
        }
        for month in [0, 1, 13, 202_600, 202_613, 999_912, u32::MAX] {
            let _ = (Month(month).ends(), Month(month).previous());
        }
        assert_eq!(Month(202_613).ends(), UnixSeconds(i64::MAX));
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
