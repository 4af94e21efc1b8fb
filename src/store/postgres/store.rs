//! A PostgreSQL database as a store that other processes change too; exports, also beside them, and imports.

use std::collections::HashSet;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::bulk_queue::BulkQueue;
use super::calls::CallExchange;
use super::commit_log::LogFollowers;
use super::connect::{Connection, Connections, Server, ServerError, StoreConfig};
use super::daemon_id::daemon_id;
use super::locks::{Locking, lock_alone, lock_shared, unlock};
use super::migrations::Migration;
use super::reads::Queries;
use super::schema::{Upgrade, apply_missing_alone, path, read_error, require_own, require_usable, upgrade};
use super::writer::{Health, Writer, clean_up};
use crate::store::export_import::{TransferError, import};
use crate::store::integrity_check::RowCounts;
use crate::store::storage_fault::Fault;
use crate::store::{
    Change, Day, ExportError, ExportedAccounts, Follower, ImportError, Job, KeyDay, OnCommit, OpenError, Preset, Rows,
    StateStore, UnixSeconds,
};

/// Connections for reads. Reads are few: everything hot is in memory.
const READERS: u32 = 4;

/// How long a read waits for a connection, while the database can be used and while it cannot.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const FAULT_TIMEOUT: Duration = Duration::from_millis(200);

/// An open database.
#[derive(Debug)]
pub struct PostgresStore {
    server: Server,
    writer: Writer,
    readers: r2d2::Pool<Connections>,
    health: Arc<Health>,
    followers: Arc<LogFollowers>,
    /// Identifies this process in tables.
    process: i64,
    calls: Mutex<CallExchange>,
}

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

    /// The same database for the daemon of a data directory, which gets an identity there if it has none.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn for_daemon(mut self, data_dir: &Path) -> io::Result<Self> {
        self.0.daemon = Some(daemon_id(data_dir)?);
        Ok(self)
    }

    /// The same database for the version after this one, which has a further migration: for tests of updates.
    #[must_use]
    pub fn for_next_version(mut self, migration: &'static str, is_additive: bool) -> Self {
        self.0.migrations = self.0.migrations.with(Migration { text: migration, is_additive });
        self
    }

    /// What a daemon does once a minute, in turns: drops old commits, ended leases and daemons that are gone. For tests, which do
    /// not wait for it.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub fn clean_up(&self) -> Result<(), OpenError> {
        let cleaned = self.0.connect().and_then(|mut connection| {
            while clean_up(&mut connection)? {}
            Ok(())
        });
        cleaned.map_err(|fault| read_error(&self.0, fault))
    }

    /// Opens the database, creating or upgrading its tables. A migration that is not breaking happens beside other processes.
    ///
    /// # Errors
    /// [`OpenError::Locked`] while another process has the same data directory, an import runs, or the tables are to be
    /// upgraded and the use by others does not allow it; others when it cannot be used, or is of a newer version on whose
    /// tables this one does not work.
    pub fn open(&self) -> Result<PostgresStore, OpenError> {
        let server = &self.0;
        let failed = |fault| read_error(server, fault);
        let mut connection = server.connect().map_err(failed)?;
        let locked = || OpenError::Locked { path: path(server) };
        if upgrade(server, &mut connection).map_err(failed)? == Upgrade::InUse
            || lock_shared(&mut connection).map_err(failed)? == Locking::InUse
        {
            return Err(locked());
        }
        require_usable(server, &mut connection)?;
        take_jobs_without_daemon(&mut connection).map_err(failed)?;
        drop_own_leases(&mut connection).map_err(failed)?;
        let (health, followers, process) = (Arc::default(), Arc::<LogFollowers>::default(), rand::random());
        let shared = (Arc::clone(&followers), Arc::clone(&health));
        let writer = Writer::start(server.clone(), connection, process, shared.0, shared.1).map_err(failed)?;
        let pool = r2d2::Pool::builder().max_size(READERS).min_idle(Some(1)).connection_timeout(READ_TIMEOUT);
        // A broken connection is found by its query, which is then repeated on another one. Failures to connect are
        // reported by the writer.
        let pool = pool.test_on_check_out(false).error_handler(Box::new(r2d2::NopErrorHandler));
        let readers = pool.build_unchecked(Connections(server.clone()));
        let calls = Mutex::default();
        Ok(PostgresStore { server: server.clone(), writer, readers, health, followers, process, calls })
    }

    /// The queue of bulk runs, also while a daemon uses the database. Creates or upgrades the tables as far as others allow.
    ///
    /// # Errors
    /// When the database cannot be used, or has tables on which this version does not work.
    pub fn bulk_queue(&self) -> Result<BulkQueue, OpenError> {
        let server = &self.0;
        let failed = |fault| read_error(server, fault);
        let mut connection = server.connect().map_err(failed)?;
        // Where others prevent it, the queue refuses the tables.
        upgrade(server, &mut connection).map_err(failed)?;
        BulkQueue::open(server.clone())
    }

    /// The queue of bulk runs for a daemon, which has opened the database. Connects with the first call.
    #[must_use]
    pub fn bulk_queue_of_daemon(&self) -> BulkQueue {
        BulkQueue::unconnected(self.0.clone())
    }

    /// Writes a consistent snapshot of the whole database, or of what belongs to some accounts, also while a daemon uses it.
    ///
    /// # Errors
    /// When an account does not exist, the database cannot be read, has tables of another version, a row is damaged, or the output cannot be written.
    pub fn export(&self, output: impl Write, accounts: &ExportedAccounts) -> Result<RowCounts, ExportError> {
        let server = &self.0;
        let mut connection = server.connect().map_err(|fault| read_error(server, fault))?;
        // This version would leave out what a later one has added.
        require_own(server, &mut connection)?;
        connection.remove_timeouts().map_err(|fault| read_error(server, fault))?;
        let mut queries = connection.snapshot().map_err(|fault| read_error(server, fault))?;
        queries.export(output, accounts).map_err(|error| match error {
            TransferError::Data(error) => ExportError::Output(error),
            TransferError::Fault(fault) => read_error(server, fault).into(),
        })
    }

    /// Reads an export into the database, which must be empty and not in use, in one transaction.
    ///
    /// # Errors
    /// When another process uses it, it has rows, a line is invalid or missing, or it cannot be written.
    pub fn import(&self, input: impl BufRead) -> Result<RowCounts, ImportError> {
        let server = &self.0;
        let failed = |fault: Fault| ImportError::Store(read_error(server, fault));
        let mut connection = server.connect().map_err(failed)?;
        if lock_alone(&mut connection).map_err(failed)? == Locking::InUse {
            return Err(OpenError::Locked { path: path(server) }.into());
        }
        let imported = self.import_locked(&mut connection, input);
        unlock(&connection);
        imported
    }

    fn import_locked(&self, connection: &mut Connection, mut input: impl BufRead) -> Result<RowCounts, ImportError> {
        let server = &self.0;
        let failed = |fault: Fault| ImportError::Store(read_error(server, fault));
        apply_missing_alone(server, connection).map_err(failed)?;
        require_usable(server, connection)?;
        connection.remove_timeouts().map_err(failed)?;
        let mut queries = connection.writing().map_err(failed)?;
        let rows = import(&mut queries, &mut input).map_err(|error| match error {
            TransferError::Data(error) => error,
            TransferError::Fault(fault) => failed(fault),
        })?;
        queries.commit().map_err(failed)?;
        Ok(rows)
    }
}

