//! Removes runs with their chunks, which may be a hundred thousand with as many pages of report rows, in transactions of a
//! bounded size.
//!
//! A run is first marked, in the transaction that ends it: from then on it is neither shown nor claimed, and a run that is begun
//! with its id is a new one. Then its chunks are deleted, and last the run. What a process that ends on the way leaves over is
//! removed by any daemon.

use std::time::Duration;

use super::bulk_queue::{BulkQueue, REMOVED, delete_removed};
use super::reads::Queries;
use crate::store::OpenError;
use crate::store::storage_fault::Fault;

/// Chunks that are deleted in one transaction.
const BATCH: i64 = 10_000;

/// Marks a run.
pub(super) fn mark_removed(queries: &mut Queries<'_>, id: &str) -> Result<(), Fault> {
    let text = "UPDATE bulk_runs SET state = 'cancelled', lister = $2 WHERE id = $1";
    queries.execute(text, &[&id, &REMOVED])
}

impl BulkQueue {
    /// Removes a run.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub fn remove(&self, id: &str) -> Result<(), OpenError> {
        self.transaction(|queries| mark_removed(queries, id))?;
        self.delete_marked(id)
    }

    /// Removes a run of a key that has ended, with what is left of it in the queue.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub fn remove_job(&self, key_id: &str, id: &str) -> Result<(), OpenError> {
        let is_removed = self.transaction(|queries| {
            let text = "DELETE FROM bulk_jobs WHERE id = $2 AND key_id = $1 AND state IN ('done', 'error') RETURNING 1";
            let is_removed = queries.has(text, &[&key_id, &id])?;
            if is_removed {
                mark_removed(queries, id)?;
            }
            Ok(is_removed)
        })?;
        if is_removed { self.delete_marked(id) } else { Ok(()) }
    }

    /// Removes the jobs that ended longer than `age` ago, and all runs that are to be removed.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub fn remove_old_jobs(&self, age: Duration) -> Result<(), OpenError> {
        let marked: Vec<String> = self.transaction(|queries| {
            let text = "DELETE FROM bulk_jobs WHERE state IN ('done', 'error') \
                 AND updated_at < now() - make_interval(secs => $1) RETURNING id";
            for row in queries.rows(text, &[&age.as_secs_f64()])? {
                mark_removed(queries, row.get(0))?;
            }
            let rows = queries.rows("SELECT id FROM bulk_runs WHERE lister = $1", &[&REMOVED])?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        })?;
        marked.iter().try_for_each(|id| self.delete_marked(id))
    }

    /// Deletes a marked run, its chunks first. One that was begun anew meanwhile is left alone.
    pub(super) fn delete_marked(&self, id: &str) -> Result<(), OpenError> {
        let delete_batch = |queries: &mut Queries<'_>| {
            let text = "WITH batch AS ( \
                   SELECT c.number FROM bulk_chunks c JOIN bulk_runs r ON r.id = c.run \
                   WHERE r.id = $1 AND r.lister = $2 LIMIT $3 \
                 ), deleted AS ( \
                   DELETE FROM bulk_chunks c USING batch WHERE c.run = $1 AND c.number = batch.number RETURNING 1 \
                 ) \
                 SELECT 1 FROM deleted LIMIT 1";
            queries.has(text, &[&id, &REMOVED, &BATCH])
        };
        while self.transaction(delete_batch)? {}
        self.transaction(|queries| delete_removed(queries, id))
    }
}
