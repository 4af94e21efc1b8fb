//! What a change needs of the tables of an open write transaction, whatever database they are in.
//!
//! `apply_change.rs` has the rules of every change, `apply_bill.rs` those of a bill, and `export_import.rs` those of an import; an
//! implementation only reads and writes rows. [`tables::Writing`](super::tables::Writing) is the one on redb, `postgres/tables.rs` that
//! on PostgreSQL, with `postgres/bill_batch.rs` for several bills.
//! A `put` overwrites, and keeps the indexes of its table.

use super::storage_fault::{ApplyError, Fault};
use super::{
    Account, ChangeError, Day, GeneratedCount, Job, Key, KeyDay, KeyHash, LeaseRequest, Month, Preset, Request,
    UnixSeconds, Usage,
};

/// Images of a month, billed and reserved, and leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ImagesInMonth {
    /// Of the account.
    pub(super) account: u64,
    /// Of the key; 0 without one.
    pub(super) key: u64,
    /// Further ones that daemons lease, of the account.
    pub(super) leased: u64,
    /// Those of the key; 0 without one.
    pub(super) leased_by_key: u64,
}

/// The tables of an open write transaction, as bills use them.
pub(super) trait BillTables {
    /// Whether the account exists, without reading it.
    fn has_account(&mut self, name: &str) -> Result<bool, Fault>;

    /// One request by its account and `Idempotency-Key`.
    fn request(&mut self, account: &str, key: &str) -> Result<Option<Request>, Fault>;

    /// Images of a month that were billed, that unfinished jobs reserve, and that daemons lease.
    fn images_in_month(&mut self, account: &str, key_id: Option<&str>, month: Month) -> Result<ImagesInMonth, Fault>;

    /// Takes images from a lease; whether it has as many.
    fn spend_lease(&mut self, id: i64, images: u64) -> Result<bool, Fault> {
        let _ = (id, images);
        Ok(false)
    }

    /// Removes the leases whose time is over.
    fn drop_ended_leases(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Adds to a row, saturating; returns the sum.
    fn add_usage(&mut self, account: &str, month: Month, more: Usage) -> Result<Usage, Fault>;

    fn put_request(&mut self, account: &str, key: &str, request: &Request) -> Result<(), Fault>;

    /// Adds to a row, saturating; returns the sum.
    fn add_key_day(&mut self, account: &str, day: Day, key_id: &str, more: KeyDay) -> Result<KeyDay, Fault>;
}

/// The tables of an open write transaction.
pub(super) trait WriteTables: BillTables {
    /// Whether there are no rows, single numbers aside.
    fn is_empty(&mut self) -> Result<bool, Fault>;

    /// One account.
    fn account(&mut self, name: &str) -> Result<Option<Account>, Fault>;

    fn put_account(&mut self, account: &Account) -> Result<(), Fault>;

    /// One key by the hash of its newest token.
    fn key(&mut self, hash: KeyHash) -> Result<Option<Key>, Fault>;

    /// One key by its id.
    fn find_key(&mut self, id: &str) -> Result<Option<(KeyHash, Key)>, Fault>;

    /// Those of these keys that there are.
    fn find_keys(&mut self, ids: &[&str]) -> Result<Vec<(KeyHash, Key)>, Fault> {
        ids.iter().filter_map(|id| self.find_key(id).transpose()).collect()
    }

    fn put_key(&mut self, hash: KeyHash, key: &Key) -> Result<(), Fault>;

    /// Writes keys, each once.
    fn put_keys(&mut self, keys: &[(KeyHash, Key)]) -> Result<(), Fault> {
        keys.iter().try_for_each(|(hash, key)| self.put_key(*hash, key))
    }

    /// Removes a row whose key is put under another hash in the same change.
    fn remove_key(&mut self, hash: KeyHash) -> Result<(), Fault>;

    /// One preset.
    fn preset(&mut self, account: &str, id: &str) -> Result<Option<Preset>, Fault>;

    /// The id of the account's preset of this name.
    fn preset_id(&mut self, account: &str, name: &str) -> Result<Option<String>, Fault>;

    /// The number of an account's presets.
    fn count_presets(&mut self, account: &str) -> Result<usize, Fault>;

    /// Writes a preset; `before` is the one that it overwrites.
    fn put_preset(&mut self, before: Option<&Preset>, preset: &Preset) -> Result<(), Fault>;

    fn remove_preset(&mut self, preset: &Preset) -> Result<(), Fault>;

