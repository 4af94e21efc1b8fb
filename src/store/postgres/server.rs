//! Opens a configured database for a daemon or a command.

use super::bulk_queue::BulkQueue;
use super::connect::PostgresServer;
use super::database::Database;
use super::error::DatabaseError;
use super::migrations::Migration;
use super::schema::{enter, upgrade};
use crate::store::OpenError;

/// Connections of a process. More calls at once wait for one.
const CONNECTIONS: usize = 16;

impl PostgresServer {
    /// This database as the next version opens it, with a further migration: for tests of updates.
    #[must_use]
    pub fn for_next_version(mut self, migration: &'static str, is_additive: bool) -> Self {
        self.migrations = self.migrations.with(Migration { text: migration, is_additive });
        self
    }

    /// Opens the database, creating or upgrading its tables. An additive migration runs while other processes use the database.
    /// `free_images_per_month` is the quota of the free plan.
    ///
    /// # Errors
    /// [`OpenError::Locked`] while an import runs, or the tables are to be upgraded and the use by others does not allow it;
    /// others when it cannot be used, or is of a newer version on whose tables this one does not work.
    pub async fn open(&self, free_images_per_month: u64) -> Result<Database, OpenError> {
        let failed = |error: DatabaseError| error.into_open_error(self.name());
        let refused = |error: DatabaseError| {
            let is_locked = matches!(error, DatabaseError::Locked);
            if is_locked { OpenError::Locked { path: self.name().into() } } else { failed(error) }
        };
        let mut client = self.connect().await.map_err(failed)?;
        upgrade(&self.migrations, &mut client).await.map_err(refused)?;
        self.require_usable(&client).await?;
        enter(&client, &self.migrations).await.map_err(refused)?;
        let database = Database::new(self.clone(), self.pool(CONNECTIONS), free_images_per_month);
        // From here on a connection of the pool says that the database is in use.
        drop(database.client().await.map_err(failed)?);
        Ok(database)
    }

    /// The queue of bulk runs, also while daemons use the database. Creates or upgrades the tables as far as others allow.
    ///
    /// # Errors
    /// When the database cannot be used, or has tables on which this version does not work.
    pub async fn bulk_queue(&self) -> Result<BulkQueue, OpenError> {
        let failed = |error: DatabaseError| error.into_open_error(self.name());
        let mut client = self.connect().await.map_err(failed)?;
        match upgrade(&self.migrations, &mut client).await {
            // Where others prevent it, the tables are refused below.
            Ok(()) | Err(DatabaseError::Locked) => {}
            Err(error) => return Err(failed(error)),
        }
        self.require_usable(&client).await?;
        Ok(Database::new(self.clone(), self.pool(CONNECTIONS), 0).bulk_queue())
    }

    /// Whether the database answers, and has tables on which this version works. Upgrades nothing.
    ///
    /// # Errors
    /// When it does not.
    pub async fn probe(&self) -> Result<(), OpenError> {
        let client = self.connect().await.map_err(|error| error.into_open_error(self.name()))?;
        self.require_usable(&client).await
    }
}
