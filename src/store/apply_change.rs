//! Applies one `Change` to the tables of an open redb write transaction.
//!
//! All checks of a change come before its first write: a refused change leaves the transaction unchanged, and with it the
//! other changes of the same group commit. Quotas are checked before, in memory (`local/mod.rs`).

use std::collections::BTreeMap;

use super::storage_fault::ApplyError;
use super::tables::Writing;
use super::transitions::{account_after, expect_state, job_after, key_after};
use super::{
    Account, Bill, Change, ChangeError, Job, JobChange, JobState, Key, KeyDay, KeyHash, KeyUse, Month,
    PRESETS_PER_ACCOUNT, Preset, Request, Rows, UnixSeconds, Usage,
};

/// Applies `change`; returns the written rows.
pub(super) fn apply(tables: &mut Writing<'_>, change: Change) -> Result<Rows, ApplyError> {
    match change {
        Change::CreateAccount { account, first_key } => create_account(tables, account, first_key),
        Change::SetAccount { account, plan, generates, model } => {
            let before = require_account(tables, &account)?;
            put_account(tables, account_after(before, plan, generates, model))
        }
        Change::CreateKey { hash, key } => {
            require_account(tables, &key.account)?;
            check_new_key(tables, hash, &key)?;
            put_key(tables, hash, key)
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
            put_key(tables, hash, key)
        }
        Change::TouchKeys { used } => touch_keys(tables, used),
        Change::Bill(Bill { account, month, images, microdollars, request, by }) => {
            add_bill(tables, account, month, Usage { images, microdollars }, request, by)
        }
        Change::ForgetKeyDays { before } => {
            for account in tables.accounts.all()? {
                tables.key_days.forget(account?.0.value(), before)?;
            }
            Ok(Rows::default())
        }
        Change::CountGenerated { day, at_most } => {
            tables.meta.put_generated(tables.meta.generated()?.taken(day, at_most)?)?;
            Ok(Rows::default())
        }
        Change::ReturnGenerated { day } => {
            tables.meta.put_generated(tables.meta.generated()?.returned(day))?;
            Ok(Rows::default())
        }
        Change::ForgetRequests { before, at_most } => {
            let forgotten_requests = tables.requests.forget(before, at_most)?;
            Ok(Rows { forgotten_requests, ..Rows::default() })
        }
        Change::PutPreset { preset } => {
            require_account(tables, &preset.account)?;
            put_preset(tables, preset)
        }
        Change::ReplacePreset { preset } => {
            if !tables.presets.rows.contains((&preset.account, &preset.id))? {
                return Err(ChangeError::NoSuchPreset(preset.id).into());
            }
            put_preset(tables, preset)
        }
        Change::DeletePreset { account, id } => {
            let preset = tables.presets.rows.get((&account, &id))?.ok_or(ChangeError::NoSuchPreset(id))?;
            tables.presets.remove(&preset)?;
            Ok(Rows::default())
        }
        Change::CreateJob { job, at_most } => create_job(tables, *job, at_most),
        Change::Job { id, change } => {
            let job = tables.jobs.rows.get(&id)?.ok_or(ChangeError::NoSuchJob(id))?;
            change_job(tables, job, change)
        }
    }
}

/// The account of this name, or a refusal.
pub(super) fn require_account(tables: &Writing<'_>, name: &str) -> Result<Account, ApplyError> {
    tables.accounts.get(name)?.ok_or_else(|| ChangeError::NoSuchAccount(name.into()).into())
}

/// Refuses a name that is taken.
pub(super) fn check_new_account(tables: &Writing<'_>, name: &str) -> Result<(), ApplyError> {
    if tables.accounts.contains(name)? { Err(ChangeError::AccountExists(name.into()).into()) } else { Ok(()) }
}

/// Refuses a key whose hash or id exists already.
pub(super) fn check_new_key(tables: &Writing<'_>, hash: KeyHash, key: &Key) -> Result<(), ApplyError> {
    if tables.keys.rows.contains(&hash.0)? || tables.keys.hash_of(&key.id)?.is_some() {
        return Err(ChangeError::KeyExists.into());
    }
    Ok(())
}

/// Refuses a job whose id or name exists already.
pub(super) fn check_new_job(tables: &Writing<'_>, job: &Job) -> Result<(), ApplyError> {
    if tables.jobs.rows.contains(&job.id)? {
        return Err(ChangeError::JobExists(job.id.clone()).into());
    }
    let taken_by = job.name.as_ref().map(|name| tables.jobs.id_of(&job.key_id, name)).transpose()?.flatten();
    taken_by.map_or(Ok(()), |id| Err(ChangeError::JobNameTaken(id).into()))
}

