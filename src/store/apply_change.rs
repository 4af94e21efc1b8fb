//! Applies one `Change` to the tables of an open write transaction, the same for every database.
//!
//! All checks of a change come before its first write: a refused change leaves the transaction unchanged, and with it the
//! other changes of the same group commit.

use std::collections::BTreeMap;

use super::apply_bill::{add_bill, apply_bill};
use super::quota_check::{check_quota, lease_images};
use super::storage_fault::ApplyError;
use super::write_tables::{
    WriteTables, check_new_account, check_new_job, check_new_key, require_account, require_job, require_key,
};
use super::{
    Account, Change, ChangeError, Day, Job, JobEnd, JobResult, JobState, Key, KeyHash, KeyUse, PRESETS_PER_ACCOUNT,
    Preset, PreviousSecret, QuotaCheck, Rows, UnixSeconds, Webhook,
};

/// Applies `change`; returns the written rows.
pub(super) fn apply(tables: &mut dyn WriteTables, change: Change) -> Result<Rows, ApplyError> {
    Applier(tables).apply(change)
}

struct Applier<'a>(&'a mut dyn WriteTables);

impl Applier<'_> {
    fn apply(&mut self, change: Change) -> Result<Rows, ApplyError> {
        match change {
            Change::CreateAccount { account, first_key } => self.create_account(account, first_key),
            Change::SetAccount { account, plan, generates, model } => {
                let account = require_account(self.0, &account)?;
                let (plan, generates) = (plan.unwrap_or(account.plan), generates.unwrap_or(account.generates));
                self.put_account(Account { plan, generates, model: model.unwrap_or(account.model), ..account })
            }
            Change::CreateKey { hash, key } => {
                require_account(self.0, &key.account)?;
                check_new_key(self.0, hash, &key)?;
                self.put_key(hash, key)
            }
            Change::RevokeKey { id, at } => {
                let (hash, key) = require_key(self.0, &id)?;
                let key = Key { revoked_at: key.revoked_at.or(Some(at)), ..key };
                self.put_key(hash, key)
            }
            Change::RotateKey { id, from, to, keep_until } => self.rotate_key(id, from, to, keep_until),
            Change::SetKey { id, expires_at, images_per_month, scopes } => {
                let (hash, key) = self.active_key(id)?;
                let key = Key {
                    expires_at: expires_at.unwrap_or(key.expires_at),
                    images_per_month: images_per_month.unwrap_or(key.images_per_month),
                    scopes: scopes.unwrap_or(key.scopes),
                    ..key
                };
                self.put_key(hash, key)
            }
            Change::TouchKeys { used } => self.touch_keys(used),
            Change::Bill(bill) => apply_bill(self.0, bill),
            Change::LeaseImages { leases } => {
                let changed = leases.iter().map(|lease| lease_images(self.0, lease));
                let changed: Vec<_> = changed.collect::<Result<_, _>>()?;
                Ok(Rows { leases: changed.into_iter().flatten().collect(), ..Rows::default() })
            }
            Change::ForgetKeyDays { before } => {
                self.0.forget_key_days(before)?;
                Ok(Rows::default())
            }
            Change::CountGenerated { day } => {
                let counted = self.0.generated()?.unwrap_or_default().with_one_more(day);
                self.0.put_generated(counted)?;
                Ok(Rows { generated: Some(counted), ..Rows::default() })
            }
            Change::ForgetRequests { before, at_most } => {
                let forgotten_requests = self.0.forget_requests(before, at_most)?;
                Ok(Rows { forgotten_requests, ..Rows::default() })
            }
            Change::PutPreset { preset } => {
                require_account(self.0, &preset.account)?;
                self.put_preset(preset)
            }
            Change::ReplacePreset { preset } => {
                if self.0.preset(&preset.account, &preset.id)?.is_none() {
                    return Err(ChangeError::NoSuchPreset(preset.id).into());
                }
                self.put_preset(preset)
            }
            Change::DeletePreset { account, id } => {
                let preset = self.0.preset(&account, &id)?.ok_or(ChangeError::NoSuchPreset(id))?;
                self.0.remove_preset(&preset)?;
                Ok(Rows::default())
            }
            Change::CreateJob { job, at_most, check } => self.create_job(*job, at_most, check),
            Change::AdoptJobs { at } => {
                let unfinished = self.0.adopt_jobs()?.into_iter().filter(|job| !job.state.is_final());
                self.queue_again(unfinished.collect(), at)
            }
            Change::StartJob { id, at } => {
                let job = self.own_job(&id)?;
                expect_state(&job, job.state == JobState::Queued)?;
                self.0.record_turn(&job.account)?;
                self.put_job(Job { state: JobState::Processing, updated_at: at, ..job })
            }
            Change::RequeueJobs { at } => {
                let running = self.0.running_jobs()?;
                self.queue_again(running, at)
            }
            Change::FinishJob { id, at, expires_at, end } => self.finish_job(&id, at, expires_at, end),
            Change::ForgetJobResult { id } => {
                let job = require_job(self.0, &id)?;
                expect_state(&job, job.state.is_final())?;
                let result = job.result.map(|result| JobResult { object: None, ..result });
                self.put_job(Job { result, ..job })
            }
            Change::NoteWebhook { id, next_at } => {
                let job = require_job(self.0, &id)?;
                expect_state(&job, job.state.is_final())?;
                let record_attempt =
                    |webhook: Webhook| Webhook { attempts: webhook.attempts.saturating_add(1), next_at, ..webhook };
                self.put_job(Job { webhook: job.webhook.map(record_attempt), ..job })
            }
            Change::RemoveJob { id } => {
                let job = require_job(self.0, &id)?;
                expect_state(&job, job.state.is_final())?;
                self.0.remove_job(&job)?;
                Ok(Rows::default())
            }
        }
    }

    fn create_account(&mut self, account: Account, first_key: Option<(KeyHash, Key)>) -> Result<Rows, ApplyError> {
        check_new_account(self.0, &account.name)?;
        if let Some((hash, key)) = &first_key {
            check_new_key(self.0, *hash, key)?;
        }
        let mut rows = self.put_account(account)?;
        if let Some((hash, key)) = first_key {
            self.0.put_key(hash, &key)?;
            rows.keys.push((hash, key));
        }
        Ok(rows)
    }

    fn put_account(&mut self, account: Account) -> Result<Rows, ApplyError> {
        self.0.put_account(&account)?;
        Ok(Rows { accounts: vec![account], ..Rows::default() })
    }

    fn put_key(&mut self, hash: KeyHash, key: Key) -> Result<Rows, ApplyError> {
        self.0.put_key(hash, &key)?;
        Ok(Rows { keys: vec![(hash, key)], ..Rows::default() })
    }

    /// Adds a preset, or overwrites the one of its account and id, which keeps its creation time.
    fn put_preset(&mut self, preset: Preset) -> Result<Rows, ApplyError> {
        let Preset { account, id, name, .. } = &preset;
        if self.0.preset_id(account, name)?.is_some_and(|taken_by| taken_by != *id) {
            return Err(ChangeError::PresetNameTaken(name.clone()).into());
        }
        let before = self.0.preset(account, id)?;
        if before.is_none() && self.0.count_presets(account)? >= PRESETS_PER_ACCOUNT {
            return Err(ChangeError::TooManyPresets(account.clone()).into());
        }
        let created_at = before.as_ref().map_or(preset.created_at, |before| before.created_at);
        let preset = Preset { created_at, ..preset };
        self.0.put_preset(before.as_ref(), &preset)?;
        Ok(Rows { presets: vec![preset], ..Rows::default() })
    }

    fn rotate_key(
        &mut self,
        id: String,
        from: KeyHash,
        to: KeyHash,
        keep_until: Option<UnixSeconds>,
    ) -> Result<Rows, ApplyError> {
        let (hash, key) = self.active_key(id)?;
        if hash != from {
            return Err(ChangeError::KeyRotated(key.id).into());
        }
        if self.0.key(to)?.is_some() {
            return Err(ChangeError::KeyExists.into());
        }
        let previous = keep_until.map(|until| PreviousSecret { hash: hash.0, until });
        self.0.remove_key(hash)?;
        self.put_key(to, Key { previous, ..key })
    }

    /// The key with this id, unless it was revoked.
    fn active_key(&mut self, id: String) -> Result<(KeyHash, Key), ApplyError> {
        let (hash, key) = require_key(self.0, &id)?;
        if key.revoked_at.is_some() { Err(ChangeError::KeyRevoked(id).into()) } else { Ok((hash, key)) }
    }

    fn touch_keys(&mut self, used: Vec<(String, UnixSeconds)>) -> Result<Rows, ApplyError> {
        let mut latest = BTreeMap::new();
        for (id, at) in used {
            let last = latest.entry(id).or_insert(at);
            *last = at.max(*last);
        }
        let ids: Vec<&str> = latest.keys().map(String::as_str).collect();
        let mut keys = self.0.find_keys(&ids)?;
        keys.retain_mut(|(_, key)| {
            let used_at = latest.get(&key.id).copied();
            let is_later = key.last_used_at < used_at;
            key.last_used_at = key.last_used_at.max(used_at);
            is_later
        });
        self.0.put_keys(&keys)?;
        Ok(Rows { keys, ..Rows::default() })
    }

    /// The job of this id, unless another daemon has it.
    fn own_job(&mut self, id: &str) -> Result<Job, ApplyError> {
        let job = require_job(self.0, id)?;
        if self.0.owns_job(id)? { Ok(job) } else { Err(ChangeError::JobElsewhere(job.id).into()) }
    }

    fn create_job(&mut self, job: Job, at_most: usize, check: Option<QuotaCheck>) -> Result<Rows, ApplyError> {
        require_account(self.0, &job.account)?;
        // Before the limit: a repeated request is refused with the id of its first job even at the limit.
        check_new_job(self.0, &job)?;
        let count = self.0.count_waiting(&job.key_id)?;
        if count >= at_most {
            return Err(ChangeError::TooManyJobs { key_id: job.key_id, count }.into());
        }
        if let Some(check) = check {
            check_quota(self.0, (&job.account, Some(&job.key_id), job.month), job.reserved, check, None)?;
        }
        expect_state(&job, job.state == JobState::Queued)?;
        self.put_job(job)
    }

    fn put_job(&mut self, job: Job) -> Result<Rows, ApplyError> {
        self.0.put_job(&job)?;
        Ok(Rows { jobs: vec![job], ..Rows::default() })
    }

    /// Queues jobs at their old places.
    fn queue_again(&mut self, jobs: Vec<Job>, at: UnixSeconds) -> Result<Rows, ApplyError> {
        let mut rows = Rows::default();
        for job in jobs {
            let job = Job { state: JobState::Queued, updated_at: at, ..job };
            self.0.put_job(&job)?;
            rows.jobs.push(job);
        }
        Ok(rows)
    }

    fn finish_job(
        &mut self,
        id: &str,
        at: UnixSeconds,
        expires_at: UnixSeconds,
        end: JobEnd,
    ) -> Result<Rows, ApplyError> {
        let job = match &end {
            JobEnd::Cancelled { .. } => require_job(self.0, id)?,
            JobEnd::Done { .. } | JobEnd::Failed { .. } => self.own_job(id)?,
        };
        let webhook = job.webhook.clone().map(|webhook| Webhook { next_at: Some(at), ..webhook });
        let job = Job { updated_at: at, expires_at, webhook, ..job };
        match end {
            JobEnd::Done { result, warnings, bill } => {
                expect_state(&job, job.state == JobState::Processing)?;
                // Before the job is written: a refusal leaves no trace.
                let mut rows = match bill {
                    Some(more) => {
                        let milliseconds = (result.seconds() * 1000.0).round() as u64;
                        // A day of the month that the reservation is in.
                        let day = Day::of(job.created_at);
                        let by = KeyUse { key_id: job.key_id.clone(), day, milliseconds };
                        add_bill(self.0, job.account.clone(), job.month, more, None, Some(by))?
                    }
                    None => Rows::default(),
                };
                let (state, progress) = (JobState::Done, 100);
                rows.jobs.extend(self.put_job(Job { state, progress, result: Some(result), warnings, ..job })?.jobs);
                Ok(rows)
            }
            JobEnd::Failed { error, progress } | JobEnd::Cancelled { error, progress } => {
                expect_state(&job, !job.state.is_final())?;
                self.put_job(Job { state: JobState::Failed, progress, error: Some(error), ..job })
            }
        }
    }
}

/// Refuses a change that the job's state does not allow.
fn expect_state(job: &Job, allowed: bool) -> Result<(), ChangeError> {
    if allowed { Ok(()) } else { Err(ChangeError::JobState { id: job.id.clone(), state: job.state }) }
}
