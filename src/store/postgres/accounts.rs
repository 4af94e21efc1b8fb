//! Accounts, keys, presets and the cap of generated backdrops in the database: reads, and changes in one transaction each.

use deadpool_postgres::Transaction;

use super::database::{Database, transaction};
use super::error::DatabaseError;
use super::jobs::{change_job, create_job};
use super::requests::bill;
use super::rows::{account, add_account, execute, key, key_day, limit_of, preset, put_account, put_key, row};
use crate::store::records::{PresetRecord, Record};
use crate::store::transitions::{account_after, key_after};
use crate::store::{
    Account, Change, ChangeError, Day, GeneratedCount, Key, KeyDay, KeyHash, LookupBy, OpenError, PRESETS_PER_ACCOUNT,
    Preset, Rows,
};

impl Database {
    pub(in crate::store) async fn account(&self, name: &str) -> Result<Option<Account>, OpenError> {
        let text = "SELECT record FROM accounts WHERE name = $1";
        Ok(self.read(text, &[&name], |row| account(row, 0)).await?.pop())
    }

    pub(in crate::store) async fn accounts(&self) -> Result<Vec<Account>, OpenError> {
        self.read("SELECT record FROM accounts ORDER BY name", &[], |row| account(row, 0)).await
    }

    pub(in crate::store) async fn key(&self, id: &str) -> Result<Option<(KeyHash, Key)>, OpenError> {
        Ok(self.read("SELECT hash, record, last_used_at FROM keys WHERE id = $1", &[&id], key).await?.pop())
    }

    pub(in crate::store) async fn keys(&self, account: Option<&str>) -> Result<Vec<Key>, OpenError> {
        let text = "SELECT hash, record, last_used_at FROM keys WHERE $1::text IS NULL OR account = $1";
        let mut keys = self.read(text, &[&account], |row| key(row).map(|(_, key)| key)).await?;
        keys.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(keys)
    }

    pub(in crate::store) async fn preset(
        &self,
        account: &str,
        id_or_name: &str,
        first: LookupBy,
    ) -> Result<Option<Preset>, OpenError> {
        let text = "SELECT record FROM presets WHERE account = $1 AND (id = $2 OR name = $2) \
             ORDER BY (id = $2) = $3 DESC LIMIT 1";
        Ok(self.read(text, &[&account, &id_or_name, &(first == LookupBy::Id)], preset).await?.pop())
    }

