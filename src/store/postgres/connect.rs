//! Configuration section `[store]`, and connections to its server: address, TLS, session settings, pool.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::DatabaseError;
use super::migrations::{Migrations, Schema};
use super::schema;
use crate::store::OpenError;
use crate::telemetry::{Secret, with_causes};

/// Timeout of connecting to one address. Three of them fit into the time limit of a call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request waits for a connection of the pool.
const POOL_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of every session. The only long waits of a statement are for bills of its account. The server ends the
/// session of a machine that disappeared, and with it its locks, after about ten seconds, and a transaction that stands still
/// after five, since others wait for it. Plans are kept: planning takes longer than most statements. An acknowledged change is on the
/// server's disk, whatever the server's default is.
const SESSION: &str = "SET default_transaction_isolation = 'read committed'; SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; \
    SET tcp_keepalives_idle = 4; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; \
    SET tcp_user_timeout = '10s'; SET plan_cache_mode = force_generic_plan; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Where accounts, keys, usage and jobs are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// `postgres://user:password@host/database` for a PostgreSQL server, which any number of daemons use; without one, a file
    /// in the data directory, for one daemon.
    pub url: Option<Secret<String>>,
    /// PEM file with certificates of authorities that are accepted from the server, in addition to the public ones.
    pub ca_file: Option<PathBuf>,
}

impl StoreConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let Some(url) = &self.url else { return Vec::new() };
        address(url.expose()).err().into_iter().map(|reason| format!("store.url: {reason}")).collect()
    }
}

/// Why no connection can be configured.
#[derive(Debug, thiserror::Error)]
#[error("store.{0}")]
pub struct ServerError(String);

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
    // "prefer" would accept a connection from which an attacker has removed TLS.
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

/// A configured PostgreSQL server and database.
#[derive(Clone)]
pub struct PostgresServer {
    config: Config,
    tls: MakeRustlsConnect,
    name: String,
    /// The migrations of this version.
    pub(super) migrations: Migrations,
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresServer").field(&self.name).finish()
    }
}

impl PostgresServer {
    /// The database that a configuration names; `None` where it names none. Connects to nothing yet.
    ///
    /// # Errors
    /// When the URL is invalid, or the file of certificates cannot be read.
    pub fn configured(config: &StoreConfig) -> Result<Option<Self>, ServerError> {
        let Some(url) = &config.url else { return Ok(None) };
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &config.ca_file {
            let wrong = |reason: String| ServerError(format!("ca_file {}: {reason}", path.display()));
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
        let config = address(url.expose()).map_err(|reason| ServerError(format!("url: {reason}")))?;
        let name = name_of(&config);
        let (tls, migrations) = (MakeRustlsConnect::new(tls), Migrations::default());
        Ok(Some(Self { config, tls, name, migrations }))
    }

    /// The server and database for messages, without user and password.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A connection that no pool has, for upgrades and transfers.
    pub(super) async fn connect(&self) -> Result<ClientWrapper, DatabaseError> {
        let (client, socket) = self.config.connect(self.tls.clone()).await.map_err(DatabaseError::away)?;
        // The calls that wait for an answer have its error.
        let client = ClientWrapper::new(client, tokio::spawn(async { drop(socket.await) }));
        client.batch_execute(SESSION).await?;
        Ok(client)
    }

    /// Connections of sessions that exclude imports and breaking upgrades. Connects to nothing yet.
    pub(super) fn pool(&self, connections: usize) -> Pool {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), recycling);
        let migrations = self.migrations.clone();
        let addresses = u32::try_from(self.config.get_hosts().len()).unwrap_or(u32::MAX);
        let prepare = Hook::async_fn(move |client, _| {
            let migrations = migrations.clone();
            Box::pin(async move {
                client.batch_execute(SESSION).await.map_err(HookError::Backend)?;
                schema::enter(client, &migrations).await.map_err(|error| HookError::message(error.to_string()))
            })
        });
        Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_TIMEOUT))
            // Addresses that do not answer are tried before one that does.
            .create_timeout(Some(CONNECT_TIMEOUT.saturating_mul(addresses) + POOL_TIMEOUT))
            .post_create(prepare)
            .build()
            .expect("a pool with timeouts has a runtime")
    }

    /// Refuses tables on which this version does not work, without changing them.
    pub(super) async fn require_usable(&self, client: &Client) -> Result<(), OpenError> {
        let found = self.schema(client).await?;
        if self.migrations.work_on(found) { Ok(()) } else { Err(self.unusable(found.version)) }
    }

    /// Refuses tables of another version, also where this one works on them: it does not know all of them.
    pub(super) async fn require_own(&self, client: &Client) -> Result<(), OpenError> {
        let found = self.schema(client).await?.version;
        if found == self.migrations.schema().version { Ok(()) } else { Err(self.unusable(found)) }
    }

    async fn schema(&self, client: &Client) -> Result<Schema, OpenError> {
        schema::schema_of(client).await.map_err(|error| error.into_open_error(self.name()))
    }

    fn unusable(&self, found: i64) -> OpenError {
        let (own, path) = (self.migrations.schema().version, self.name().into());
        if found < own {
            let reason = format!("schema {found} is upgraded to {own} by the next start of this version's daemon");
            return OpenError::Corrupt { path, reason };
        }
        OpenError::Newer { path, found: found.unsigned_abs(), supported: own.unsigned_abs() }
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
    fn a_url_that_names_no_database_is_refused_and_none_is_shown() {
        for url in ["mysql://db/backdrop", "postgres://", "postgres://db.example", "postgres://db/x?colour=red", "db"] {
            let config = StoreConfig { url: Some(url.to_owned().into()), ca_file: None };
            assert_eq!(config.validate().len(), 1, "{url}");
        }
        let config =
            StoreConfig { url: Some("postgres://u:hush@db.example/backdrop".to_owned().into()), ca_file: None };
        assert!(config.validate().is_empty());
        let shown = format!("{config:?} {}", serde_json::to_string(&config).expect("plain"));
        let server = PostgresServer::configured(&config).expect("an address").expect("it names one");
        assert!(!format!("{shown} {server:?}").contains("hush"), "{shown}");
        assert_eq!(server.name(), "postgres://db.example/backdrop");
    }
}
