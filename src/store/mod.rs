//! Durable state: accounts, keys, presets, usage, billed requests and jobs, in a redb file or a PostgreSQL database.
//!
//! [`StateStore`] is the interface for the rest of the program; [`RedbStore`] is the store of one machine, [`PostgresStore`]
//! that on a server. Both apply the same changes (`apply_change.rs`) to tables of their own (`write_tables.rs`). Nothing
//! outside this module depends on either.
//!
//! The contract:
//! - A [`Change`] is one atomic unit. It is either refused ([`ChangeError`]) without a trace, or it is on the disk (fsync)
//!   before its callback is called: what was acknowledged survives `kill -9` and a power cut.
//! - Callbacks are called in the order in which changes took effect, so a copy in memory that is updated there never goes
//!   back, even when the caller has disconnected.
//! - Changes that wait for the disk share the next commit (group commit); none waits for a batch to fill.
//! - At [`QUEUED_CHANGES`] waiting changes the next one is refused with [`ChangeError::Busy`].
//! - After a storage fault, such as a full disk, the file is opened again (`reopen.rs`). Until it can be written,
//!   changes are refused with [`ChangeError::Unavailable`] and [`StateStore::fault`] has the reason.

mod account_turns;
mod apply_bill;
mod apply_change;
mod change;
mod compaction;
mod database_file;
mod disk_reserve;
mod export_import;
#[cfg(any(test, fuzzing))]
mod faulty_disk;
mod followers;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod generated_backdrops;
mod group_commit;
mod image_lease;
mod integrity_check;
mod postgres;
#[cfg(test)]
mod power_loss_tests;
mod private_files;
mod quota;
mod quota_check;
mod records;
mod redb_store;
mod reopen;
mod state_store;
mod storage_fault;
#[cfg(test)]
mod storage_fault_tests;
mod tables;
mod time;
mod unreadable_jobs;
mod write_tables;

pub use change::{Bill, BillCheck, Change, ChangeError, JobEnd, KeyUse, PRESETS_PER_ACCOUNT};
pub use database_file::file_in;
pub use export_import::{ExportError, ExportedAccounts, ImportError};
pub use generated_backdrops::GeneratedCount;
pub use image_lease::{LEASE, LEASED_IMAGES, LeaseChange, LeaseRequest, LeaseShare, lease_target};
pub use integrity_check::{IntegrityReport, RowCounts};
pub use postgres::{
    BULK_ID_PREFIX, BULK_LEASE, BulkJob, BulkJobCreated, BulkJobEnd, BulkLead, BulkQueue, BulkRun, BulkRunState,
    BulkStatus, ChunkEnd, ChunkProgress, Claim, NewBulkJob, NewChunk, PostgresServer, PostgresStore, ServerError,
    StoreConfig,
};
pub use private_files::{create_private_dir, make_private, sync_dir};
pub use quota::QuotaCheck;
pub use records::{
    Account, AccountModel, AccountRecord, AccountV1, AccountV2, AccountV3, Job, JobError, JobRecord, JobResult,
    JobState, JobV1, Key, KeyDay, KeyDayRecord, KeyDayV1, KeyHash, KeyRecord, KeyV1, KeyV2, KeyV3, NOTHING_FETCHED,
    Plan, Preset, PresetRecord, PresetV1, PreviousSecret, Record, RecordError, Request, RequestRecord, RequestV1,
    RequestV2, Usage, UsageRecord, UsageV1, Webhook,
};
pub use redb_store::RedbStore;
pub use state_store::{
    Follower, KEY_DAYS_KEPT, OnCommit, OpenError, QUEUED_CHANGES, REQUEST_SECONDS, Rows, StateStore,
};
pub use time::{Day, Month, UnixSeconds};
