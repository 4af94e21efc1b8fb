//! Preallocates disk space behind the end of the store's file, so that it can grow on a full disk.
//!
//! `fallocate` with `FALLOC_FL_KEEP_SIZE`. The alternative, a file that is deleted in need, would lose the freed space to
//! whatever fills the disk.
//!
//! File systems that copy on write (Btrfs, ZFS) or cannot allocate give no such guarantee; there only the free-space floor
//! of the jobs remains.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait after a failed allocation.
const RETRY: Duration = Duration::from_secs(30);

/// The preallocated space of a file.
#[derive(Debug)]
pub(super) struct DiskReserve {
    path: PathBuf,
    /// Bytes behind its end; 0 for none.
    bytes: u64,
    /// Length of the file for which the space is allocated.
    length: Option<u64>,
    retry_at: Option<Instant>,
}

impl DiskReserve {
    pub(super) fn none() -> Self {
        Self::ahead_of(Path::new(""), 0)
    }

    pub(super) fn ahead_of(path: &Path, bytes: u64) -> Self {
        Self { path: path.into(), bytes, length: None, retry_at: None }
    }

    /// Allocates what is missing. A failure is logged and retried later.
    pub(super) fn renew(&mut self) {
        if self.bytes == 0 || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let Ok(length) = fs::metadata(&self.path).map(|file| file.len()) else { return };
        if self.length == Some(length) {
            return;
        }
        match allocate(&self.path, length.saturating_add(self.bytes), self.bytes) {
            Ok(()) => (self.length, self.retry_at) = (Some(length), None),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.bytes = 0;
                tracing::warn!("this file system cannot allocate disk space ahead of the store");
            }
            Err(error) => {
                self.retry_at = Some(Instant::now() + RETRY);
                tracing::warn!(%error, bytes = self.bytes, "no disk space can be allocated ahead of the store");
            }
        }
    }
}

/// Allocates the first `end` bytes of a file without changing its length, if more than `spare` stays free.
#[cfg(target_os = "linux")]
fn allocate(path: &Path, end: u64, spare: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate, statvfs};
    use std::os::unix::fs::MetadataExt;

    // Locks of redb belong to its own open file description (`F_OFD_SETLK`): closing another one releases none.
    let file = fs::File::options().write(true).open(path)?;
    let missing = end.saturating_sub(file.metadata()?.blocks().saturating_mul(512));
    let disk = statvfs(path)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < missing.saturating_add(spare) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, end)?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &Path, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
