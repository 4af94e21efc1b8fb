//! Stored records, version by version: accounts, keys, presets, usage, billed requests and jobs.
//!
//! A record is an enum with one variant per version, in postcard: the variant's index is the first byte. A version that
//! was released is never edited, reordered or removed; a new one is a new variant at the end, and `latest` converts.
//! `schemas/records/` holds the exact bytes of every version, and a test reads each of them.

mod account;
mod job;
mod key;
mod plan;
mod preset;
mod record;
mod request;
mod usage;

pub use account::{Account, AccountModel, AccountRecord, AccountV1, AccountV2, AccountV3};
pub use job::{Job, JobError, JobRecord, JobResult, JobState, JobV1, Webhook};
pub use key::{Key, KeyHash, KeyRecord, KeyV1, KeyV2, KeyV3, PreviousSecret};
pub use plan::Plan;
pub use preset::{Preset, PresetRecord, PresetV1};
pub use record::{OneVersion, Record, RecordError};
pub use request::{NOTHING_FETCHED, Request, RequestRecord, RequestV1, RequestV2};
pub use usage::{KeyDay, KeyDayRecord, KeyDayV1, Usage, UsageRecord, UsageV1};
