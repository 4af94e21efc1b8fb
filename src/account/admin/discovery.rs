//! Where a running daemon can be asked: `admin.token` in its data directory.
//!
//! The file holds the address of the admin listener and the token that opens it, readable by the daemon's user only:
//! who may read the data directory may administer it, and nobody else. It appears complete or not at all, and goes when
//! the daemon ends. One left behind by a killed daemon is harmless: its token opens nothing, and it is read only when
//! the store is locked.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AdminToken;

/// Address and token of a daemon's admin interface.
#[derive(Clone, Debug)]
pub struct Door {
    /// Where it listens, as reached from the same machine.
    pub address: SocketAddr,
    /// What it asks for.
    pub token: AdminToken,
}

/// The file of a daemon that runs; dropping it takes the file away.
#[derive(Debug)]
pub struct PublishedDoor {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct DoorFile {
    address: SocketAddr,
    token: String,
}

impl Door {
    /// The file of the door inside a data directory.
    #[must_use]
    pub fn file_in(data_dir: &Path) -> PathBuf {
        data_dir.join("admin.token")
    }

    /// Reads the door of the daemon that has (or had) the data directory.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn read(data_dir: &Path) -> io::Result<Self> {
        let DoorFile { address, token } = serde_json::from_slice(&fs::read(Self::file_in(data_dir))?)?;
        Ok(Self { address, token: AdminToken(token) })
    }

    /// Writes the file, replacing the one of an earlier run. Call it once the listener is bound to `address`.
    ///
    /// # Errors
    /// When the data directory cannot be written.
    pub fn publish(self, data_dir: &Path) -> io::Result<PublishedDoor> {
        let path = Self::file_in(data_dir);
        let fresh = data_dir.join("admin.token.new");
        let content = serde_json::to_vec(&DoorFile { address: from_here(self.address), token: self.token.0 })?;
        // Created anew, so that the mode below holds: opening an existing file would keep that file's mode.
        if let Err(error) = fs::remove_file(&fresh)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&fresh)?.write_all(&content)?;
        fs::rename(&fresh, &path)?;
        Ok(PublishedDoor { path })
    }
}

impl Drop for PublishedDoor {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "could not remove the admin token");
        }
    }
}

/// A listener on every address is reached over the loopback one.
fn from_here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_door_reads_back_and_goes_with_its_guard() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let door = Door { address: "0.0.0.0:9090".parse().expect("an address"), token: AdminToken::generate() };
        let token = door.token.0.clone();
        let published = door.publish(folder.path()).expect("the folder is writable");
        let read = Door::read(folder.path()).expect("just written");
        assert_eq!((read.address.to_string(), read.token.0), ("127.0.0.1:9090".into(), token));
        drop(published);
        assert_eq!(Door::read(folder.path()).expect_err("gone").kind(), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn the_token_is_readable_by_its_owner_only_even_over_a_left_over_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = "127.0.0.1:1".parse().expect("an address");
        for name in ["admin.token", "admin.token.new"] {
            fs::write(folder.path().join(name), "left over").expect("the folder is writable");
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o644)).expect("it is ours");
        }
        let _published = Door { address, token: AdminToken::generate() }.publish(folder.path()).expect("writable");
        let mode = fs::metadata(Door::file_in(folder.path())).expect("just written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
