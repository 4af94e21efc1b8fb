//! The tables of a redb write transaction, as changes and imports use them.

use super::Writing;
use crate::store::storage_fault::Fault;
use crate::store::write_tables::{BillTables, ImagesInMonth, WriteTables};
use crate::store::{
    Account, Day, GeneratedCount, Job, JobState, Key, KeyDay, KeyHash, Month, Preset, Request, UnixSeconds, Usage,
};

impl BillTables for Writing<'_> {
    fn has_account(&mut self, name: &str) -> Result<bool, Fault> {
        self.accounts.contains(name)
    }

    fn request(&mut self, account: &str, key: &str) -> Result<Option<Request>, Fault> {
        self.requests.get(account, key)
    }

    fn images_in_month(&mut self, account: &str, key_id: Option<&str>, month: Month) -> Result<ImagesInMonth, Fault> {
        let account_images = self.usage.get(account, month)?.unwrap_or_default().images;
        let mut images = ImagesInMonth { account: account_images, ..ImagesInMonth::default() };
        if let Some(id) = key_id {
            let first = Day::first_of(month);
            let days = self.key_days.of_account(account, first, Day(u32::MAX), usize::MAX)?;
            let of_key = days.iter().filter(|(day, key_id, _)| day.month() == month && key_id == id);
            images.key = of_key.map(|(_, _, used)| used.images).fold(0, u64::saturating_add);
        }
        for job in self.jobs.waiting(usize::MAX)?.iter().filter(|job| job.account == account && job.month == month) {
            images.account = images.account.saturating_add(job.reserved);
            if key_id == Some(&job.key_id) {
                images.key = images.key.saturating_add(job.reserved);
            }
        }
        Ok(images)
    }

    fn add_usage(&mut self, account: &str, month: Month, more: Usage) -> Result<Usage, Fault> {
        self.usage.add(account, month, more)
    }

    fn put_request(&mut self, account: &str, key: &str, request: &Request) -> Result<(), Fault> {
        self.requests.put(account, key, request)
    }

    fn add_key_day(&mut self, account: &str, day: Day, key_id: &str, more: KeyDay) -> Result<KeyDay, Fault> {
        self.key_days.add(account, day, key_id, more)
    }
}

impl WriteTables for Writing<'_> {
    fn is_empty(&mut self) -> Result<bool, Fault> {
        Ok(self.accounts.is_empty()?
            && self.keys.is_empty()?
            && self.presets.is_empty()?
            && self.usage.is_empty()?
            && self.key_days.is_empty()?
            && self.requests.is_empty()?
            && self.jobs.is_empty()?)
    }

    fn account(&mut self, name: &str) -> Result<Option<Account>, Fault> {
        self.accounts.get(name)
    }

    fn put_account(&mut self, account: &Account) -> Result<(), Fault> {
        self.accounts.put(account)
    }

    fn key(&mut self, hash: KeyHash) -> Result<Option<Key>, Fault> {
        self.keys.get(hash)
    }

    fn find_key(&mut self, id: &str) -> Result<Option<(KeyHash, Key)>, Fault> {
        self.keys.find(id)
    }

    fn put_key(&mut self, hash: KeyHash, key: &Key) -> Result<(), Fault> {
        self.keys.put(hash, key)
    }

    fn remove_key(&mut self, hash: KeyHash) -> Result<(), Fault> {
        self.keys.remove(hash)
    }

    fn preset(&mut self, account: &str, id: &str) -> Result<Option<Preset>, Fault> {
        self.presets.get(account, id)
    }

    fn preset_id(&mut self, account: &str, name: &str) -> Result<Option<String>, Fault> {
        self.presets.id_of(account, name)
    }

    fn count_presets(&mut self, account: &str) -> Result<usize, Fault> {
        self.presets.count(account)
    }

    fn put_preset(&mut self, before: Option<&Preset>, preset: &Preset) -> Result<(), Fault> {
        self.presets.put(before, preset)
    }

    fn remove_preset(&mut self, preset: &Preset) -> Result<(), Fault> {
        self.presets.remove(preset)
    }

    fn has_usage(&mut self, account: &str, month: Month) -> Result<bool, Fault> {
        Ok(self.usage.get(account, month)?.is_some())
    }

    fn has_key_day(&mut self, account: &str, day: Day, key_id: &str) -> Result<bool, Fault> {
        Ok(self.key_days.get(account, day, key_id)?.is_some())
    }

    fn forget_key_days(&mut self, before: Day) -> Result<(), Fault> {
        let names: Vec<String> = self.accounts.names()?.collect::<Result<_, _>>()?;
        names.iter().try_for_each(|name| self.key_days.forget(name, before))
    }

    fn has_request(&mut self, account: &str, key: &str) -> Result<bool, Fault> {
        Ok(self.requests.get(account, key)?.is_some())
    }

    fn forget_requests(&mut self, before: UnixSeconds, at_most: usize) -> Result<usize, Fault> {
        self.requests.forget(before, at_most)
    }

    fn job(&mut self, id: &str) -> Result<Option<Job>, Fault> {
        self.jobs.get(id)
    }

    fn job_id(&mut self, key_id: &str, name: &str) -> Result<Option<String>, Fault> {
        self.jobs.id_of(key_id, name)
    }

    fn count_waiting(&mut self, key_id: &str) -> Result<usize, Fault> {
        self.jobs.count_waiting(key_id)
    }

    fn running_jobs(&mut self) -> Result<Vec<Job>, Fault> {
        let unfinished = self.jobs.waiting(usize::MAX)?;
        Ok(unfinished.into_iter().filter(|job| job.state == JobState::Processing).collect())
    }

    fn put_job(&mut self, job: &Job) -> Result<(), Fault> {
        self.jobs.put(job)
    }

    fn remove_job(&mut self, job: &Job) -> Result<(), Fault> {
        self.jobs.remove(job)
    }

    fn owns_job(&mut self, _id: &str) -> Result<bool, Fault> {
        Ok(true)
    }

    fn adopt_jobs(&mut self) -> Result<Vec<Job>, Fault> {
        Ok(Vec::new())
    }

    fn generated(&mut self) -> Result<Option<GeneratedCount>, Fault> {
        self.meta.generated()
    }

    fn put_generated(&mut self, generated: GeneratedCount) -> Result<(), Fault> {
        self.meta.put_generated(generated)
    }

    fn record_turn(&mut self, account: &str) -> Result<(), Fault> {
        self.meta.record_turn(account)
    }
}
