//! The stores that have to fulfil the same contract: a redb file and a PostgreSQL database.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;

use backdrop::store::{
    self, Change, ChangeError, Day, Job, Key, KeyHash, Month, OnCommit, OpenError, PostgresServer, RedbStore, Request,
    RowCounts, Rows, StateStore, Store, StoreConfig, UnixSeconds, Usage,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::store::support::wait_until;
use crate::support::postgres::{Server, name_of};

/// A kind of store.
pub(crate) trait Backend: Sized {
    type Store: ContractStore;

    /// Whether it refuses a second bill of a request by itself.
    const REFUSES_REPETITIONS: bool;

    /// Another empty place.
    fn another(&self) -> Self;

    /// Opens the store.
    fn open(&self) -> Self::Store;

    fn import(&self, lines: &[u8]) -> RowCounts;
}

/// Where a test submits changes.
pub(crate) trait Submit {
    fn submit(&self, change: Change, done: OnCommit);
}

/// What both stores do, for tests: [`Store`] documents it.
pub(crate) trait ContractStore: Submit {
    fn store(&self) -> &Store;

    fn runtime(&self) -> &Runtime;

    fn load_at(&self, now: UnixSeconds) -> Rows;

    /// The lines of an export, and the number of rows.
    fn exported(&self) -> (Vec<u8>, RowCounts);

    /// The billed requests with account and `Idempotency-Key`.
    fn requests(&self) -> Vec<(String, String, Request)> {
        let rows = rows_of(&self.exported().0).into_iter().map(|line| serde_json::from_str(&line).expect("JSON"));
        let requests = rows.filter(|row: &Value| row["row"] == "request").map(|row| {
            let text = |name: &str| row[name].as_str().expect("text").to_owned();
            let pictures = row["pictures"].as_array().expect("a list").iter();
            let pictures = pictures.map(|hash| hash.is_string().then(|| bytes(hash))).collect();
            let (images, at) = (row["images"].as_u64(), row["at"].as_i64());
            let (images, at) = (images.expect("a number"), UnixSeconds(at.expect("a number")));
            (text("account"), text("key"), Request { fingerprint: bytes(&row["fingerprint"]), images, at, pictures })
        });
        requests.collect()
    }

    /// The integrity check; a database has none.
    fn assert_sound(&self);

    /// Waits for a call of the store.
    fn wait<T>(&self, answer: impl Future<Output = T>) -> T
    where
        Self: Sized,
    {
        self.runtime().block_on(answer)
    }

    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.runtime().block_on(self.store().webhook_jobs(UnixSeconds::now(), limit))
    }
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
    type Store = FileStore;

    const REFUSES_REPETITIONS: bool = false;

    fn another(&self) -> Self {
        Self::new()
    }

    fn open(&self) -> FileStore {
        FileStore::new(RedbStore::open(&self.file).expect("the store opens"))
    }

    fn import(&self, lines: &[u8]) -> RowCounts {
        self.open().import(lines).expect("it was just exported")
    }
}

/// A file with a store that reads it. Changes are submitted to the file.
#[derive(Debug)]
pub(crate) struct FileStore {
    file: Arc<RedbStore>,
    store: Store,
    runtime: Runtime,
}

/// A file that a test uses, too.
#[derive(Debug)]
struct SharedFile(Arc<RedbStore>);

impl StateStore for SharedFile {
    fn file(&self) -> &RedbStore {
        &self.0
    }

    fn submit(&self, change: Change, done: OnCommit) {
        StateStore::submit(&*self.0, change, done);
    }

    fn fault(&self) -> Option<String> {
        self.0.fault()
    }
}

impl FileStore {
    pub(crate) fn new(file: RedbStore) -> Self {
        let file = Arc::new(file);
        let store = Store::file(SharedFile(Arc::clone(&file)), u64::MAX).expect("it loads");
        Self { file, store, runtime: runtime() }
    }
}

impl Deref for FileStore {
    type Target = RedbStore;

    fn deref(&self) -> &RedbStore {
        &self.file
    }
}

impl Submit for RedbStore {
    fn submit(&self, change: Change, done: OnCommit) {
        StateStore::submit(self, change, done);
    }
}

impl Submit for FileStore {
    fn submit(&self, change: Change, done: OnCommit) {
        StateStore::submit(&*self.file, change, done);
    }
}

impl ContractStore for FileStore {
    fn store(&self) -> &Store {
        &self.store
    }

    fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn load_at(&self, now: UnixSeconds) -> Rows {
        self.file.load_at(now).expect("the store reads")
    }

    fn exported(&self) -> (Vec<u8>, RowCounts) {
        let mut lines = Vec::new();
        let rows = self.file.export(&mut lines, &BTreeSet::new()).expect("the store reads");
        (lines, rows)
    }

    fn assert_sound(&self) {
        let report = self.check().expect("the store reads");
        assert!(report.is_sound(), "{:?}", report.findings);
    }
}

