//! Table of jobs: job id → `JobRecord`, with indexes by queue place, listing place, `Idempotency-Key`, expiry and webhook
//! time.

use std::collections::HashSet;
use std::ops::Bound;

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use super::{Bytes, Row, Text};
use crate::store::account_turns::next_in_turn;
use crate::store::records::{JobRecord, Record};
use crate::store::storage_fault::Fault;
use crate::store::unreadable_jobs::skip_unreadable;
use crate::store::{Job, JobState, UnixSeconds};

pub(in crate::store) const JOBS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("jobs");
/// (place, id) → key id, of unfinished jobs.
pub(in crate::store) const JOB_QUEUE: TableDefinition<'_, (i64, &str), &str> = TableDefinition::new("job_queue");
/// (key id, place, id).
pub(in crate::store) const KEY_JOBS: TableDefinition<'_, (&str, i64, &str), ()> = TableDefinition::new("key_jobs");
/// (key id, `Idempotency-Key`) → id.
pub(in crate::store) const JOB_NAMES: TableDefinition<'_, (&str, &str), &str> = TableDefinition::new("job_names");
/// (time of the next expiry, id), of finished jobs.
pub(in crate::store) const JOB_TIMES: TableDefinition<'_, (i64, &str), ()> = TableDefinition::new("job_times");
/// (time of the next attempt, id), of jobs with a pending webhook.
pub(in crate::store) const WEBHOOK_TIMES: TableDefinition<'_, (i64, &str), ()> = TableDefinition::new("webhook_times");

/// The table of jobs and its indexes.
pub(in crate::store) struct Jobs<T, Q, L, N, I> {
    jobs: T,
    queue: Q,
    listing: L,
    names: N,
    times: I,
    webhooks: I,
}

type Queue = (i64, Text);
type Listing = (Text, i64, Text);
type Names = (Text, Text);
type Times = (i64, Text);

pub(super) type Writing<'txn> = Jobs<
    Table<'txn, Text, Bytes>,
    Table<'txn, Queue, Text>,
    Table<'txn, Listing, ()>,
    Table<'txn, Names, Text>,
    Table<'txn, Times, ()>,
>;
pub(super) type Reading = Jobs<
    ReadOnlyTable<Text, Bytes>,
    ReadOnlyTable<Queue, Text>,
    ReadOnlyTable<Listing, ()>,
    ReadOnlyTable<Names, Text>,
    ReadOnlyTable<Times, ()>,
>;

impl<'txn> Writing<'txn> {
    pub(super) fn create(transaction: &'txn WriteTransaction) -> Result<Self, TableError> {
        Ok(Self {
            jobs: transaction.open_table(JOBS)?,
            queue: transaction.open_table(JOB_QUEUE)?,
            listing: transaction.open_table(KEY_JOBS)?,
            names: transaction.open_table(JOB_NAMES)?,
            times: transaction.open_table(JOB_TIMES)?,
            webhooks: transaction.open_table(WEBHOOK_TIMES)?,
        })
    }
}

impl Reading {
    pub(in crate::store) fn open(transaction: &ReadTransaction) -> Result<Self, TableError> {
        Ok(Self {
            jobs: transaction.open_table(JOBS)?,
            queue: transaction.open_table(JOB_QUEUE)?,
            listing: transaction.open_table(KEY_JOBS)?,
            names: transaction.open_table(JOB_NAMES)?,
            times: transaction.open_table(JOB_TIMES)?,
            webhooks: transaction.open_table(WEBHOOK_TIMES)?,
        })
    }
}

