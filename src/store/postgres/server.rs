//! A configured database server: opens the database for a daemon or a command, exports and imports it.

use std::io::{BufRead, Write};

use super::bulk_queue::BulkQueue;
use super::connect::{Server, ServerError, StoreConfig};
use super::database::Database;
use super::error::DatabaseError;
use super::migrations::Migration;
use super::schema::{enter, upgrade};
use super::transfer;
use crate::store::integrity_check::RowCounts;
use crate::store::{ExportError, ExportedAccounts, ImportError, OpenError};

/// Connections of a process. More calls at once wait for one.
const CONNECTIONS: usize = 16;

/// A configured database.
#[derive(Clone, Debug)]
pub struct PostgresServer(Server);

impl PostgresServer {
    /// The database that a configuration names; `None` where it names none. Connects to nothing yet.
    ///
    /// # Errors
    /// When the URL is invalid, or the file of certificates cannot be read.
    pub fn configured(config: &StoreConfig) -> Result<Option<Self>, ServerError> {
        config.url.as_ref().map(|url| Server::new(url, config).map(Self)).transpose()
    }

    /// The address, without user and password.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// This database as the next version opens it, with a further migration: for tests of updates.
    #[must_use]
    pub fn for_next_version(mut self, migration: &'static str, is_additive: bool) -> Self {
        self.0.migrations = self.0.migrations.with(Migration { text: migration, is_additive });
        self
    }

    /// Opens the database, creating or upgrading its tables. An additive migration runs while other processes use the database.
    /// `free_images_per_month` is the quota of the free plan.
    ///
    /// # Errors
    /// [`OpenError::Locked`] while an import runs, or the tables are to be upgraded and the use by others does not allow it;
    /// others when it cannot be used, or is of a newer version on whose tables this one does not work.
    pub async fn open(&self, free_images_per_month: u64) -> Result<Database, OpenError> {
        let server = &self.0;
        let failed = |error: DatabaseError| error.into_open_error(server.name());
        let locked = || OpenError::Locked { path: server.name().into() };
        let mut client = server.connect().await.map_err(failed)?;
        if !upgrade(&server.migrations, &mut client).await.map_err(failed)? {
            return Err(locked());
        }
        server.require_usable(&client).await?;
        match enter(&client, &server.migrations).await {
            Ok(()) => {
                let database = Database::new(server.clone(), server.pool(CONNECTIONS), free_images_per_month);
                // From here on a connection of the pool says that the database is in use.
                drop(database.client().await.map_err(failed)?);
                Ok(database)
            }
            Err(DatabaseError::Locked) => Err(locked()),
            Err(error) => Err(failed(error)),
        }
    }

    /// The queue of bulk runs, also while daemons use the database. Creates or upgrades the tables as far as others allow.
    ///
    /// # Errors
    /// When the database cannot be used, or has tables on which this version does not work.
    pub async fn bulk_queue(&self) -> Result<BulkQueue, OpenError> {
        let server = &self.0;
        let failed = |error: DatabaseError| error.into_open_error(server.name());
        let mut client = server.connect().await.map_err(failed)?;
        // Where others prevent it, the tables are refused.
        upgrade(&server.migrations, &mut client).await.map_err(failed)?;
        server.require_usable(&client).await?;
        Ok(Database::new(server.clone(), server.pool(CONNECTIONS), 0).bulk_queue())
    }

    /// Whether the database answers, and has tables on which this version works. Upgrades nothing.
    ///
    /// # Errors
    /// When it does not.
    pub async fn probe(&self) -> Result<(), OpenError> {
        let client = self.0.connect().await.map_err(|error| error.into_open_error(self.name()))?;
        self.0.require_usable(&client).await
    }

    /// Writes a consistent snapshot of the whole database, or of what belongs to some accounts, also while a daemon uses it.
    ///
    /// # Errors
    /// When an account does not exist, the database cannot be read, has tables of another version, a row is damaged, or the output cannot be written.
    pub async fn export(&self, output: impl Write, accounts: &ExportedAccounts) -> Result<RowCounts, ExportError> {
        transfer::export(&self.0, output, accounts).await
    }

    /// Reads an export into the database, which must be empty and not in use, in one transaction.
    ///
    /// # Errors
    /// When another process uses it, it has rows, a line is invalid or missing, or it cannot be written.
    pub async fn import(&self, input: impl BufRead) -> Result<RowCounts, ImportError> {
        transfer::import(&self.0, input).await
    }
}
