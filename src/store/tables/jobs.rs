//! Table of jobs: job id → `JobRecord`, with indexes by queue place, listing place, `Idempotency-Key`, expiry and webhook
//! time.

use std::collections::HashSet;
use std::ops::Bound;

use redb::{
    Key, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition, TableError, TableHandle, Value,
    WriteTransaction,
};

use super::{Bytes, KeyOf, Records, Row, Source, Text};
use crate::store::account_turns::next_in_turn;
use crate::store::records::JobRecord;
use crate::store::storage_fault::Fault;
use crate::store::unreadable_jobs::skip_unreadable;
use crate::store::{Job, JobState, UnixSeconds};

/// (place, id) → key id, of unfinished jobs.
const JOB_QUEUE: TableDefinition<'_, (i64, Text), Text> = TableDefinition::new("job_queue");
/// (key id, place, id).
const KEY_JOBS: TableDefinition<'_, (Text, i64, Text), ()> = TableDefinition::new("key_jobs");
/// (key id, `Idempotency-Key`) → id.
const JOB_NAMES: TableDefinition<'_, (Text, Text), Text> = TableDefinition::new("job_names");
/// (time of the next expiry, id), of finished jobs.
const JOB_TIMES: TableDefinition<'_, (i64, Text), ()> = TableDefinition::new("job_times");
/// (time of the next attempt, id), of jobs with a pending webhook.
const WEBHOOK_TIMES: TableDefinition<'_, (i64, Text), ()> = TableDefinition::new("webhook_times");

impl Row for JobRecord {
    type Key = Text;

    const TABLE: TableDefinition<'static, Text, Bytes> = TableDefinition::new("jobs");

    fn name(id: &KeyOf<'_, Self>) -> String {
        format!("job {id}")
    }
}

/// The table of jobs and its indexes.
pub(in crate::store) struct Jobs<S: Source> {
    pub(in crate::store) rows: Records<S, JobRecord>,
    queue: S::Table<(i64, Text), Text>,
    listing: S::Table<(Text, i64, Text), ()>,
    names: S::Table<(Text, Text), Text>,
    times: S::Table<(i64, Text), ()>,
    webhooks: S::Table<(i64, Text), ()>,
}

impl<S: Source> Jobs<S> {
    pub(in crate::store) fn open(source: S) -> Result<Self, TableError> {
        Ok(Self {
            rows: Records::open(source)?,
            queue: source.table(JOB_QUEUE)?,
            listing: source.table(KEY_JOBS)?,
            names: source.table(JOB_NAMES)?,
            times: source.table(JOB_TIMES)?,
            webhooks: source.table(WEBHOOK_TIMES)?,
        })
    }