    pub(in crate::store) async fn presets(
        &self,
        account: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Preset>, OpenError> {
        let text =
            "SELECT record FROM presets WHERE account = $1 AND ($2::text IS NULL OR id > $2) ORDER BY id LIMIT $3";
        self.read(text, &[&account, &after, &limit_of(limit)], preset).await
    }

    pub(in crate::store) async fn key_days(
        &self,
        account: &str,
        (from, to): (Day, Day),
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, OpenError> {
        let text = "SELECT account, day, key_id, images, milliseconds, microdollars FROM key_days \
             WHERE account = $1 AND day BETWEEN $2 AND $3 ORDER BY day, key_id LIMIT $4";
        let days = (i64::from(from.0), i64::from(to.0));
        let convert = |row: &_| key_day(row).map(|(_, day, key_id, used)| (day, key_id, used));
        self.read(text, &[&account, &days.0, &days.1, &limit_of(limit)], convert).await
    }

    /// Makes a change in one transaction.
    pub(in crate::store) async fn change(&self, change: Change) -> Result<Rows, ChangeError> {
        Ok(transaction!(self, on, { apply(&on, change, self.free_images_per_month()).await })?)
    }
}

async fn apply(on: &Transaction<'_>, change: Change, free_images_per_month: u64) -> Result<Rows, DatabaseError> {
    let mut rows = Rows::default();
    match change {
        Change::CreateAccount { account, first_key } => {
            add_account(&**on, &account).await?;
            rows.accounts.push(account);
            if let Some((hash, key)) = first_key {
                rows.keys.push(create_key(on, hash, key).await?);
            }
        }
        Change::SetAccount { account, plan, generates, model } => {
            let account = account_after(lock_account(on, &account).await?, plan, generates, model);
            put_account(&**on, &account).await?;
            rows.accounts.push(account);
        }
        Change::CreateKey { hash, key } => {
            lock_account(on, &key.account).await?;
            rows.keys.push(create_key(on, hash, key).await?);
        }
        Change::Key { id, change } => {
            let text = "SELECT hash, record, last_used_at FROM keys WHERE id = $1 FOR UPDATE";
            let found = row(on, text, &[&id]).await?.ok_or(ChangeError::NoSuchKey(id))?;
            let (before, found) = key(&found)?;
            let (hash, key) = key_after(before, found, change)?;
            put_new_key(on, hash, &key).await?;
            rows.keys.push((hash, key));
        }
        Change::PutPreset { preset, replaces } => {
            lock_account(on, &preset.account).await?;
            let text = "SELECT 1 FROM presets WHERE account = $1 AND id = $2";
            if replaces && row(on, text, &[&preset.account, &preset.id]).await?.is_none() {
                return Err(ChangeError::NoSuchPreset(preset.id).into());
            }
            rows.presets.push(put_preset(on, preset).await?);
        }
        Change::DeletePreset { account, id } => {
            if execute(on, "DELETE FROM presets WHERE account = $1 AND id = $2", &[&account, &id]).await? == 0 {
                return Err(ChangeError::NoSuchPreset(id).into());
            }
        }
        Change::CountGenerated { day, at_most } => {
            put_generated(on, lock_generated(on).await?.taken(day, at_most)?).await?;
        }
        Change::ReturnGenerated { day } => put_generated(on, lock_generated(on).await?.returned(day)).await?,
        // By the admissions.
        Change::TouchKeys { .. } => {}
        Change::ForgetKeyDays { before } => {
            execute(on, "DELETE FROM key_days WHERE day < $1", &[&i64::from(before.0)]).await?;
        }
        Change::ForgetRequests { before, at_most } => {
            // By their places: joined by their keys, a table that was small when the connection made its plan is read as a
            // whole. A row that a bill has moved meanwhile is not old any more.
            let text = "DELETE FROM requests WHERE at < $1 AND ctid = ANY (ARRAY \
                 (SELECT ctid FROM requests WHERE at < $1 ORDER BY at, account, key LIMIT $2))";
            rows.forgotten_requests = execute(on, text, &[&before.0, &limit_of(at_most)]).await? as usize;
        }
        Change::Bill(new) => bill(on, &new, None, free_images_per_month).await?,
        Change::CreateJob { job, at_most } => {
            create_job(on, &job, at_most, free_images_per_month).await?;
            rows.jobs.push(*job);
        }
        Change::Job { id, attempt, change } => rows = change_job(on, &id, attempt, change).await?,
    }
    Ok(rows)
}

/// The account of this name, locked until the end of the transaction, or a refusal.
pub(super) async fn lock_account(on: &Transaction<'_>, name: &str) -> Result<Account, DatabaseError> {
    let found = row(on, "SELECT record FROM accounts WHERE name = $1 FOR NO KEY UPDATE", &[&name]).await?;
    account(&found.ok_or_else(|| ChangeError::NoSuchAccount(name.to_owned()))?, 0)
}

/// Adds a key, unless its hash or id exists already.
pub(super) async fn create_key(on: &Transaction<'_>, hash: KeyHash, key: Key) -> Result<(KeyHash, Key), DatabaseError> {
    let text = "SELECT 1 FROM keys WHERE id = $1 OR hash = $2";
    if row(on, text, &[&key.id, &hash.0.as_slice()]).await?.is_some() {
        return Err(ChangeError::KeyExists.into());
    }
    put_new_key(on, hash, &key).await?;
    Ok((hash, key))
}

/// Writes a key, whose hash another key may have got in the meantime.
async fn put_new_key(on: &Transaction<'_>, hash: KeyHash, key: &Key) -> Result<(), DatabaseError> {
    match put_key(&**on, hash, key).await {
        Err(DatabaseError::Values(_)) => Err(ChangeError::KeyExists.into()),
        put => Ok(put?),
    }
}

/// Adds a preset, or overwrites the one of its account and id, which keeps its creation time. The account is locked.
pub(super) async fn put_preset(on: &Transaction<'_>, new: Preset) -> Result<Preset, DatabaseError> {
    let Preset { account, id, name, .. } = &new;
    let text = "SELECT 1 FROM presets WHERE account = $1 AND name = $2 AND id <> $3";
    if row(on, text, &[account, name, id]).await?.is_some() {
        return Err(ChangeError::PresetNameTaken(name.clone()).into());
    }
    let text = "SELECT record FROM presets WHERE account = $1 AND id = $2";
    let before = row(on, text, &[account, id]).await?.map(|row| preset(&row)).transpose()?;
    let text = "SELECT 1 FROM presets WHERE account = $1 HAVING count(*) >= $2";
    if before.is_none() && row(on, text, &[account, &limit_of(PRESETS_PER_ACCOUNT)]).await?.is_some() {
        return Err(ChangeError::TooManyPresets(account.clone()).into());
    }
    let created_at = before.map_or(new.created_at, |before| before.created_at);
    let new = Preset { created_at, ..new };
    let record = PresetRecord::from_latest(new.clone()).encode();
    let text = "INSERT INTO presets (account, id, name, record) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (account, id) DO UPDATE SET name = $3, record = $4";
    execute(on, text, &[&new.account, &new.id, &new.name, &record]).await?;
    Ok(new)
}

/// The count of generated backdrops, locked until the end of the transaction.
async fn lock_generated(on: &Transaction<'_>) -> Result<GeneratedCount, DatabaseError> {
    let text = "INSERT INTO meta AS m VALUES ('generated', 0) ON CONFLICT (name) DO UPDATE SET number = m.number RETURNING number";
    let found = row(on, text, &[]).await?;
    Ok(found.map_or_else(GeneratedCount::default, |row| GeneratedCount::unpacked(row.get::<_, i64>(0).cast_unsigned())))
}

async fn put_generated(on: &Transaction<'_>, counted: GeneratedCount) -> Result<(), DatabaseError> {
    // A day has far fewer than 31 bits.
    let number = counted.packed().cast_signed();
    execute(on, "UPDATE meta SET number = $1 WHERE name = 'generated'", &[&number]).await.map(drop)
}