    /// Whether there is a row of the account and month.
    fn has_usage(&mut self, account: &str, month: Month) -> Result<bool, Fault>;

    /// Whether there is a row of the account, day and key.
    fn has_key_day(&mut self, account: &str, day: Day, key_id: &str) -> Result<bool, Fault>;

    /// Drops the rows before a day.
    fn forget_key_days(&mut self, before: Day) -> Result<(), Fault>;

    /// The images of a lease. A store of one process has no leases.
    fn leased_images(&mut self, id: i64) -> Result<Option<u64>, Fault> {
        let _ = id;
        Ok(None)
    }

    /// Writes a lease with these images from now on, or removes it where it has none.
    fn put_lease(&mut self, lease: &LeaseRequest, images: u64) -> Result<(), Fault> {
        let _ = (lease, images);
        Ok(())
    }

    /// Whether there is a row of the account and `Idempotency-Key`.
    fn has_request(&mut self, account: &str, key: &str) -> Result<bool, Fault>;

    /// Drops up to `at_most` requests from before a time, oldest first; returns how many.
    fn forget_requests(&mut self, before: UnixSeconds, at_most: usize) -> Result<usize, Fault>;

    /// One job.
    fn job(&mut self, id: &str) -> Result<Option<Job>, Fault>;

    /// The id of the key's job of this name.
    fn job_id(&mut self, key_id: &str, name: &str) -> Result<Option<String>, Fault>;

    /// The number of unfinished jobs of a key.
    fn count_waiting(&mut self, key_id: &str) -> Result<usize, Fault>;

    /// All running jobs, in the order of the queue.
    fn running_jobs(&mut self) -> Result<Vec<Job>, Fault>;

    fn put_job(&mut self, job: &Job) -> Result<(), Fault>;

    fn remove_job(&mut self, job: &Job) -> Result<(), Fault>;

    /// Whether a job is this process's.
    fn owns_job(&mut self, id: &str) -> Result<bool, Fault>;

    /// Makes the jobs of daemons that are gone this process's; returns them.
    fn adopt_jobs(&mut self) -> Result<Vec<Job>, Fault>;

    /// Backdrops of the last day on which one was generated.
    fn generated(&mut self) -> Result<Option<GeneratedCount>, Fault>;

    fn put_generated(&mut self, generated: GeneratedCount) -> Result<(), Fault>;

    /// Records that a job of an account was started.
    fn record_turn(&mut self, account: &str) -> Result<(), Fault>;
}

/// The account of this name, or a refusal.
pub(super) fn require_account(tables: &mut dyn WriteTables, name: &str) -> Result<Account, ApplyError> {
    tables.account(name)?.ok_or_else(|| ChangeError::NoSuchAccount(name.into()).into())
}

/// Refuses a name that is taken.
pub(super) fn check_new_account(tables: &mut dyn WriteTables, name: &str) -> Result<(), ApplyError> {
    if tables.has_account(name)? { Err(ChangeError::AccountExists(name.into()).into()) } else { Ok(()) }
}

/// The key of this id, or a refusal.
pub(super) fn require_key(tables: &mut dyn WriteTables, id: &str) -> Result<(KeyHash, Key), ApplyError> {
    tables.find_key(id)?.ok_or_else(|| ChangeError::NoSuchKey(id.into()).into())
}

/// Refuses a key whose hash or id exists already.
pub(super) fn check_new_key(tables: &mut dyn WriteTables, hash: KeyHash, key: &Key) -> Result<(), ApplyError> {
    if tables.key(hash)?.is_some() || tables.find_key(&key.id)?.is_some() {
        return Err(ChangeError::KeyExists.into());
    }
    Ok(())
}

/// The job of this id, or a refusal.
pub(super) fn require_job(tables: &mut dyn WriteTables, id: &str) -> Result<Job, ApplyError> {
    tables.job(id)?.ok_or_else(|| ChangeError::NoSuchJob(id.into()).into())
}

/// Refuses a job whose id or name exists already.
pub(super) fn check_new_job(tables: &mut dyn WriteTables, job: &Job) -> Result<(), ApplyError> {
    if tables.job(&job.id)?.is_some() {
        return Err(ChangeError::JobExists(job.id.clone()).into());
    }
    let taken_by = job.name.as_ref().map(|name| tables.job_id(&job.key_id, name)).transpose()?.flatten();
    taken_by.map_or(Ok(()), |id| Err(ChangeError::JobNameTaken(id).into()))
}