    /// The id that the index has for a name.
    pub(in crate::store) fn id_of(&self, key_id: &str, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.names.get((key_id, name))?.map(|row| row.value().to_owned()))
    }

    pub(in crate::store) fn named(&self, key_id: &str, name: &str) -> Result<Option<Job>, Fault> {
        self.id_of(key_id, name)?.map(|id| self.indexed(&id)).transpose()
    }

    /// Up to `limit` jobs of a key, newest first, after the place and id `after`.
    pub(in crate::store) fn page(
        &self,
        key_id: &str,
        after: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Job>, Fault> {
        let from = Bound::Included((key_id, i64::MIN, ""));
        // The upper end of the key's range: no id and no place sorts behind these.
        let to = after.as_ref().map_or(Bound::Included((key_id, i64::MAX, "\u{10ffff}")), |(place, id)| {
            Bound::Excluded((key_id, *place, id.as_str()))
        });
        let rows = self.listing.range::<(&str, i64, &str)>((from, to))?.rev();
        rows.map(|row| self.readable(row?.0.value().2)).filter_map(Result::transpose).take(limit).collect()
    }

    /// Up to `limit` unfinished jobs, in the order of the queue.
    pub(in crate::store) fn waiting(&self, limit: usize) -> Result<Vec<Job>, Fault> {
        let rows = self.queue.iter()?;
        rows.map(|row| self.readable(row?.0.value().1)).filter_map(Result::transpose).take(limit).collect()
    }

    /// The queued job to start next: accounts take turns in a fixed cycle, first the one after `last_turn`,
    /// and of an account the oldest job. Scans the whole queue and reads one job of each key.
    pub(in crate::store) fn next(&self, last_turn: Option<u64>) -> Result<Option<Job>, Fault> {
        let mut seen = HashSet::new();
        let mut oldest_of_key = |row: Result<_, StorageError>| -> Result<Option<Job>, Fault> {
            let (key, key_id): (redb::AccessGuard<'_, (i64, Text)>, redb::AccessGuard<'_, Text>) = row?;
            let (_, id) = key.value();
            if seen.contains(key_id.value()) {
                return Ok(None);
            }
            let queued = self.readable(id)?.filter(|job| job.state == JobState::Queued);
            if queued.is_some() {
                seen.insert(key_id.value().to_owned());
            }
            Ok(queued)
        };
        next_in_turn(last_turn, self.queue.iter()?.filter_map(|row| oldest_of_key(row).transpose()))
    }

    /// The number of unfinished jobs of a key, which it reads. Scans the whole queue.
    pub(in crate::store) fn count_waiting(&self, key_id: &str) -> Result<usize, Fault> {
        let mut count = 0;
        for row in self.queue.iter()? {
            let (key, of) = row?;
            count += usize::from(of.value() == key_id && self.readable(key.value().1)?.is_some());
        }
        Ok(count)
    }

    /// Up to `limit` finished jobs, each with the time of its next expiry, earliest first.
    pub(in crate::store) fn expiring(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, Fault> {
        self.timed(&self.times, limit)
    }

    /// Up to `limit` jobs with a pending webhook, each with the time of the next attempt, earliest first.
    pub(in crate::store) fn webhooks(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, Fault> {
        self.timed(&self.webhooks, limit)
    }

    fn timed(&self, index: &S::Table<(i64, Text), ()>, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, Fault> {
        let jobs = index.iter()?.map(|row| {
            let (key, _) = row?;
            let (at, id) = key.value();
            Ok::<_, Fault>(self.readable(id)?.map(|job| (UnixSeconds(at), job)))
        });
        jobs.filter_map(Result::transpose).take(limit).collect()
    }

    /// The job of a row of an index; `None` where its record cannot be read.
    fn readable(&self, id: &str) -> Result<Option<Job>, Fault> {
        skip_unreadable(id, self.indexed(id))
    }

    /// The job of a row of an index.
    fn indexed(&self, id: &str) -> Result<Job, Fault> {
        self.rows.get(id)?.ok_or_else(|| Fault::Damaged(format!("job {id} is in an index and not in the table")))
    }

    /// By index: its name and length.
    pub(in crate::store) fn indexes(&self) -> Result<[(&'static str, u64); 5], Fault> {
        Ok([
            (JOB_QUEUE.name(), self.queue.len()?),
            (KEY_JOBS.name(), self.listing.len()?),
            (JOB_NAMES.name(), self.names.len()?),
            (JOB_TIMES.name(), self.times.len()?),
            (WEBHOOK_TIMES.name(), self.webhooks.len()?),
        ])
    }

    /// In the order of [`Self::indexes`]: whether a job is in the index; `None` where it does not belong there.
    pub(in crate::store) fn entries(&self, job: &Job) -> Result<[Option<bool>; 5], Fault> {
        let IndexKeys { queue, listing, name, due, webhook } = IndexKeys::of(job);
        let is_queued = |place| {
            let row = self.queue.get(place)?;
            Ok::<_, Fault>(row.is_some_and(|key_id| key_id.value() == job.key_id))
        };
        let is_named = |(key_id, name)| Ok::<_, Fault>(self.id_of(key_id, name)?.as_deref() == Some(job.id.as_str()));
        let is_timed = |index: &S::Table<(i64, Text), ()>, at| Ok::<_, Fault>(index.get(at)?.is_some());
        Ok([
            queue.map(is_queued).transpose()?,
            Some(self.listing.get(listing)?.is_some()),
            name.map(is_named).transpose()?,
            due.map(|at| is_timed(&self.times, at)).transpose()?,
            webhook.map(|at| is_timed(&self.webhooks, at)).transpose()?,
        ])
    }
}

/// The keys of a job in the indexes, computed from the record alone, for writing and for the integrity check.
struct IndexKeys<'a> {
    queue: Option<(i64, &'a str)>,
    listing: (&'a str, i64, &'a str),
    name: Option<(&'a str, &'a str)>,
    due: Option<(i64, &'a str)>,
    webhook: Option<(i64, &'a str)>,
}

impl<'a> IndexKeys<'a> {
    fn of(job: &'a Job) -> Self {
        let id = job.id.as_str();
        Self {
            queue: (!job.state.is_final()).then_some((job.place, id)),
            listing: (&job.key_id, job.place, id),
            name: job.name.as_deref().map(|name| (job.key_id.as_str(), name)),
            due: job.due_at().map(|at| (at.0, id)),
            webhook: job.webhook_at().map(|at| (at.0, id)),
        }
    }
}

impl Jobs<&WriteTransaction> {
    /// Adds a job, or overwrites the one with its id, without a check.
    pub(in crate::store) fn put(&mut self, job: &Job) -> Result<(), Fault> {
        if let Some(before) = self.rows.get(&job.id)? {
            self.set_indexes(&before, false)?;
        }
        self.rows.put(&job.id, job.clone())?;
        self.set_indexes(job, true)
    }

    /// Removes a job.
    pub(in crate::store) fn remove(&mut self, job: &Job) -> Result<(), Fault> {
        self.set_indexes(job, false)?;
        self.rows.remove(&job.id)
    }

    /// Adds a job to the indexes, or removes it from them.
    fn set_indexes(&mut self, job: &Job, is_added: bool) -> Result<(), Fault> {
        let IndexKeys { queue, listing, name, due, webhook } = IndexKeys::of(job);
        if let Some(place) = queue {
            set(&mut self.queue, place, job.key_id.as_str(), is_added)?;
        }
        set(&mut self.listing, listing, (), is_added)?;
        if let Some(name) = name {
            set(&mut self.names, name, job.id.as_str(), is_added)?;
        }
        if let Some(at) = due {
            set(&mut self.times, at, (), is_added)?;
        }
        if let Some(at) = webhook {
            set(&mut self.webhooks, at, (), is_added)?;
        }
        Ok(())
    }
}

/// Adds a row, or removes it.
fn set<K: Key, V: Value>(
    index: &mut Table<'_, K, V>,
    key: K::SelfType<'_>,
    value: V::SelfType<'_>,
    is_added: bool,
) -> Result<(), StorageError> {
    if is_added {
        index.insert(key, value)?;
    } else {
        index.remove(key)?;
    }
    Ok(())
}