/// A database of a server.
pub(crate) struct Postgres {
    pub(crate) server: Arc<Server>,
    pub(crate) url: String,
}

impl Postgres {
    /// An empty database of a new server; `None` without PostgreSQL, whose tests are skipped then.
    pub(crate) fn create() -> Option<Self> {
        let server = Arc::new(Server::start()?);
        let url = server.database();
        Some(Self { server, url })
    }

    pub(crate) fn configured(&self) -> PostgresServer {
        let config = StoreConfig { url: Some(self.url.clone().into()), ca_file: None };
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

    const REFUSES_REPETITIONS: bool = true;

    fn another(&self) -> Self {
        Self { server: self.server.clone(), url: self.server.database() }
    }

    fn open(&self) -> PostgresStore {
        PostgresStore::open(self.configured()).expect("the store opens")
    }

    fn import(&self, lines: &[u8]) -> RowCounts {
        import(&self.configured(), lines).expect("it was just exported")
    }
}

/// An export of a database.
pub(crate) fn export(
    server: &PostgresServer,
    output: impl std::io::Write,
    accounts: &BTreeSet<String>,
) -> Result<RowCounts, store::ExportError> {
    runtime().block_on(server.export(output, accounts))
}

/// An import to a database.
pub(crate) fn import(server: &PostgresServer, lines: &[u8]) -> Result<RowCounts, store::ImportError> {
    runtime().block_on(server.import(lines))
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// A database behind the interface of the file: changes are made one after the other.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    pub(crate) store: Store,
    server: PostgresServer,
    runtime: Runtime,
}

impl PostgresStore {
    pub(crate) fn open(server: PostgresServer) -> Result<Self, OpenError> {
        let runtime = runtime();
        let store = Store::Database(runtime.block_on(server.open(u64::MAX))?);
        Ok(Self { store, server, runtime })
    }

    pub(crate) fn accounts(&self) -> usize {
        self.runtime.block_on(self.store.accounts()).expect("it reads").len()
    }

    pub(crate) fn change(&self, change: Change) -> Result<Rows, ChangeError> {
        self.runtime.block_on(self.store.change(change))
    }
}

impl Submit for PostgresStore {
    fn submit(&self, change: Change, done: OnCommit) {
        done(self.change(change));
    }
}

impl ContractStore for PostgresStore {
    fn store(&self) -> &Store {
        &self.store
    }

    fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// From the finished jobs: a claim of webhooks would move their times.
    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        let finished = self.wait(self.store.expiring_jobs(usize::MAX))?.into_iter();
        let mut jobs: Vec<_> = finished.filter_map(|(_, job)| Some((job.webhook_at()?, job))).collect();
        jobs.sort_by(|(at, job), (other, second)| (at, &job.id).cmp(&(other, &second.id)));
        jobs.truncate(limit);
        Ok(jobs)
    }

    /// Beside the open store.
    fn exported(&self) -> (Vec<u8>, RowCounts) {
        let mut lines = Vec::new();
        let rows = self.wait(self.server.export(&mut lines, &BTreeSet::new())).expect("it reads");
        (lines, rows)
    }

    /// What an export has of it.
    fn load_at(&self, now: UnixSeconds) -> Rows {
        let first = Month::of(now).previous();
        let mut rows = Rows::default();
        for line in rows_of(&self.exported().0) {
            let row: Value = serde_json::from_str(&line).expect("JSON");
            let text = |name: &str| row[name].as_str().expect("text").to_owned();
            let number = |name: &str| row[name].as_u64().expect("a number");
            match row["row"].as_str().expect("text") {
                "account" => rows.accounts.push(parsed(&row)),
                "key" => rows.keys.push((KeyHash(bytes(&row["hash"])), parsed::<Key>(&row))),
                "usage" => {
                    let (images, microdollars) = (number("images"), number("microdollars"));
                    let month = Month(number("month") as u32);
                    rows.usage.push((text("account"), month, Usage { images, microdollars }));
                }
                "key_day" => {
                    let (account, day, key_id) = (text("account"), Day(number("day") as u32), text("key_id"));
                    rows.key_days.push((account, day, key_id, parsed(&row)));
                }
                _ => {}
            }
        }
        // As a file loads them.
        rows.usage.retain(|(_, month, _)| *month >= first);
        rows.key_days.retain(|(_, day, ..)| *day >= Day::first_of(first));
        rows
    }

    /// The server checks its own indexes.
    fn assert_sound(&self) {}
}

fn parsed<T: serde::de::DeserializeOwned>(row: &Value) -> T {
    serde_json::from_value(row.clone()).expect("a record")
}

fn bytes(hash: &Value) -> [u8; 32] {
    let text = hash.as_str().expect("text");
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal digits"))
}

/// The lines of an export, without the first, which has its time.
pub(crate) fn rows_of(lines: &[u8]) -> Vec<String> {
    String::from_utf8(lines.to_vec()).expect("text").lines().skip(1).map(String::from).collect()
}
