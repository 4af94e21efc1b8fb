//! Discovery file of a running daemon: address and token of its admin listener, `admin.token` in the data directory.
//!
//! Readable by the daemon's user only: read access to the data directory is what grants administration. The file is
//! written atomically and deleted when the daemon ends. One left behind by a killed daemon is deleted by the next one as soon
//! as that has the store: commands read the file while the store is locked, and its address may be another program's by then.

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use crate::account::random_text;
use crate::telemetry::Secret;

/// Address and token of a daemon's admin interface.
#[derive(Clone, Debug, Deserialize)]
pub struct AdminEndpoint {
    /// Where it listens, as seen from the same machine.
    pub address: SocketAddr,
    /// The bearer token that it requires.
    pub token: Secret<String>,
}

/// The discovery file of a running daemon; dropped, it deletes the file.
#[derive(Debug)]
pub struct PublishedEndpoint {
    path: PathBuf,
}

impl AdminEndpoint {
    /// The endpoint of a listener, with a new token from the operating system's randomness.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, token: random_text(43).into() }
    }

    /// The path of the discovery file inside a data directory.
    #[must_use]
    pub fn file_in(data_dir: &Path) -> PathBuf {
        data_dir.join("admin.token")
    }

    /// Reads the endpoint of the daemon that uses (or used) the data directory.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn read(data_dir: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(Self::file_in(data_dir))?)?)
    }

    /// Deletes the file of a daemon that was killed. Call it once the store is open.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn remove_stale(data_dir: &Path) -> io::Result<()> {
        match fs::remove_file(Self::file_in(data_dir)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes the file, replacing one of an earlier run. Call it once the listener is bound to `address`.
    ///
    /// # Errors
    /// When the data directory cannot be written.
    pub fn publish(self, data_dir: &Path) -> io::Result<PublishedEndpoint> {
        let path = Self::file_in(data_dir);
        let endpoint = json!({ "address": loopback_if_unspecified(self.address), "token": self.token.expose() });
        // A temporary file is readable by its owner only, and so is the file.
        let mut fresh = tempfile::Builder::new().prefix("admin.token.").tempfile_in(data_dir)?;
        fresh.write_all(&serde_json::to_vec(&endpoint)?)?;
        fresh.persist(&path)?;
        Ok(PublishedEndpoint { path })
    }
}

impl Drop for PublishedEndpoint {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "could not remove the admin token");
        }
    }
}

/// Replaces an unspecified listening address by the loopback address.
fn loopback_if_unspecified(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_endpoint_reads_back_and_is_deleted_with_its_guard() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let endpoint = AdminEndpoint::new("0.0.0.0:9090".parse().expect("an address"));
        let token = endpoint.token.expose().to_owned();
        let published = endpoint.publish(folder.path()).expect("the folder is writable");
        let read = AdminEndpoint::read(folder.path()).expect("just written");
        assert_eq!((read.address.to_string(), read.token.expose()), ("127.0.0.1:9090".into(), &token));
        drop(published);
        assert_eq!(AdminEndpoint::read(folder.path()).expect_err("gone").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_file_of_a_killed_daemon_is_removed_and_a_missing_one_is_no_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(AdminEndpoint::file_in(folder.path()), "left over").expect("the folder is writable");
        for _ in 0..2 {
            AdminEndpoint::remove_stale(folder.path()).expect("the folder is writable");
            assert!(!AdminEndpoint::file_in(folder.path()).exists());
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_token_is_readable_by_its_owner_only_even_over_an_older_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = "127.0.0.1:1".parse().expect("an address");
        let older = AdminEndpoint::file_in(folder.path());
        fs::write(&older, "left over").expect("the folder is writable");
        fs::set_permissions(&older, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let _published = AdminEndpoint::new(address).publish(folder.path()).expect("writable");
        let mode = fs::metadata(AdminEndpoint::file_in(folder.path())).expect("just written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
