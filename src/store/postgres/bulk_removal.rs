//! Removes runs with their chunks, which may be a hundred thousand with as many pages of report rows, in transactions of a
//! bounded size.
//!
//! A run is first marked, in the transaction that ends it: from then on it is neither shown nor claimed, and a run that is begun
//! with its id is a new one. Then its chunks are deleted, and last the run. What a process that ends on the way leaves over is
//! removed by any daemon.

use std::time::Duration;

use super::bulk_queue::{BulkQueue, DELETE_REMOVED, MARK_REMOVED, REMOVED, transaction};
use super::database;
use super::error::DatabaseError;
use super::rows::{Parameters, execute, row, rows};
use super::schema::{CREATION_LOCK, LOCKS};
use crate::store::OpenError;

/// Chunks that are deleted in one transaction.
const BATCH: i64 = 10_000;

impl BulkQueue {
    /// Removes a run.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn remove(&self, id: &str) -> Result<(), OpenError> {
        self.execute(MARK_REMOVED, &[&id, &REMOVED]).await?;
        self.delete_marked(id).await
    }

    /// Removes a run of a key that has ended, with what is left of it in the queue.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn remove_job(&self, key_id: &str, id: &str) -> Result<(), OpenError> {
        let text = "DELETE FROM bulk_jobs WHERE id = $2 AND key_id = $1 AND state IN ('done', 'error') RETURNING id";
        for id in self.remove_ended(text, &[&key_id, &id]).await? {
            self.delete_marked(&id).await?;
        }
        Ok(())
    }

    /// Removes the jobs that ended longer than `age` ago, and all runs that are to be removed.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn remove_old_jobs(&self, age: Duration) -> Result<(), OpenError> {
        let text = "DELETE FROM bulk_jobs WHERE state IN ('done', 'error') \
             AND updated_at < now() - make_interval(secs => $1) RETURNING id";
        self.remove_ended(text, &[&age.as_secs_f64()]).await?;
        let text = "SELECT id FROM bulk_runs WHERE lister = $1";
        for id in self.database.read(text, &[&REMOVED], |row| Ok(row.get::<_, String>(0))).await? {
            self.delete_marked(&id).await?;
        }
        Ok(())
    }

    /// Removes jobs by a statement that returns their ids, and marks their runs in its transaction. Returns the ids.
    async fn remove_ended(&self, text: &'static str, parameters: Parameters<'_>) -> Result<Vec<String>, OpenError> {
        transaction!(self, on, {
            // As a creation, so that both lock run and job in one order.
            row(&on, "SELECT pg_advisory_xact_lock($1, $2)", &[&LOCKS, &CREATION_LOCK]).await?;
            let removed: Vec<String> = rows(&on, text, parameters).await?.iter().map(|row| row.get(0)).collect();
            for id in &removed {
                execute(&on, MARK_REMOVED, &[id, &REMOVED]).await?;
            }
            Ok(removed)
        })
    }

    /// Deletes a marked run, its chunks first. One that was begun anew meanwhile is left alone.
    pub(super) async fn delete_marked(&self, id: &str) -> Result<(), OpenError> {
        let text = "WITH batch AS ( \
               SELECT c.number FROM bulk_chunks c JOIN bulk_runs r ON r.id = c.run \
               WHERE r.id = $1 AND r.lister = $2 LIMIT $3 \
             ) \
             DELETE FROM bulk_chunks c USING batch WHERE c.run = $1 AND c.number = batch.number";
        while self.execute(text, &[&id, &REMOVED, &BATCH]).await? > 0 {}
        self.execute(DELETE_REMOVED, &[&id, &REMOVED]).await.map(drop)
    }
}
