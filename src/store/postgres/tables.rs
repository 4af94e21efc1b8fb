//! The tables of a PostgreSQL transaction, as changes and imports use them.

use super::bill_batch::BillBatch;
use super::reads::{Queries, account, count, key, limit_of, readable_job, stored};
use crate::store::records::{AccountRecord, JobRecord, KeyRecord, PresetRecord, Record};
use crate::store::storage_fault::Fault;
use crate::store::write_tables::{BillTables, ImagesInMonth, WriteTables};
use crate::store::{
    Account, Day, GeneratedCount, Job, Key, KeyDay, KeyHash, LEASE, LeaseRequest, Month, Preset, Request, UnixSeconds,
    Usage,
};

impl Queries<'_> {
    /// Ends the transaction without its changes. A dropped one ends no sooner than with the next use of its connection, and keeps
    /// its locks until then.
    pub(super) fn roll_back(self) -> Result<(), Fault> {
        self.driver.run(self.transaction.rollback())
    }

    /// Commits the transaction.
    pub(super) fn commit(self) -> Result<(), Fault> {
        self.driver.run(self.transaction.commit())
    }
}

/// For changes that are no bills, and imports: a row at a time.
impl BillTables for Queries<'_> {
    fn has_account(&mut self, name: &str) -> Result<bool, Fault> {
        BillBatch::new(self).has_account(name)
    }

    fn request(&mut self, account: &str, key: &str) -> Result<Option<Request>, Fault> {
        BillBatch::new(self).request(account, key)
    }

    fn images_in_month(&mut self, account: &str, key_id: Option<&str>, month: Month) -> Result<ImagesInMonth, Fault> {
        BillBatch::new(self).images_in_month(account, key_id, month)
    }

    fn spend_lease(&mut self, id: i64, images: u64) -> Result<bool, Fault> {
        let text = "UPDATE leases SET images = images - $2 WHERE id = $1 AND images >= $2 RETURNING id";
        self.has(text, &[&id, &stored(images)])
    }

    fn drop_ended_leases(&mut self) -> Result<(), Fault> {
        self.execute("DELETE FROM leases WHERE lease_until < clock_timestamp()", &[])
    }

    fn add_usage(&mut self, account: &str, month: Month, more: Usage) -> Result<Usage, Fault> {
        let mut rows = BillBatch::new(self);
        let sum = rows.add_usage(account, month, more)?;
        rows.write().map(|()| sum)
    }

    fn put_request(&mut self, account: &str, key: &str, request: &Request) -> Result<(), Fault> {
        let mut rows = BillBatch::new(self);
        rows.put_request(account, key, request)?;
        rows.write()
    }

    fn add_key_day(&mut self, account: &str, day: Day, key_id: &str, more: KeyDay) -> Result<KeyDay, Fault> {
        let mut rows = BillBatch::new(self);
        let sum = rows.add_key_day(account, day, key_id, more)?;
        rows.write().map(|()| sum)
    }
}

