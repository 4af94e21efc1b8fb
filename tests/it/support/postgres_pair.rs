//! Two PostgreSQL servers of a test: a primary, and a synchronous standby that is promoted when the primary fails.

use std::time::{Duration, Instant};

use super::postgres::Server;

/// The name by which the primary knows its standby.
const STANDBY: &str = "standby";

/// Settings of both servers: the primary keeps its log while a standby copies the data; a standby reconnects soon after a crash.
pub(crate) const SETTINGS: &[&str] = &["wal_keep_size=256MB", "wal_retrieve_retry_interval=200ms"];

/// The servers, which exchange their roles.
pub(crate) struct ServerPair {
    primary: Server,
    /// The standby, or the failed primary.
    other: Server,
    has_standby: bool,
}

impl ServerPair {
    /// Starts a primary with its standby; `None` where [`Server::start`] has none.
    pub(crate) fn start() -> Option<Self> {
        let (primary, other) = (Server::start_with(SETTINGS)?, Server::without_data()?);
        let mut servers = Self { primary, other, has_standby: false };
        servers.restore_standby();
        Some(servers)
    }

    pub(crate) fn primary(&self) -> &Server {
        &self.primary
    }

    /// The URL of a new, empty database on the current primary.
    pub(crate) fn database(&self) -> String {
        let url = self.primary.database();
        let (primary, name) = url.rsplit_once('/').expect("it ends with a name");
        format!("{primary},127.0.0.1:{}/{name}?target_session_attrs=read-write", self.other.port())
    }

    /// Ends the primary with SIGKILL and promotes its standby. The new primary has no standby.
    pub(crate) fn fail_over(&mut self) {
        self.primary.crash();
        std::mem::swap(&mut self.primary, &mut self.other);
        self.has_standby = false;
        assert_eq!(self.primary.sql("postgres", "SELECT pg_promote()").trim(), "t", "it is promoted");
    }

    /// Makes the failed server the standby of the primary, with a new copy of the data; returns when the copy is complete.
    ///
    /// Without a standby commits do not wait, which is the default of cluster managers. Commits that the primary acknowledged
    /// alone are on the standby before it can be promoted.
    pub(crate) fn restore_standby(&mut self) {
        if self.has_standby {
            return;
        }
        self.other.follow(&self.primary, STANDBY, SETTINGS);
        // After the copy, which includes the primary's settings: a promoted server must not wait for itself.
        let sql = |text: &str| self.primary.sql("postgres", text);
        sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'"));
        sql("SELECT pg_reload_conf()");
        let written = sql("SELECT pg_current_wal_flush_lsn()");
        let has_all = format!(
            "SELECT 1 FROM pg_stat_replication WHERE application_name = '{STANDBY}' AND sync_state = 'sync' \
             AND flush_lsn >= '{}'",
            written.trim()
        );
        let start = Instant::now();
        while sql(&has_all).is_empty() {
            assert!(start.elapsed() < Duration::from_secs(120), "the standby does not catch up");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.has_standby = true;
    }
}
