//! Applies one `Change` to the tables of an open redb write transaction.
//!
//! All checks of a change come before its first write: a refused change leaves the transaction unchanged, and with it the
//! other changes of the same group commit. Quotas are checked before, in memory (`local/mod.rs`).

use super::storage_fault::Fault;
use super::tables::Writing;
use super::transitions::{account_after, expect_state, job_after, key_after};
use super::{
    Account, Bill, Change, ChangeError, Job, JobChange, JobState, Key, KeyDay, KeyHash, KeyUse, PRESETS_PER_ACCOUNT,
    Preset, Rows, Usage,
};

/// Applies `change`; returns the written rows.
pub(super) fn apply(tables: &mut Writing<'_>, change: Change) -> Result<Rows, Fault> {
    let mut rows = Rows::default();
    match change {
        Change::CreateAccount { account, first_key } => {
            if tables.accounts.contains(&account.name)? {
                return Err(ChangeError::AccountExists(account.name).into());
            }
            if let Some((hash, key)) = first_key {
                create_key(tables, hash, key, &mut rows)?;
            }
            put_account(tables, account, &mut rows)?;
        }
        Change::SetAccount { account, plan, generates, model } => {
            let before = require_account(tables, &account)?;
            put_account(tables, account_after(before, plan, generates, model), &mut rows)?;
        }
        Change::CreateKey { hash, key } => {
            require_account(tables, &key.account)?;
            create_key(tables, hash, key, &mut rows)?;
        }
        Change::Key { id, change } => {
            let (before, key) = tables.keys.find(&id)?.ok_or(ChangeError::NoSuchKey(id))?;
            let (hash, key) = key_after(before, key, change)?;
            if hash != before {
                if tables.keys.rows.contains(&hash.0)? {
                    return Err(ChangeError::KeyExists.into());
                }
                tables.keys.remove(before)?;
            }
            put_key(tables, hash, key, &mut rows)?;
        }
        Change::TouchKeys { used } => {
            for (id, at) in used {
                if let Some((hash, key)) = tables.keys.find(&id)?
                    && key.last_used_at < Some(at)
                {
                    put_key(tables, hash, Key { last_used_at: Some(at), ..key }, &mut rows)?;
                }
            }
        }
        Change::Bill(bill) => add_bill(tables, bill, &mut rows)?,
        Change::ForgetKeyDays { before } => {
            for account in tables.accounts.all()? {
                tables.key_days.forget(account?.0.value(), before)?;
            }
        }
        Change::CountGenerated { day, at_most } => {
            tables.meta.put_generated(tables.meta.generated()?.taken(day, at_most)?)?;
        }
        Change::ReturnGenerated { day } => tables.meta.put_generated(tables.meta.generated()?.returned(day))?,
        Change::ForgetRequests { before, at_most } => {
            rows.forgotten_requests = tables.requests.forget(before, at_most)?;
        }
        Change::PutPreset { preset, replaces } => {
            require_account(tables, &preset.account)?;
            if replaces && !tables.presets.rows.contains((&preset.account, &preset.id))? {
                return Err(ChangeError::NoSuchPreset(preset.id).into());
            }
            put_preset(tables, preset, &mut rows)?;
        }
        Change::DeletePreset { account, id } => {
            let preset = tables.presets.rows.get((&account, &id))?.ok_or(ChangeError::NoSuchPreset(id))?;
            tables.presets.remove(&preset)?;
        }
        Change::CreateJob { job, at_most } => create_job(tables, *job, at_most, &mut rows)?,
        Change::Job { id, attempt: _, change } => {
            let job = tables.jobs.rows.get(&id)?.ok_or(ChangeError::NoSuchJob(id))?;
            change_job(tables, job, change, &mut rows)?;
        }
    }
    Ok(rows)
}

/// The account of this name, or a refusal.
pub(super) fn require_account(tables: &Writing<'_>, name: &str) -> Result<Account, Fault> {
    tables.accounts.get(name)?.ok_or_else(|| ChangeError::NoSuchAccount(name.into()).into())
}