/// Makes jobs this daemon's that an older version or an import left without one.
fn take_jobs_without_daemon(connection: &mut Connection) -> Result<(), Fault> {
    let Some(daemon) = connection.daemon else { return Ok(()) };
    let mut queries = connection.writing()?;
    queries.execute("UPDATE jobs SET owner = $1 WHERE owner IS NULL", &[&daemon])?;
    queries.commit()
}

/// Removes the leases of an earlier process of this daemon: what they were held for is gone.
fn drop_own_leases(connection: &mut Connection) -> Result<(), Fault> {
    let Some(daemon) = connection.daemon else { return Ok(()) };
    let mut queries = connection.writing()?;
    queries.execute("DELETE FROM leases WHERE daemon = $1", &[&daemon])?;
    queries.commit()
}

impl PostgresStore {
    /// As [`StateStore::load`], at a given time.
    ///
    /// # Errors
    /// As [`StateStore::load`].
    pub fn load_at(&self, now: UnixSeconds) -> Result<Rows, OpenError> {
        // All rows of some tables: as long as it takes.
        let load = || {
            let mut connection = self.server.connect()?;
            connection.remove_timeouts()?;
            let mut queries = connection.snapshot()?;
            let last = queries.last_commit()?;
            let rows = queries.load(now)?;
            self.followers.loaded(last.number);
            Ok(rows)
        };
        load().map_err(|fault| read_error(&self.server, fault))
    }