impl WriteTables for Queries<'_> {
    fn is_empty(&mut self) -> Result<bool, Fault> {
        // All other rows refer to an account, keys aside.
        Ok(!self.has("SELECT 1 FROM accounts LIMIT 1", &[])? && !self.has("SELECT 1 FROM keys LIMIT 1", &[])?)
    }

    fn account(&mut self, name: &str) -> Result<Option<Account>, Fault> {
        self.row("SELECT record FROM accounts WHERE name = $1", &[&name])?.map(|row| account(&row)).transpose()
    }

    fn put_account(&mut self, account: &Account) -> Result<(), Fault> {
        let record = AccountRecord::from_latest(account.clone()).encode();
        let text = "INSERT INTO accounts VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET record = $2";
        self.execute(text, &[&account.name, &record])
    }

    fn key(&mut self, hash: KeyHash) -> Result<Option<Key>, Fault> {
        let row = self.row("SELECT hash, record FROM keys WHERE hash = $1", &[&hash.0.as_slice()])?;
        row.map(|row| key(&row).map(|(_, key)| key)).transpose()
    }

    fn find_key(&mut self, id: &str) -> Result<Option<(KeyHash, Key)>, Fault> {
        self.row("SELECT hash, record FROM keys WHERE id = $1", &[&id])?.map(|row| key(&row)).transpose()
    }

    fn put_key(&mut self, hash: KeyHash, key: &Key) -> Result<(), Fault> {
        let record = KeyRecord::from_latest(key.clone()).encode();
        let text = "INSERT INTO keys VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET hash = $2, record = $3";
        self.execute(text, &[&key.id, &hash.0.as_slice(), &record])
    }

    fn find_keys(&mut self, ids: &[&str]) -> Result<Vec<(KeyHash, Key)>, Fault> {
        let text = "SELECT hash, record FROM keys WHERE id = ANY ($1) ORDER BY id";
        self.rows(text, &[&ids])?.iter().map(key).collect()
    }

    fn put_keys(&mut self, keys: &[(KeyHash, Key)]) -> Result<(), Fault> {
        let ids: Vec<&str> = keys.iter().map(|(_, key)| key.id.as_str()).collect();
        let hashes: Vec<&[u8]> = keys.iter().map(|(hash, _)| hash.0.as_slice()).collect();
        let records: Vec<Vec<u8>> = keys.iter().map(|(_, key)| KeyRecord::from_latest(key.clone()).encode()).collect();
        let text = "INSERT INTO keys (id, hash, record) SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[]) \
             ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, record = excluded.record";
        self.execute(text, &[&ids, &hashes, &records])
    }

    fn remove_key(&mut self, hash: KeyHash) -> Result<(), Fault> {
        self.execute("DELETE FROM keys WHERE hash = $1", &[&hash.0.as_slice()])
    }

    fn preset(&mut self, account: &str, id: &str) -> Result<Option<Preset>, Fault> {
        self.preset(account, id)
    }

    fn preset_id(&mut self, account: &str, name: &str) -> Result<Option<String>, Fault> {
        let row = self.row("SELECT id FROM presets WHERE account = $1 AND name = $2", &[&account, &name])?;
        Ok(row.map(|row| row.get(0)))
    }

    fn count_presets(&mut self, account: &str) -> Result<usize, Fault> {
        let row = self.row("SELECT count(*) FROM presets WHERE account = $1", &[&account])?;
        Ok(row.map_or(0, |row| usize::try_from(count(&row, 0)).unwrap_or(usize::MAX)))
    }

    fn put_preset(&mut self, _before: Option<&Preset>, preset: &Preset) -> Result<(), Fault> {
        let record = PresetRecord::from_latest(preset.clone()).encode();
        let text = "INSERT INTO presets VALUES ($1, $2, $3, $4) \
             ON CONFLICT (account, id) DO UPDATE SET name = $3, record = $4";
        self.execute(text, &[&preset.account, &preset.id, &preset.name, &record])
    }

    fn remove_preset(&mut self, preset: &Preset) -> Result<(), Fault> {
        self.execute("DELETE FROM presets WHERE account = $1 AND id = $2", &[&preset.account, &preset.id])
    }

    fn has_usage(&mut self, account: &str, month: Month) -> Result<bool, Fault> {
        let text = "SELECT 1 FROM usage WHERE account = $1 AND month = $2";
        self.has(text, &[&account, &i64::from(month.0)])
    }

    fn has_key_day(&mut self, account: &str, day: Day, key_id: &str) -> Result<bool, Fault> {
        let text = "SELECT 1 FROM key_days WHERE account = $1 AND day = $2 AND key_id = $3";
        self.has(text, &[&account, &i64::from(day.0), &key_id])
    }

    fn forget_key_days(&mut self, before: Day) -> Result<(), Fault> {
        self.execute("DELETE FROM key_days WHERE day < $1", &[&i64::from(before.0)])
    }

    fn leased_images(&mut self, id: i64) -> Result<Option<u64>, Fault> {
        Ok(self.row("SELECT images FROM leases WHERE id = $1", &[&id])?.map(|row| count(&row, 0)))
    }

    fn put_lease(&mut self, lease: &LeaseRequest, images: u64) -> Result<(), Fault> {
        let LeaseRequest { id, account, key_id, month, .. } = lease;
        if images == 0 {
            return self.execute("DELETE FROM leases WHERE id = $1", &[id]);
        }
        // Not the time at which the transaction began: it may have waited for others.
        let text = "INSERT INTO leases (id, daemon, account, key_id, month, images, lease_until) \
             VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7)) \
             ON CONFLICT (id) DO UPDATE SET images = excluded.images, lease_until = excluded.lease_until";
        let (daemon, month, images) = (self.daemon, i64::from(month.0), stored(images));
        self.execute(text, &[id, &daemon, account, key_id, &month, &images, &LEASE.as_secs_f64()])
    }

    fn has_request(&mut self, account: &str, key: &str) -> Result<bool, Fault> {
        self.has("SELECT 1 FROM requests WHERE account = $1 AND key = $2", &[&account, &key])
    }

    fn forget_requests(&mut self, before: UnixSeconds, at_most: usize) -> Result<usize, Fault> {
        // By their places: joined by their keys, a table that was small when the connection made its plan is read as a whole. No
        // row moves in between, since commits have one order.
        let text = "DELETE FROM requests WHERE ctid = ANY (ARRAY \
             (SELECT ctid FROM requests WHERE at < $1 ORDER BY at, account, key LIMIT $2))";
        let forgotten = self.count_changed(text, &[&before.0, &limit_of(at_most)])?;
        Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
    }

    fn job(&mut self, id: &str) -> Result<Option<Job>, Fault> {
        self.job(id)
    }

    fn job_id(&mut self, key_id: &str, name: &str) -> Result<Option<String>, Fault> {
        let row = self.row("SELECT id FROM jobs WHERE key_id = $1 AND name = $2", &[&key_id, &name])?;
        Ok(row.map(|row| row.get(0)))
    }

    fn count_waiting(&mut self, key_id: &str) -> Result<usize, Fault> {
        let text = "SELECT id, record FROM jobs WHERE key_id = $1 AND state IN ('queued', 'processing')";
        let readable = self.rows(text, &[&key_id])?.iter().map(readable_job).filter_map(Result::transpose).count();
        Ok(readable)
    }

    fn running_jobs(&mut self) -> Result<Vec<Job>, Fault> {
        self.running_jobs()
    }

    fn put_job(&mut self, job: &Job) -> Result<(), Fault> {
        let record = JobRecord::from_latest(job.clone()).encode();
        let text = "INSERT INTO jobs (id, key_id, account, name, state, place, due_at, webhook_at, record, owner, month, \
               reserved) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO UPDATE SET \
             key_id = $2, account = $3, name = $4, state = $5, place = $6, due_at = $7, webhook_at = $8, record = $9, \
             month = $11, reserved = $12";
        let (month, reserved, owner) = (i64::from(job.month.0), stored(job.reserved), self.daemon);
        let (due_at, webhook_at) = (job.due_at().map(|at| at.0), job.webhook_at().map(|at| at.0));
        let state = job.state.name();
        self.execute(
            text,
            &[
                &job.id,
                &job.key_id,
                &job.account,
                &job.name,
                &state,
                &job.place,
                &due_at,
                &webhook_at,
                &record,
                &owner,
                &month,
                &reserved,
            ],
        )
    }

    fn remove_job(&mut self, job: &Job) -> Result<(), Fault> {
        self.execute("DELETE FROM jobs WHERE id = $1", &[&job.id])
    }

    fn owns_job(&mut self, id: &str) -> Result<bool, Fault> {
        let daemon = self.daemon;
        self.has("SELECT 1 FROM jobs WHERE id = $1 AND owner IS NOT DISTINCT FROM $2", &[&id, &daemon])
    }

    fn adopt_jobs(&mut self) -> Result<Vec<Job>, Fault> {
        let text = "UPDATE jobs SET owner = $1 WHERE owner <> $1 AND id IN (SELECT id FROM orphaned_jobs) \
             RETURNING id, record";
        let daemon = self.daemon;
        self.rows(text, &[&daemon])?.iter().map(readable_job).filter_map(Result::transpose).collect()
    }

    fn generated(&mut self) -> Result<Option<GeneratedCount>, Fault> {
        self.generated()
    }

    fn put_generated(&mut self, generated: GeneratedCount) -> Result<(), Fault> {
        // A day has far fewer than 31 bits.
        self.put_number("generated", generated.packed().cast_signed())
    }

    fn record_turn(&mut self, account: &str) -> Result<(), Fault> {
        self.record_turn(account)
    }
}