fn create_account(
    tables: &mut Writing<'_>,
    account: Account,
    first_key: Option<(KeyHash, Key)>,
) -> Result<Rows, ApplyError> {
    check_new_account(tables, &account.name)?;
    if let Some((hash, key)) = &first_key {
        check_new_key(tables, *hash, key)?;
    }
    let mut rows = put_account(tables, account)?;
    if let Some((hash, key)) = first_key {
        rows.append(put_key(tables, hash, key)?);
    }
    Ok(rows)
}

fn put_account(tables: &mut Writing<'_>, account: Account) -> Result<Rows, ApplyError> {
    tables.accounts.put(&account.name, account.clone())?;
    Ok(Rows { accounts: vec![account], ..Rows::default() })
}

fn put_key(tables: &mut Writing<'_>, hash: KeyHash, key: Key) -> Result<Rows, ApplyError> {
    tables.keys.put(hash, &key)?;
    Ok(Rows { keys: vec![(hash, key)], ..Rows::default() })
}

fn touch_keys(tables: &mut Writing<'_>, used: Vec<(String, UnixSeconds)>) -> Result<Rows, ApplyError> {
    let mut latest = BTreeMap::new();
    for (id, at) in used {
        let last = latest.entry(id).or_insert(at);
        *last = at.max(*last);
    }
    let mut rows = Rows::default();
    for (id, at) in latest {
        if let Some((hash, key)) = tables.keys.find(&id)?
            && key.last_used_at < Some(at)
        {
            rows.append(put_key(tables, hash, Key { last_used_at: Some(at), ..key })?);
        }
    }
    Ok(rows)
}

/// Adds to the sums of account and key, and remembers the request.
fn add_bill(
    tables: &mut Writing<'_>,
    account: String,
    month: Month,
    more: Usage,
    request: Option<(String, Request)>,
    by: Option<KeyUse>,
) -> Result<Rows, ApplyError> {
    if !tables.accounts.contains(&account)? {
        return Err(ChangeError::NoSuchAccount(account).into());
    }
    let usage = tables.usage.add(&account, month, more)?;
    let mut rows = Rows::default();
    if let Some((key, request)) = request {
        tables.requests.put(&account, &key, &request)?;
        rows.requests.push((account.clone(), key, request));
    }
    // A sandbox key bills nothing, and leaves no row.
    if let Some(KeyUse { key_id, day, milliseconds }) = by
        && more != Usage::default()
    {
        let more = KeyDay { images: more.images, milliseconds, microdollars: more.microdollars };
        let sum = tables.key_days.add(&account, day, &key_id, more)?;
        rows.key_days.push((account.clone(), day, key_id, sum));
    }
    rows.usage.push((account, month, usage));
    Ok(rows)
}

/// Adds a preset, or overwrites the one of its account and id, which keeps its creation time.
fn put_preset(tables: &mut Writing<'_>, preset: Preset) -> Result<Rows, ApplyError> {
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
    Ok(Rows { presets: vec![preset], ..Rows::default() })
}

fn create_job(tables: &mut Writing<'_>, job: Job, at_most: usize) -> Result<Rows, ApplyError> {
    require_account(tables, &job.account)?;
    // Before the limit: a repeated request is refused with the id of its first job even at the limit.
    check_new_job(tables, &job)?;
    let count = tables.jobs.count_waiting(&job.key_id)?;
    if count >= at_most {
        return Err(ChangeError::TooManyJobs { key_id: job.key_id, count }.into());
    }
    expect_state(&job, job.state == JobState::Queued)?;
    tables.jobs.put(&job)?;
    Ok(Rows { jobs: vec![job], ..Rows::default() })
}

fn change_job(tables: &mut Writing<'_>, before: Job, change: JobChange) -> Result<Rows, ApplyError> {
    let is_start = matches!(change, JobChange::Start { .. });
    let Some((job, bill)) = job_after(before.clone(), change)? else {
        tables.jobs.remove(&before)?;
        return Ok(Rows::default());
    };
    // Before the job is written: a refusal leaves no trace.
    let mut rows = match bill {
        Some((more, by)) => add_bill(tables, job.account.clone(), job.month, more, None, Some(by))?,
        None => Rows::default(),
    };
    if is_start {
        tables.meta.record_turn(&job.account)?;
    }
    tables.jobs.put(&job)?;
    rows.jobs.push(job);
    Ok(rows)
}