    /// The secret of all daemons on this database, which becomes `own` where there is none yet.
    ///
    /// # Errors
    /// When the database cannot be used, or the secret does not have 32 bytes.
    pub fn shared_secret(&self, own: [u8; 32]) -> Result<[u8; 32], OpenError> {
        let read = || {
            let mut connection = self.server.connect()?;
            let mut queries = connection.writing()?;
            let text = "INSERT INTO secret (bytes) VALUES ($1) ON CONFLICT (is_single) DO NOTHING";
            queries.execute(text, &[&own.as_slice()])?;
            let row = queries.row("SELECT bytes FROM secret", &[])?;
            queries.commit()?;
            let bytes: Vec<u8> = row.map(|row| row.get(0)).unwrap_or_default();
            bytes.try_into().map_err(|_| Fault::Damaged("the secret does not have 32 bytes".into()))
        };
        read().map_err(|fault| read_error(&self.server, fault))
    }

    /// Runs `work` on a snapshot; again on another connection where the first one is broken.
    fn read<T>(&self, mut work: impl FnMut(&mut Queries<'_>) -> Result<T, Fault>) -> Result<T, OpenError> {
        let failed = |fault| read_error(&self.server, fault);
        // Each of the pool's connections may have broken, and each try discards one.
        let mut tries = READERS;
        loop {
            let patience = if self.health.fault().is_none() { READ_TIMEOUT } else { FAULT_TIMEOUT };
            let connection = self.readers.get_timeout(patience);
            let mut connection = connection.map_err(|error| failed(Fault::Server(error.to_string())))?;
            let read = connection.snapshot().and_then(|mut queries| {
                let found = work(&mut queries)?;
                // An idle connection keeps no snapshot.
                queries.roll_back()?;
                Ok(found)
            });
            match read {
                Err(Fault::Server(_)) if connection.is_broken() && tries > 0 => tries -= 1,
                outcome => return outcome.map_err(failed),
            }
        }
    }
}

impl StateStore for PostgresStore {
    fn load(&self) -> Result<Rows, OpenError> {
        self.load_at(UnixSeconds::now())
    }

    fn submit(&self, change: Change, done: OnCommit) {
        self.writer.submit(change, done);
    }

    fn preset(&self, account: &str, id: &str) -> Result<Option<Preset>, OpenError> {
        self.read(|queries| queries.preset(account, id))
    }

    fn preset_named(&self, account: &str, name: &str) -> Result<Option<Preset>, OpenError> {
        self.read(|queries| queries.preset_named(account, name))
    }

    fn presets(&self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, OpenError> {
        self.read(|queries| queries.presets(account, after, limit))
    }

    fn key_days(
        &self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, OpenError> {
        self.read(|queries| queries.key_days(account, from, to, limit))
    }

    fn job(&self, id: &str) -> Result<Option<Job>, OpenError> {
        self.read(|queries| queries.job(id))
    }

    fn job_named(&self, key_id: &str, name: &str) -> Result<Option<Job>, OpenError> {
        self.read(|queries| queries.job_named(key_id, name))
    }

    fn jobs(&self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.read(|queries| queries.jobs(key_id, after, limit))
    }

    fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.read(|queries| queries.waiting_jobs(limit))
    }

    fn next_job(&self, taken: &HashSet<String>) -> Result<Option<Job>, OpenError> {
        self.read(|queries| queries.next_job(taken))
    }

    fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.read(|queries| queries.expiring_jobs(limit))
    }

    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.read(|queries| queries.webhook_jobs(limit))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn follow(&self, follower: Follower) {
        self.followers.add(follower);
    }

    fn has_orphaned_jobs(&self) -> Result<bool, OpenError> {
        if !self.health.is_settled() {
            return Ok(false);
        }
        self.read(|queries| {
            let daemon = queries.daemon;
            queries.has("SELECT 1 FROM orphaned_jobs WHERE owner <> $1 LIMIT 1", &[&daemon])
        })
    }

    fn exchange_calls(&self, own: &[(String, u32)]) -> Result<Vec<(String, u32)>, OpenError> {
        let mut exchange = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.exchange(&self.server, self.process, own).map_err(|fault| read_error(&self.server, fault))
    }

    fn fault(&self) -> Option<String> {
        self.health.fault()
    }

    fn is_superseded(&self) -> bool {
        self.health.is_superseded()
    }
}
