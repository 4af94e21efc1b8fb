//! Configuration section `[store]`, and connections to its server: address, TLS, session settings, prepared statements.
//!
//! A connection blocks. Each has a runtime of one thread, the caller's, so that every answer of the server has a time limit;
//! it may be dropped anywhere, and used anywhere but on a thread of an asynchronous runtime.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize, Serializer};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Statement, Transaction};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::migrations::Migrations;
use crate::store::storage_fault::Fault;
use crate::telemetry::with_causes;

/// Timeout of connecting to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the server may take for one answer. Longer than its own limit of a statement, which says more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Settings of every session. A statement waits for nothing that takes long but the commits of others; the server ends the
/// session of a machine that disappeared, and with it its locks, after about ten seconds, and a transaction that stands still
/// after five, since others wait for it. Plans are kept: planning takes longer than most statements. An acknowledged change is on the
/// server's disk, whatever the server's default is.
const SESSION: &str = "SET default_transaction_isolation = 'read committed'; SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; \
    SET tcp_keepalives_idle = 4; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; \
    SET tcp_user_timeout = '10s'; SET plan_cache_mode = force_generic_plan; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Where accounts, keys, usage and jobs are stored.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// `postgres://user:password@host/database` for a PostgreSQL server, which any number of daemons use; without one, a file
    /// in the data directory, for one daemon.
    #[serde(serialize_with = "masked")]
    pub url: Option<String>,
    /// PEM file with certificates of authorities that are accepted from the server, in addition to the public ones.
    pub ca_file: Option<PathBuf>,
}

impl fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_ref().map(|_| "***");
        f.debug_struct("StoreConfig").field("url", &url).field("ca_file", &self.ca_file).finish()
    }
}

/// The URL may hold a password.
fn masked<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_ref().map(|_| "***").serialize(serializer)
}

impl StoreConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let Some(url) = &self.url else { return Vec::new() };
        address(url).err().into_iter().map(|reason| format!("store.url: {reason}")).collect()
    }
}

/// Why no connection can be configured.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The URL is invalid.
    #[error("store.url: {0}")]
    Url(String),
    /// The file of certificates cannot be used.
    #[error("store.ca_file {}: {reason}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The address in a URL, with TLS unless the server is on this machine or the URL has `sslmode=disable`.
fn address(url: &str) -> Result<Config, String> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("expected postgres://user:password@host/database".into());
    }
    // What follows the first `@` would be taken for the host, and a part of the password be shown with it.
    if url.split('?').next().is_some_and(|address| address.matches('@').count() > 1) {
        return Err("expected one @, before the host; write %40 for one in the user or password".into());
    }
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| with_causes(&error))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("expected a host".into());
    }
    if config.get_dbname().is_none() {
        return Err("expected the name of a database after the host".into());
    }
    // "prefer" would accept a connection that somebody on the way stripped of TLS.
    if config.get_ssl_mode() == SslMode::Prefer {
        config.ssl_mode(if is_local(&config) { SslMode::Prefer } else { SslMode::Require });
    }
    config.connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(NETWORK_TIMEOUT).keepalives_idle(NETWORK_TIMEOUT);
    config.application_name("backdrop");
    Ok(config)
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }) && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// A PostgreSQL server and database. Clones share it.
#[derive(Clone)]
pub(super) struct Server {
    config: Config,
    tls: MakeRustlsConnect,
    name: String,
    /// The daemon of these connections; `None` for a process that runs no jobs.
    pub(super) daemon: Option<i64>,
    /// The migrations of this version.
    pub(super) migrations: Migrations,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.name).finish()
    }
}

impl Server {
    pub(super) fn new(url: &str, config: &StoreConfig) -> Result<Self, ServerError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &config.ca_file {
            let wrong = |reason: String| ServerError::Certificates { path: path.clone(), reason };
            let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            for certificate in read {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = address(url).map_err(ServerError::Url)?;
        let name = name_of(&config);
        let (tls, migrations) = (MakeRustlsConnect::new(tls), Migrations::default());
        Ok(Self { config, tls, name, daemon: None, migrations })
    }

    /// The server and database for messages, without user and password.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn connect(&self) -> Result<Connection, Fault> {
        let driver = Driver::new()?;
        let (client, socket) = driver.run(self.config.connect(self.tls.clone()))?;
        driver.spawn(async move {
            // The calls that wait for an answer have the error.
            drop(socket.await);
        });
        driver.run(client.batch_execute(SESSION))?;
        Ok(Connection { client, statements: Statements::default(), driver, daemon: self.daemon })
    }
}

fn name_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    format!("postgres://{host}/{}", config.get_dbname().unwrap_or_default())
}

/// Runs the futures of one connection, each within a time limit.
#[derive(Debug)]
pub(super) struct Driver {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    limit: Option<Duration>,
    timed_out: Cell<bool>,
    /// Whether a statement ended because it waited too long for a lock.
    lock_timeout: Cell<bool>,
    /// Whether the last failed statement was refused because of its values.
    invalid_values: Cell<bool>,
}

