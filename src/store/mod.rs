//! Durable state: accounts, keys, presets, usage, billed requests and jobs, in a redb file or a PostgreSQL database.
//!
//! [`Store`] is the interface for the rest of the program (`engine.rs`), with two implementations: on one machine a file
//! ([`RedbStore`]) with copies in memory (`local/`); for several a database (`postgres/`), of which nothing is in memory. The rules
//! of changes to single rows are common to both (`transitions.rs`).
//!
//! The contract of the file ([`RedbStore`]):
//! - A [`Change`] is one atomic unit. It is either refused ([`ChangeError`]) without a trace, or it is on the disk (fsync)
//!   before its callback is called: what was acknowledged survives `kill -9` and a power cut.
//! - Callbacks are called in the order in which changes took effect, so a copy in memory that is updated there never goes
//!   back, even when the caller has disconnected.
//! - Changes that wait for the disk share the next commit (group commit); none waits for a batch to fill.
//! - At [`QUEUED_CHANGES`] waiting changes the next one is refused with [`ChangeError::Busy`].
//! - After a storage fault, such as a full disk, the file is opened again (`group_commit.rs`). Until it can be written,
//!   changes are refused with [`ChangeError::Unavailable`] and [`StateStore::fault`] has the reason.

mod admission;
mod apply_change;
mod backdrops;
mod billing;
mod change;
mod claim;
mod database_file;
mod engine;
mod export_import;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod generated_backdrops;
mod group_commit;
mod integrity_check;
mod job_claim;
mod local;
mod postgres;
mod private_files;
mod quota;
mod records;
mod redb_store;
mod state_store;
mod storage_fault;
mod tables;
#[cfg(any(test, fuzzing))]
mod tests;
mod time;
mod transitions;
mod unreadable_jobs;

pub use admission::{
    Admission, Admitted, Allowance, Credential, ImagesLeft, RateKind, RateRule, RateStatus, id_without_key,
    whole_seconds,
};
pub use backdrops::BackdropReservation;
pub use billing::{Billed, BillingError, Reservation};
pub use change::{Bill, Change, ChangeError, JobChange, JobEnd, KeyChange, KeyUpdate, KeyUse, PRESETS_PER_ACCOUNT};
pub use claim::{BilledPictures, Claim, ClaimGuard};
pub use database_file::{file_in, probe};
pub use engine::Store;
pub(crate) use engine::written;
pub use export_import::{ExportError, ImportError};
pub use generated_backdrops::GeneratedCount;
pub use integrity_check::{IntegrityReport, RowCounts};
pub use job_claim::{ClaimedJob, JobHeartbeat, Renewal};
pub use local::LocalStore;
#[cfg(test)]
pub(crate) use local::{CommitMode, MemoryStore};
pub use postgres::{
    BULK_ID_PREFIX, BULK_LEASE, BulkJob, BulkJobCreated, BulkJobEnd, BulkLead, BulkQueue, BulkRun, BulkRunState,
    BulkStatus, ChunkClaim, Database, JOB_LEASE, NewBulkJob, NewChunk, PostgresServer, ServerError, StoreConfig,
};
pub use private_files::{create_private_dir, make_private, sync_dir};
pub use quota::{Payer, QuotaExhausted, QuotaKind, UsageSummary};
pub use records::{
    Account, AccountModel, AccountRecord, AccountV1, AccountV2, AccountV3, Job, JobError, JobRecord, JobResult,
    JobState, JobV1, Key, KeyDay, KeyDayRecord, KeyDayV1, KeyHash, KeyRecord, KeyV1, KeyV2, KeyV3, NOTHING_FETCHED,
    OneVersion, Plan, Preset, PresetRecord, PresetV1, PreviousSecret, Record, RecordError, Request, RequestRecord,
    RequestV1, RequestV2, Usage, UsageRecord, UsageV1, Webhook,
};
pub use redb_store::RedbStore;
pub use state_store::{
    KEY_DAYS_KEPT, LookupBy, OnCommit, OpenError, QUEUED_CHANGES, REQUEST_SECONDS, Rows, StateStore,
};
pub use time::{Day, Month, UnixSeconds};
