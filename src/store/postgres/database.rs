//! A PostgreSQL database as the engine of the state: connections, transactions, and its fault. Nothing of it is in memory.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use tokio_postgres::Row;

use super::connect::PostgresServer;
use super::error::DatabaseError;
use super::rows::{self, Parameters};
use crate::store::{ChangeError, OpenError};

/// How long the server may take for a call. Longer than its own limit of a statement, which says more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// A database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Database(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: PostgresServer,
    pool: Pool,
    free_images_per_month: u64,
    fault: Mutex<Option<String>>,
}

impl Database {
    pub(super) fn new(server: PostgresServer, pool: Pool, free_images_per_month: u64) -> Self {
        Self(Arc::new(Shared { server, pool, free_images_per_month, fault: Mutex::default() }))
    }

    pub(in crate::store) fn free_images_per_month(&self) -> u64 {
        self.0.free_images_per_month
    }

    /// Why it could not be used the last time.
    pub(in crate::store) fn fault(&self) -> Option<String> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The secret that all daemons on this database share; `own` is stored if the database has none.
    ///
    /// # Errors
    /// When the database cannot be used, or the secret does not have 32 bytes.
    pub async fn shared_secret(&self, own: [u8; 32]) -> Result<[u8; 32], OpenError> {
        let read = async {
            let text = "INSERT INTO secret (bytes) VALUES ($1) ON CONFLICT (is_single) DO NOTHING";
            self.execute(text, &[&own.as_slice()]).await?;
            let bytes = self.rows("SELECT bytes FROM secret", &[]).await?.pop().map(|row| row.get::<_, Vec<u8>>(0));
            let bytes = bytes.unwrap_or_default().try_into();
            bytes.map_err(|_| DatabaseError::Damaged("the secret does not have 32 bytes".into()))
        };
        read.await.map_err(|error| error.into_open_error(self.name()))
    }

    /// The database for messages, without user and password.
    pub(super) fn name(&self) -> &str {
        self.0.server.name()
    }

    /// A connection of the pool.
    pub(super) async fn client(&self) -> Result<Object, DatabaseError> {
        Ok(self.0.pool.get().await?)
    }

    /// Runs `work` within the time limit, and remembers whether the database could be used.
    pub(super) async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, DatabaseError>>,
    ) -> Result<T, DatabaseError> {
        let done = match tokio::time::timeout(ANSWER_TIMEOUT, work).await {
            Ok(done) => done,
            Err(_) => {
                let seconds = ANSWER_TIMEOUT.as_secs();
                Err(DatabaseError::Interrupted(format!("the database did not answer within {seconds} s")))
            }
        };
        let outage = done.as_ref().err().filter(|error| error.is_outage());
        if outage.is_some() {
            // The other connections are to this server, which may no longer accept writes.
            self.0.pool.retain(|_, _| false);
        }
        let fault = outage.map(ToString::to_string);
        let before =
            std::mem::replace(&mut *self.0.fault.lock().unwrap_or_else(PoisonError::into_inner), fault.clone());
        match (before, fault) {
            (None, Some(reason)) => tracing::error!(reason, "the database cannot be used"),
            (Some(_), None) => tracing::info!("the database can be used again"),
            _ => {}
        }
        done
    }

    /// The rows of one query.
    pub(super) async fn rows(&self, text: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, DatabaseError> {
        self.run(async { rows::rows(&self.client().await?, text, parameters).await }).await
    }

    /// As [`Self::rows`]: what `convert` makes of them.
    pub(super) async fn read<T>(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
        convert: impl Fn(&Row) -> Result<T, DatabaseError>,
    ) -> Result<Vec<T>, OpenError> {
        let read = self.rows(text, parameters).await.and_then(|rows| rows.iter().map(convert).collect());
        read.map_err(|error| error.into_open_error(self.name()))
    }

    /// Runs one statement; returns how many rows it changed.
    pub(super) async fn execute(&self, text: &'static str, parameters: Parameters<'_>) -> Result<u64, DatabaseError> {
        self.run(async { rows::execute(&self.client().await?, text, parameters).await }).await
    }

    /// Queries the database, so that [`Self::fault`] is up to date.
    pub(in crate::store) async fn test(&self) {
        drop(self.rows("SELECT 1", &[]).await);
    }

    /// Drops ended claims and idle rates.
    pub(in crate::store) async fn drop_ended(&self) -> Result<(), ChangeError> {
        for text in [
            "DELETE FROM claims WHERE ends_at < now()",
            "DELETE FROM rates WHERE second < extract(epoch FROM now()) - 120",
        ] {
            self.execute(text, &[]).await?;
        }
        Ok(())
    }
}

/// Runs `$work` in the transaction `$on` of the database `$database`, and commits it unless `$work` fails.
macro_rules! transaction {
    ($database:expr, $on:ident, $work:block) => {
        $database
            .run(async {
                let mut client = $database.client().await?;
                let $on = client.transaction().await?;
                let worked: Result<_, DatabaseError> = async { $work }.await;
                let value = worked?;
                $on.commit().await?;
                Ok(value)
            })
            .await
    };
}
pub(super) use transaction;