impl<T, Q, L, N, I> Jobs<T, Q, L, N, I>
where
    T: ReadableTable<Text, Bytes>,
    Q: ReadableTable<Queue, Text>,
    L: ReadableTable<Listing, ()>,
    N: ReadableTable<Names, Text>,
    I: ReadableTable<Times, ()>,
{
    pub(in crate::store) fn get(&self, id: &str) -> Result<Option<Job>, Fault> {
        self.jobs.get(id)?.map(|row| decode(id, row.value())).transpose()
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
        after: Option<(i64, &str)>,
        limit: usize,
    ) -> Result<Vec<Job>, Fault> {
        let from = Bound::Included((key_id, i64::MIN, ""));
        // The upper end of the key's range: no id and no place sorts behind these.
        let to = after.map_or(Bound::Included((key_id, i64::MAX, "\u{10ffff}")), |(place, id)| {
            Bound::Excluded((key_id, place, id))
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
            let (key, key_id): (redb::AccessGuard<'_, Queue>, redb::AccessGuard<'_, Text>) = row?;
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

    fn timed(&self, index: &I, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, Fault> {
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
        self.get(id)?.ok_or_else(|| Fault::Damaged(format!("job {id} is in an index and not in the table")))
    }

    /// All rows: the key (the id) and the job.
    pub(in crate::store) fn rows(&self) -> Result<impl Iterator<Item = Row<String, Job>>, Fault> {
        Ok(self.jobs.iter()?.map(|row| {
            let (id, bytes) = row?;
            Ok((id.value().to_owned(), decode(id.value(), bytes.value())))
        }))
    }

    /// The indexes in which a job is missing.
    pub(in crate::store) fn missing_indexes(&self, job: &Job) -> Result<Vec<&'static str>, Fault> {
        let IndexKeys { queue, listing, name, due, webhook } = IndexKeys::of(job);
        let mut missing = Vec::new();
        let mut expect = |name, there: bool| {
            if !there {
                missing.push(name);
            }
        };
        if let Some(place) = queue {
            expect("queue", self.queue.get(place)?.is_some_and(|key_id| key_id.value() == job.key_id));
        }
        expect("listing", self.listing.get(listing)?.is_some());
        if let Some((key_id, name)) = name {
            expect("names", self.id_of(key_id, name)?.as_deref() == Some(job.id.as_str()));
        }
        if let Some(place) = due {
            expect("times", self.times.get(place)?.is_some());
        }
        if let Some(place) = webhook {
            expect("webhooks", self.webhooks.get(place)?.is_some());
        }
        Ok(missing)
    }

    /// Calls `found` with every row of every index.
    pub(in crate::store) fn index_rows(
        &self,
        found: &mut dyn FnMut(IndexRow) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for row in self.queue.iter()? {
            let (key, key_id) = row?;
            let ((place, id), key_id) = (key.value(), key_id.value().to_owned());
            let belongs = |job: &Job| IndexKeys::of(job).queue == Some((place, id)) && job.key_id == key_id;
            found(IndexRow { index: "queue", id, belongs: &belongs })?;
        }
        for row in self.listing.iter()? {
            let (key, _) = row?;
            let (_, _, id) = key.value();
            found(IndexRow { index: "listing", id, belongs: &|job| IndexKeys::of(job).listing == key.value() })?;
        }
        for row in self.names.iter()? {
            let (key, id) = row?;
            found(IndexRow {
                index: "names",
                id: id.value(),
                belongs: &|job| IndexKeys::of(job).name == Some(key.value()),
            })?;
        }
        for row in self.times.iter()? {
            let (key, _) = row?;
            let (_, id) = key.value();
            found(IndexRow { index: "times", id, belongs: &|job| IndexKeys::of(job).due == Some(key.value()) })?;
        }
        for row in self.webhooks.iter()? {
            let (key, _) = row?;
            let (_, id) = key.value();
            found(IndexRow { index: "webhooks", id, belongs: &|job| IndexKeys::of(job).webhook == Some(key.value()) })?;
        }
        Ok(())
    }
}

/// A row of an index.
pub(in crate::store) struct IndexRow<'a> {
    /// Which index.
    pub(in crate::store) index: &'static str,
    /// The id of its job.
    pub(in crate::store) id: &'a str,
    /// Whether that job belongs there.
    pub(in crate::store) belongs: &'a dyn Fn(&Job) -> bool,
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

impl Writing<'_> {
    pub(super) fn is_empty(&self) -> Result<bool, StorageError> {
        self.jobs.is_empty()
    }

    /// Adds a job, or overwrites the one with its id, without a check.
    pub(in crate::store) fn put(&mut self, job: &Job) -> Result<(), Fault> {
        if let Some(before) = self.get(&job.id)? {
            self.remove_from_indexes(&before)?;
        }
        self.jobs.insert(job.id.as_str(), JobRecord::from_latest(job.clone()).encode().as_slice())?;
        let IndexKeys { queue, listing, name, due, webhook } = IndexKeys::of(job);
        if let Some(place) = queue {
            self.queue.insert(place, job.key_id.as_str())?;
        }
        self.listing.insert(listing, ())?;
        if let Some(name) = name {
            self.names.insert(name, job.id.as_str())?;
        }
        if let Some(place) = due {
            self.times.insert(place, ())?;
        }
        if let Some(place) = webhook {
            self.webhooks.insert(place, ())?;
        }
        Ok(())
    }

    /// Removes a job.
    pub(in crate::store) fn remove(&mut self, job: &Job) -> Result<(), Fault> {
        self.remove_from_indexes(job)?;
        self.jobs.remove(job.id.as_str())?;
        Ok(())
    }

    fn remove_from_indexes(&mut self, job: &Job) -> Result<(), Fault> {
        let IndexKeys { queue, listing, name, due, webhook } = IndexKeys::of(job);
        if let Some(place) = queue {
            self.queue.remove(place)?;
        }
        self.listing.remove(listing)?;
        if let Some(name) = name {
            self.names.remove(name)?;
        }
        if let Some(place) = due {
            self.times.remove(place)?;
        }
        if let Some(place) = webhook {
            self.webhooks.remove(place)?;
        }
        Ok(())
    }
}

fn decode(id: &str, bytes: &[u8]) -> Result<Job, Fault> {
    let unreadable = |error| Fault::unreadable(format_args!("job {id}"), &error);
    JobRecord::decode(bytes).map(Record::latest).map_err(unreadable)
}