/// Refuses a job whose id or name exists already.
pub(super) fn check_new_job(tables: &Writing<'_>, job: &Job) -> Result<(), Fault> {
    if tables.jobs.rows.contains(&job.id)? {
        return Err(ChangeError::JobExists(job.id.clone()).into());
    }
    let taken_by = job.name.as_ref().map(|name| tables.jobs.id_of(&job.key_id, name)).transpose()?.flatten();
    taken_by.map_or(Ok(()), |id| Err(ChangeError::JobNameTaken(id).into()))
}

fn put_account(tables: &mut Writing<'_>, account: Account, rows: &mut Rows) -> Result<(), Fault> {
    tables.accounts.put(&account.name, account.clone())?;
    rows.accounts.push(account);
    Ok(())
}

/// Adds a key, unless its hash or id exists already.
fn create_key(tables: &mut Writing<'_>, hash: KeyHash, key: Key, rows: &mut Rows) -> Result<(), Fault> {
    if tables.keys.rows.contains(&hash.0)? || tables.keys.hash_of(&key.id)?.is_some() {
        return Err(ChangeError::KeyExists.into());
    }
    put_key(tables, hash, key, rows)
}

fn put_key(tables: &mut Writing<'_>, hash: KeyHash, key: Key, rows: &mut Rows) -> Result<(), Fault> {
    tables.keys.put(hash, &key)?;
    rows.keys.push((hash, key));
    Ok(())
}

/// Adds to the sums of account and key, and remembers the request.
fn add_bill(tables: &mut Writing<'_>, bill: Bill, rows: &mut Rows) -> Result<(), Fault> {
    let Bill { account, month, images, microdollars, request, by } = bill;
    let more = Usage { images, microdollars };
    if !tables.accounts.contains(&account)? {
        return Err(ChangeError::NoSuchAccount(account).into());
    }
    let usage = tables.usage.add(&account, month, more)?;
    if let Some((key, request)) = request {
        tables.requests.put(&account, &key, &request)?;
    }
    // A sandbox key bills nothing, and leaves no row.
    if let Some(KeyUse { key_id, day, milliseconds }) = by
        && more != Usage::default()
    {
        let sum = tables.key_days.add(&account, day, &key_id, KeyDay { images, milliseconds, microdollars })?;
        rows.key_days.push((account.clone(), day, key_id, sum));
    }
    rows.usage.push((account, month, usage));
    Ok(())
}

/// Adds a preset, or overwrites the one of its account and id, which keeps its creation time.
fn put_preset(tables: &mut Writing<'_>, preset: Preset, rows: &mut Rows) -> Result<(), Fault> {
    let Preset { account, id, name, .. } = &preset;
    if tables.presets.id_of(account, name)?.is_some_and(|taken_by| taken_by != *id) {
        return Err(ChangeError::PresetNameTaken(name.clone()).into());
    }
    let before = tables.presets.rows.get((account, id))?;
    if before.is_none() && tables.presets.count(account)? >= PRESETS_PER_ACCOUNT {
        return Err(ChangeError::TooManyPresets(account.clone()).into());
    }
    let created_at = before.as_ref().map_or(preset.created_at, |before| before.created_at);
    let preset = Preset { created_at, ..preset };
    tables.presets.put(before.as_ref(), &preset)?;
    rows.presets.push(preset);
    Ok(())
}

fn create_job(tables: &mut Writing<'_>, job: Job, at_most: usize, rows: &mut Rows) -> Result<(), Fault> {
    require_account(tables, &job.account)?;
    // Before the limit: a repeated request is refused with the id of its first job even at the limit.
    check_new_job(tables, &job)?;
    if tables.jobs.count_waiting(&job.key_id)? >= at_most {
        return Err(ChangeError::TooManyJobs.into());
    }
    expect_state(&job, job.state == JobState::Queued)?;
    tables.jobs.put(&job)?;
    rows.jobs.push(job);
    Ok(())
}

fn change_job(tables: &mut Writing<'_>, before: Job, change: JobChange, rows: &mut Rows) -> Result<(), Fault> {
    let is_start = matches!(change, JobChange::Start { .. });
    let Some((job, bill)) = job_after(before.clone(), change)? else {
        return tables.jobs.remove(&before);
    };
    // Before the job is written: a refusal leaves no trace.
    if let Some(bill) = bill {
        add_bill(tables, bill, rows)?;
    }
    if is_start {
        tables.meta.record_turn(&job.account)?;
    }
    tables.jobs.put(&job)?;
    rows.jobs.push(job);
    Ok(())
}