impl Driver {
    fn new() -> Result<Self, Fault> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Fault::Server(format!("no connection can be made: {error}")))?;
        let (timed_out, lock_timeout, invalid_values) = (Cell::default(), Cell::default(), Cell::default());
        Ok(Self { runtime: Some(runtime), limit: Some(ANSWER_TIMEOUT), timed_out, lock_timeout, invalid_values })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the drop")
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(task);
    }

    /// Waits for an answer. After a timeout the connection is of no use: the answer may still come.
    pub(super) fn run<T>(&self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Fault> {
        self.run_within(self.limit, answer)
    }

    /// Whether the last failed statement was refused because of its values.
    pub(super) fn has_invalid_values(&self) -> bool {
        self.invalid_values.get()
    }

    fn run_within<T>(
        &self,
        limit: Option<Duration>,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        let answered = self.runtime().block_on(async {
            match limit {
                Some(limit) => tokio::time::timeout(limit, answer).await,
                None => Ok(answer.await),
            }
        });
        match answered {
            Ok(answer) => answer.map_err(|error| {
                if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
                    self.lock_timeout.set(true);
                }
                self.invalid_values.set(error.code().is_some_and(is_of_values));
                Fault::Server(with_causes(&error))
            }),
            Err(_) => {
                self.timed_out.set(true);
                self.invalid_values.set(false);
                let seconds = limit.unwrap_or_default().as_secs();
                Err(Fault::Server(format!("the database did not answer within {seconds} s")))
            }
        }
    }
}

/// Whether the server refuses a statement because of its values, so that it would refuse it again: a data exception or a violated
/// constraint.
fn is_of_values(state: &SqlState) -> bool {
    state.code().starts_with("22") || state.code().starts_with("23")
}

impl Drop for Driver {
    fn drop(&mut self) {
        // An ordinary drop waits for its threads, which is refused on a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection with its prepared statements.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) statements: Statements,
    pub(super) driver: Driver,
    pub(super) daemon: Option<i64>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Runs statements without parameters.
    pub(super) fn batch(&self, text: &str) -> Result<(), Fault> {
        self.driver.run(self.client.batch_execute(text))
    }

    /// Whether the server answers within `limit`.
    pub(super) fn test(&self, limit: Duration) -> Result<(), Fault> {
        self.driver.run_within(Some(limit), self.client.batch_execute(""))
    }

    /// Whether it is of no use any more.
    pub(super) fn is_broken(&self) -> bool {
        self.client.is_closed() || self.has_timed_out()
    }

    /// Whether the server did not answer in time.
    pub(super) fn has_timed_out(&self) -> bool {
        self.driver.timed_out.get()
    }

    /// Whether a statement ended because it waited for a lock for longer than `lock_timeout`.
    pub(super) fn has_lock_timeout(&self) -> bool {
        self.driver.lock_timeout.get()
    }

    /// Removes the limits of time, for the transfer of a whole store.
    pub(super) fn remove_timeouts(&mut self) -> Result<(), Fault> {
        self.batch("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")?;
        self.driver.limit = None;
        Ok(())
    }
}

/// The prepared statements of a connection, by their text.
#[derive(Default)]
pub(super) struct Statements(HashMap<&'static str, Statement>);

impl Statements {
    pub(super) async fn get(
        &mut self,
        transaction: &Transaction<'_>,
        text: &'static str,
    ) -> Result<Statement, tokio_postgres::Error> {
        Ok(match self.0.entry(text) {
            Entry::Occupied(there) => there.get().clone(),
            Entry::Vacant(place) => place.insert(transaction.prepare(text).await?).clone(),
        })
    }
}

/// Connections for reads, at most a few.
#[derive(Debug)]
pub(super) struct Connections(pub(super) Server);

impl r2d2::ManageConnection for Connections {
    type Connection = Connection;
    type Error = ConnectError;

    fn connect(&self) -> Result<Connection, ConnectError> {
        self.0.connect().map_err(|fault| ConnectError(fault.to_string()))
    }

    fn is_valid(&self, connection: &mut Connection) -> Result<(), ConnectError> {
        connection.test(NETWORK_TIMEOUT).map_err(|fault| ConnectError(fault.to_string()))
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.is_broken()
    }
}

/// Why a connection cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConnectError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_on_this_machine_may_do_without_tls_unless_the_url_says_so() {
        for (url, expected) in [
            ("postgres://backdrop:secret@db.example/backdrop", SslMode::Require),
            ("postgres://db.example/backdrop?sslmode=prefer", SslMode::Require),
            ("postgres://db.example/backdrop?sslmode=disable", SslMode::Disable),
            ("postgres://127.0.0.1/backdrop", SslMode::Prefer),
            ("postgres://localhost,db.example/backdrop", SslMode::Require),
            ("postgres://localhost/backdrop", SslMode::Prefer),
            ("postgresql:///backdrop?host=/run/postgresql", SslMode::Prefer),
        ] {
            assert_eq!(address(url).expect(url).get_ssl_mode(), expected, "{url}");
        }
    }

    #[test]
    fn a_full_disk_is_no_matter_of_values() {
        assert!(is_of_values(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE) && is_of_values(&SqlState::CHECK_VIOLATION));
        assert!(!is_of_values(&SqlState::DISK_FULL) && !is_of_values(&SqlState::READ_ONLY_SQL_TRANSACTION));
    }

    #[test]
    fn a_url_that_names_no_database_is_refused_and_none_is_shown() {
        for url in ["mysql://db/backdrop", "postgres://", "postgres://db.example", "postgres://db/x?colour=red", "db"] {
            let config = StoreConfig { url: Some(url.into()), ca_file: None };
            assert_eq!(config.validate().len(), 1, "{url}");
        }
        let config = StoreConfig { url: Some("postgres://u:hush@db.example/backdrop".into()), ca_file: None };
        assert!(config.validate().is_empty());
        let shown = format!("{config:?} {}", serde_json::to_string(&config).expect("plain"));
        let server = Server::new(config.url.as_deref().expect("set"), &config).expect("an address");
        assert!(!format!("{shown} {server:?}").contains("hush"), "{shown}");
        assert_eq!(server.name(), "postgres://db.example/backdrop");
    }
}
