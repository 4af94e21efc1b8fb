//! Disk space of jobs: a limit on what clips, segments and results use together, and a floor of free space.
//!
//! Usage is measured by walking the folders, not counted: that is right after every crash, and takes milliseconds for
//! thousands of files. New clips get three quarters of the limit; the last quarter is for the segments and results of
//! running jobs. A running job fails beyond the limit, or when less than half of the floor is free: before the store,
//! which is on the same disk, runs out of space.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::JobsConfig;
use super::error::{DiskSpaceError, JobsError};

/// Free bytes of the disk that a path is on.
#[derive(Clone)]
pub(super) struct FreeBytes(pub(super) Arc<Measure>);

type Measure = dyn Fn(&Path) -> io::Result<u64> + Send + Sync;

impl std::fmt::Debug for FreeBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FreeBytes")
    }
}

/// The limits.
#[derive(Clone, Debug)]
pub(super) struct DiskLimits {
    pub(super) max_bytes: u64,
    pub(super) min_free_bytes: u64,
    /// How often they are checked for running jobs.
    pub(super) check_every: Duration,
    pub(super) free: FreeBytes,
}

impl DiskLimits {
    pub(super) fn of(config: &JobsConfig) -> Self {
        Self {
            max_bytes: config.max_megabytes.saturating_mul(1 << 20),
            min_free_bytes: config.min_free_megabytes.saturating_mul(1 << 20),
            // The fastest encoder writes some 100 MB in this time.
            check_every: Duration::from_secs(1),
            free: FreeBytes(Arc::new(free_bytes)),
        }
    }
}

/// The disk space of all jobs. Clones share the reservations.
#[derive(Clone, Debug)]
pub(super) struct DiskSpace {
    folders: Arc<[PathBuf]>,
    limits: DiskLimits,
    reserved: Arc<Mutex<u64>>,
}

/// Space for an incoming clip, released when it is dropped.
#[derive(Debug)]
pub(super) struct SpaceReservation {
    bytes: u64,
    reserved: Arc<Mutex<u64>>,
}

impl DiskSpace {
    /// The space of `folders`. The free space is measured on the disk of the first folder.
    pub(super) fn new(folders: impl IntoIterator<Item = PathBuf>, limits: DiskLimits) -> Self {
        Self { folders: folders.into_iter().collect(), limits, reserved: Arc::default() }
    }

    pub(super) const fn check_every(&self) -> Duration {
        self.limits.check_every
    }

    /// What the results of one account and its next clip may use.
    pub(super) const fn share(&self) -> u64 {
        self.limits.max_bytes / 2
    }

    /// Reserves space for a clip, in addition to the space of other incoming clips. Blocks.
    pub(super) fn reserve(&self, bytes: u64) -> Result<SpaceReservation, JobsError> {
        // Held during the walk, so that concurrent reservations are serialized.
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = reserved.saturating_add(bytes);
        let max = self.limits.max_bytes - self.limits.max_bytes / 4;
        self.require(wanted, max, self.limits.min_free_bytes)?;
        *reserved = wanted;
        Ok(SpaceReservation { bytes, reserved: Arc::clone(&self.reserved) })
    }

    /// Whether running jobs may continue. Blocks.
    pub(super) fn check(&self) -> Result<(), JobsError> {
        self.require(0, self.limits.max_bytes, self.limits.min_free_bytes / 2)
    }

    fn require(&self, wanted: u64, max: u64, min_free: u64) -> Result<(), JobsError> {
        let unreadable =
            |source| JobsError::Io { what: "the disk space of the jobs cannot be measured".into(), source };
        let used = bytes_in(&self.folders).map_err(unreadable)?;
        if used.saturating_add(wanted) > max {
            return Err(DiskSpaceError::MaxBytes { used, wanted, max }.into());
        }
        let Some(folder) = self.folders.first() else { return Ok(()) };
        let free = (self.limits.free.0)(folder).map_err(unreadable)?;
        if free < min_free.saturating_add(wanted) {
            return Err(DiskSpaceError::MinFree { free, wanted, min_free }.into());
        }
        Ok(())
    }
}

impl Drop for SpaceReservation {
    fn drop(&mut self) {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        *reserved = reserved.saturating_sub(self.bytes);
    }
}

/// Bytes on disk of all files below some folders, each counted once: a result is a hard link to a job's file.
fn bytes_in(folders: &[PathBuf]) -> io::Result<u64> {
    let (mut left, mut seen, mut bytes) = (folders.to_vec(), HashSet::new(), 0_u64);
    while let Some(folder) = left.pop() {
        for entry in present(fs::read_dir(folder))?.into_iter().flatten() {
            let Some(entry) = present(entry)? else { continue };
            let Some(found) = present(entry.metadata())? else { continue };
            if found.is_dir() {
                left.push(entry.path());
            } else if hard_linked(&found).is_none_or(|file| seen.insert(file)) {
                bytes = bytes.saturating_add(size_on_disk(&found));
            }
        }
    }
    Ok(bytes)
}

/// `None` for a file that was deleted meanwhile.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Device and inode of a file with several names.
#[cfg(unix)]
fn hard_linked(file: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    (file.nlink() > 1).then(|| (file.dev(), file.ino()))
}

#[cfg(unix)]
fn size_on_disk(file: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(file).saturating_mul(512)
}

/// Free bytes of the disk that a path is on, for this user.
///
/// # Errors
/// When there is nothing at the path.
#[cfg(unix)]
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn hard_linked(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(not(unix))]
fn size_on_disk(file: &fs::Metadata) -> u64 {
    file.len()
}

/// Free bytes of the disk that a path is on.
///
/// # Errors
/// None on this system.
#[cfg(not(unix))]
pub fn free_bytes(_: &Path) -> io::Result<u64> {
    // Not known on this system: only the limit applies.
    Ok(u64::MAX)
}
