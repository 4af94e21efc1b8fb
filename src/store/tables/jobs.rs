//! Table of jobs: job id → `JobRecord`, with an index (key id, `Idempotency-Key`) → job id.
//!
//! Every other look-up reads and sorts all jobs: a finished one is kept for a day.

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, TableError, TableHandle, WriteTransaction};

use super::meta::turn_of;
use super::{Bytes, KeyOf, Records, Row, Source, Text};
use crate::store::records::JobRecord;
use crate::store::storage_fault::Fault;
use crate::store::unreadable_jobs::skip_unreadable;
use crate::store::{Job, UnixSeconds};

const JOB_NAMES: TableDefinition<'_, (Text, Text), Text> = TableDefinition::new("job_names");

impl Row for JobRecord {
    type Key = Text;

    const TABLE: TableDefinition<'static, Text, Bytes> = TableDefinition::new("jobs");

    fn name(id: &KeyOf<'_, Self>) -> String {
        format!("job {id}")
    }
}

/// The table of jobs and its index by name.
pub(in crate::store) struct Jobs<S: Source> {
    pub(in crate::store) rows: Records<S, JobRecord>,
    names: S::Table<(Text, Text), Text>,
}

impl<S: Source> Jobs<S> {
    pub(super) fn open(source: S) -> Result<Self, TableError> {
        Ok(Self { rows: Records::open(source)?, names: source.table(JOB_NAMES)? })
    }

    /// The id that the index has for a name.
    pub(in crate::store) fn id_of(&self, key_id: &str, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.names.get((key_id, name))?.map(|row| row.value().to_owned()))
    }

    pub(in crate::store) fn named(&self, key_id: &str, name: &str) -> Result<Option<Job>, Fault> {
        let Some(id) = self.id_of(key_id, name)? else { return Ok(None) };
        let missing = || Fault::Damaged(format!("job {id} is in the index and not in the table"));
        self.rows.get(&id)?.map(Some).ok_or_else(missing)
    }

    /// The jobs for which `key` is some, by that and their id. Leaves out those whose records cannot be read.
    fn sorted<K: Ord + Copy>(&self, key: impl Fn(&Job) -> Option<K>) -> Result<Vec<(K, Job)>, Fault> {
        let mut jobs = Vec::new();
        for row in self.rows.all()? {
            let (id, job) = row?;
            let job = skip_unreadable(id.value(), job)?;
            jobs.extend(job.and_then(|job| Some((key(&job)?, job))));
        }
        // Stable: the rows are in the order of their ids.
        jobs.sort_by_key(|(key, _)| *key);
        Ok(jobs)
    }

    /// Up to `limit` jobs of a key, newest first, after the place and id `after`.
    pub(in crate::store) fn page(
        &self,
        key_id: &str,
        after: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Job>, Fault> {
        let jobs = self.sorted(|job| (job.key_id == key_id).then_some(job.place))?.into_iter().rev();
        let is_after = |job: &Job| after.as_ref().is_none_or(|(place, id)| (job.place, &job.id) < (*place, id));
        Ok(jobs.map(|(_, job)| job).filter(is_after).take(limit).collect())
    }

    /// Up to `limit` unfinished jobs, in the order of the queue.
    pub(in crate::store) fn waiting(&self, limit: usize) -> Result<Vec<Job>, Fault> {
        let jobs = self.sorted(|job| (!job.state.is_final()).then_some(job.place))?;
        Ok(jobs.into_iter().map(|(_, job)| job).take(limit).collect())
    }

    /// The unfinished job to run next, none of `running`: accounts take turns in a fixed cycle, first the one after `last_turn`,
    /// and of an account the oldest job.
    pub(in crate::store) fn next(&self, last_turn: Option<u64>, running: &[String]) -> Result<Option<Job>, Fault> {
        let is_free = |job: &Job| !job.state.is_final() && !running.contains(&job.id);
        let jobs = self.sorted(|job| is_free(job).then_some(job.place))?;
        // Distance from the last account in the cycle; that account itself comes last.
        let distance = |(_, job): &(i64, Job)| Some(turn_of(&job.account).wrapping_sub(last_turn?).wrapping_sub(1));
        // Of equal distances the first, which is the oldest.
        Ok(jobs.into_iter().min_by_key(distance).map(|(_, job)| job))
    }

    /// The number of unfinished jobs of a key.
    pub(in crate::store) fn count_waiting(&self, key_id: &str) -> Result<usize, Fault> {
        Ok(self.sorted(|job| (job.key_id == key_id && !job.state.is_final()).then_some(()))?.len())
    }

    /// Up to `limit` jobs that have a time `at`, each with that time, earliest first.
    pub(in crate::store) fn timed(
        &self,
        at: impl Fn(&Job) -> Option<UnixSeconds>,
        limit: usize,
    ) -> Result<Vec<(UnixSeconds, Job)>, Fault> {
        let mut jobs = self.sorted(at)?;
        jobs.truncate(limit);
        Ok(jobs)
    }

    /// Name and length of the index.
    pub(in crate::store) fn index(&self) -> Result<(&'static str, u64), Fault> {
        Ok((JOB_NAMES.name(), self.names.len()?))
    }
}

impl Jobs<&WriteTransaction> {
    /// Adds a job, or overwrites the one with its id, which has its key and name, without a check.
    pub(in crate::store) fn put(&mut self, job: &Job) -> Result<(), Fault> {
        if let Some(name) = &job.name {
            self.names.insert((job.key_id.as_str(), name.as_str()), job.id.as_str())?;
        }
        self.rows.put(&job.id, job.clone())
    }

    /// Removes a job.
    pub(in crate::store) fn remove(&mut self, job: &Job) -> Result<(), Fault> {
        if let Some(name) = &job.name {
            self.names.remove((job.key_id.as_str(), name.as_str()))?;
        }
        self.rows.remove(&job.id)
    }
}
