//! The stores that have to fulfil the same contract: a redb file and a PostgreSQL database.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use backdrop::store::{
    self, ExportedAccounts, PostgresServer, PostgresStore, RedbStore, RowCounts, Rows, StateStore, StoreConfig,
    UnixSeconds,
};
use tempfile::TempDir;

use crate::store::support::wait_until;
use crate::support::postgres::{Server, name_of};

/// A kind of store.
pub(crate) trait Backend: Sized {
    type Store: ContractStore;

    /// The place of an empty store; `None` where there is no server and its tests are skipped.
    fn create() -> Option<Self>;

    /// Another empty place.
    fn another(&self) -> Self;

    /// Opens the store.
    fn open(&self) -> Self::Store;

    /// The lines of an export of the open store, and the number of rows.
    fn export(&self, store: &Self::Store) -> (Vec<u8>, RowCounts);

    fn import(&self, lines: &[u8]) -> RowCounts;
}

/// What tests need beside the interface for the program.
pub(crate) trait ContractStore: StateStore {
    fn load_at(&self, now: UnixSeconds) -> Rows;

    /// The integrity check, where there is one.
    fn assert_sound(&self);
}

/// A redb file.
pub(crate) struct Redb {
    _folder: TempDir,
    file: PathBuf,
}

impl Redb {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = store::file_in(folder.path());
        Self { _folder: folder, file }
    }
}

impl Backend for Redb {
    type Store = RedbStore;

    fn create() -> Option<Self> {
        Some(Self::new())
    }

    fn another(&self) -> Self {
        Self::new()
    }

    fn open(&self) -> RedbStore {
        RedbStore::open(&self.file).expect("the store opens")
    }

    fn export(&self, store: &RedbStore) -> (Vec<u8>, RowCounts) {
        let mut lines = Vec::new();
        let rows = store.export(&mut lines, &ExportedAccounts::All).expect("the store reads");
        (lines, rows)
    }

    fn import(&self, lines: &[u8]) -> RowCounts {
        self.open().import(lines).expect("it was just exported")
    }
}

impl ContractStore for RedbStore {
    fn load_at(&self, now: UnixSeconds) -> Rows {
        self.load_at(now).expect("the store reads")
    }

    fn assert_sound(&self) {
        let report = self.check().expect("the store reads");
        assert!(report.is_sound(), "{:?}", report.findings);
    }
}

/// A database of a server.
pub(crate) struct Postgres {
    pub(crate) server: std::sync::Arc<Server>,
    pub(crate) url: String,
}

impl Postgres {
    pub(crate) fn configured(&self) -> PostgresServer {
        let config = StoreConfig { url: Some(self.url.clone()), ca_file: None };
        PostgresServer::configured(&config).expect("a valid URL").expect("one is configured")
    }

    /// Runs statements in this database.
    pub(crate) fn sql(&self, text: &str) -> String {
        self.server.sql(name_of(&self.url), text)
    }

    /// A session that runs statements and sleeps in their transaction.
    pub(crate) fn sleeping_session(&self, text: &str) -> SleepingSession<'_> {
        let mut session = self.server.session(name_of(&self.url), &format!("{text}; SELECT pg_sleep(60)"));
        let client = session.stdout(Stdio::null()).spawn().expect("it runs");
        wait_until(|| !self.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").is_empty());
        SleepingSession { database: self, client }
    }
}

/// A session of another program. Dropped, it is ended, which may take the server a moment.
pub(crate) struct SleepingSession<'a> {
    database: &'a Postgres,
    client: Child,
}

impl Drop for SleepingSession<'_> {
    fn drop(&mut self) {
        let Postgres { server, url } = self.database;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        drop(server.session(name_of(url), end).output());
        drop(self.client.kill());
        drop(self.client.wait());
    }
}

impl Backend for Postgres {
    type Store = PostgresStore;

    fn create() -> Option<Self> {
        let server = std::sync::Arc::new(Server::start()?);
        let url = server.database();
        Some(Self { server, url })
    }

    fn another(&self) -> Self {
        Self { server: self.server.clone(), url: self.server.database() }
    }

    fn open(&self) -> PostgresStore {
        self.configured().open().expect("the store opens")
    }

    /// Beside the open store.
    fn export(&self, _store: &PostgresStore) -> (Vec<u8>, RowCounts) {
        let mut lines = Vec::new();
        let rows = self.configured().export(&mut lines, &ExportedAccounts::All).expect("the store reads");
        (lines, rows)
    }

    fn import(&self, lines: &[u8]) -> RowCounts {
        self.configured().import(lines).expect("it was just exported")
    }
}

impl ContractStore for PostgresStore {
    fn load_at(&self, now: UnixSeconds) -> Rows {
        self.load_at(now).expect("the store reads")
    }

    /// The server checks its own indexes.
    fn assert_sound(&self) {}
}

/// The lines of an export, without the first, which has its time.
pub(crate) fn rows_of(lines: &[u8]) -> Vec<String> {
    String::from_utf8(lines.to_vec()).expect("text").lines().skip(1).map(String::from).collect()
}
