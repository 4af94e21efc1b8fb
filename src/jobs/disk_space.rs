//! Disk space of jobs: a bound on what clips, segments and results take together, and free space that stays.
//!
//! What is taken is measured, not counted: a walk over the folders is right after every crash, and takes milliseconds
//! for thousands of files. New clips get three quarters of the bound; the last quarter is for the segments and results of
//! jobs under way. A job under way fails beyond the bound, or when less than half of the free space is left: before the
//! store, which is on the same disk, has no room.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{JobsConfig, JobsError, NoRoom};

/// Free bytes of the disk that a path is on.
#[derive(Clone)]
pub(super) struct FreeBytes(pub(super) Arc<Measure>);

type Measure = dyn Fn(&Path) -> io::Result<u64> + Send + Sync;

impl std::fmt::Debug for FreeBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FreeBytes")
    }
}

/// The bounds.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) max_bytes: u64,
    pub(super) min_free_bytes: u64,
    /// How often a job under way is held against them.
    pub(super) check_every: Duration,
    pub(super) free: FreeBytes,
}

impl Bounds {
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

/// The space of all jobs. Clones share what is promised.
#[derive(Clone, Debug)]
pub(super) struct Space {
    folders: Arc<[PathBuf]>,
    bounds: Bounds,
    promised: Arc<Mutex<u64>>,
}

/// Room for a clip that comes in; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    bytes: u64,
    promised: Arc<Mutex<u64>>,
}

impl Space {
    /// Of `folders`, the first of which is on the disk whose free space counts.
    pub(super) fn new(folders: impl IntoIterator<Item = PathBuf>, bounds: Bounds) -> Self {
        Self { folders: folders.into_iter().collect(), bounds, promised: Arc::default() }
    }

    pub(super) const fn check_every(&self) -> Duration {
        self.bounds.check_every
    }

    /// Room for a clip of so many bytes, beside those that are on their way. Blocks.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Room, JobsError> {
        // Held over the walk: of two clips at once, one after the other.
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = promised.saturating_add(bytes);
        let max = self.bounds.max_bytes - self.bounds.max_bytes / 4;
        self.expect(wanted, max, self.bounds.min_free_bytes)?;
        *promised = wanted;
        Ok(Room { bytes, promised: Arc::clone(&self.promised) })
    }

    /// Whether a job under way may go on. Blocks.
    pub(super) fn check(&self) -> Result<(), JobsError> {
        self.expect(0, self.bounds.max_bytes, self.bounds.min_free_bytes / 2)
    }

    fn expect(&self, wanted: u64, max: u64, min_free: u64) -> Result<(), JobsError> {
        let unreadable = |source| JobsError::Io { what: "the space of the jobs cannot be measured".into(), source };
        let used = bytes_in(&self.folders).map_err(unreadable)?;
        if used.saturating_add(wanted) > max {
            return Err(NoRoom::Bound { used, wanted, max }.into());
        }
        let Some(folder) = self.folders.first() else { return Ok(()) };
        let free = (self.bounds.free.0)(folder).map_err(unreadable)?;
        if free < min_free.saturating_add(wanted) {
            return Err(NoRoom::Disk { free, wanted, min_free }.into());
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        *promised = promised.saturating_sub(self.bytes);
    }
}

/// Bytes on the disk of all files below some folders, each counted once: a result is a second name of a job's file.
fn bytes_in(folders: &[PathBuf]) -> io::Result<u64> {
    let (mut left, mut seen, mut bytes) = (folders.to_vec(), HashSet::new(), 0_u64);
    while let Some(folder) = left.pop() {
        for entry in present(fs::read_dir(folder))?.into_iter().flatten() {
            let Some(entry) = present(entry)? else { continue };
            let Some(found) = present(entry.metadata())? else { continue };
            if found.is_dir() {
                left.push(entry.path());
            } else if has_more_names(&found).is_none_or(|file| seen.insert(file)) {
                bytes = bytes.saturating_add(size_on_disk(&found));
            }
        }
    }
    Ok(bytes)
}

/// Nothing for what was deleted meanwhile.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(unix)]
fn has_more_names(file: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    (file.nlink() > 1).then(|| (file.dev(), file.ino()))
}

#[cfg(unix)]
fn size_on_disk(file: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(file).saturating_mul(512)
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn has_more_names(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(not(unix))]
fn size_on_disk(file: &fs::Metadata) -> u64 {
    file.len()
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> io::Result<u64> {
    // Not known there: the bound alone holds.
    Ok(u64::MAX)
}
