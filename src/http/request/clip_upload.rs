//! Writes an uploaded clip to disk while it arrives, and hashes it; it is never held in memory.
//!
//! A blocking thread writes; the channel to it holds a few pieces, so that a slow disk slows the upload. The number of
//! uploads at once is bounded, because each may take 200 MB of disk, in all and by account as the memory of accounts is.

use super::body::Chunks;
use super::form::MAX_OVERHEAD;
use super::multipart::{Multipart, MultipartError};
use crate::codec::DecodeError;
use crate::engine::{FairSemaphore, Permit, Tenant};
use crate::http::admission::memory::uploads_full_error;
use crate::http::reply::error::ApiError;
use crate::video;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Clips that are uploaded or fetched at once; one more is answered 429. One account alone has eight.
const CLIPS_AT_ONCE: usize = 12;

/// Pieces that wait for the disk; each is at most what a connection's buffer holds.
const PIECES_AHEAD: usize = 8;

/// The largest clip in bytes.
pub(crate) fn max_clip() -> usize {
    usize::try_from(video::MAX_BYTES).unwrap_or(usize::MAX)
}

/// The largest body that can hold a clip.
pub(crate) fn max_body() -> usize {
    max_clip().saturating_add(MAX_OVERHEAD)
}

/// 413 for a clip that is too large, whichever bound it exceeds.
pub(crate) fn clip_too_large() -> ApiError {
    DecodeError::TooManyBytes { limit: max_clip() }.into()
}

/// The slots of uploads of clips, which accounts share evenly.
#[derive(Clone, Debug)]
pub(crate) struct ClipSlots(FairSemaphore);

impl ClipSlots {
    pub(crate) fn new() -> Self {
        Self(FairSemaphore::shared(CLIPS_AT_ONCE, 1))
    }

    /// A slot for `account`, until it is dropped.
    pub(crate) fn acquire(&self, account: &str) -> Result<Permit, ApiError> {
        self.0.try_acquire(Tenant::of(account), 1).ok_or_else(uploads_full_error)
    }
}

/// A file that a clip is written to.
#[derive(Debug)]
pub(crate) struct ClipFile {
    pieces: mpsc::Sender<Bytes>,
    writer: JoinHandle<io::Result<StoredClip>>,
}

/// A clip that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredClip {
    pub(crate) bytes: usize,
    /// Its SHA-256.
    pub(crate) hash: [u8; 32],
}

impl ClipFile {
    /// Creates the file.
    pub(crate) fn create(path: PathBuf) -> Self {
        let (pieces, mut arriving) = mpsc::channel::<Bytes>(PIECES_AHEAD);
        let writer = spawn_blocking(move || {
            let (mut file, mut bytes, mut hash) = (create(&path)?, 0, Sha256::new());
            while let Some(piece) = arriving.blocking_recv() {
                file.write_all(&piece)?;
                hash.update(&piece);
                bytes += piece.len();
            }
            // The job is durable, so its clip has to be.
            file.sync_all()?;
            Ok(StoredClip { bytes, hash: hash.finalize().into() })
        });
        Self { pieces, writer }
    }

    /// The channel to the writer. It is closed where writing failed; [`ClipFile::finish`] returns the error.
    pub(crate) fn pieces(&self) -> &mpsc::Sender<Bytes> {
        &self.pieces
    }

    /// Waits until all of it is on disk.
    pub(crate) async fn finish(self) -> Result<StoredClip, ApiError> {
        drop(self.pieces);
        let stored = self.writer.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        stored.map_err(|error| {
            if is_disk_full(&error) {
                return disk_full_error(error.to_string());
            }
            ApiError::internal(format!("a clip could not be written: {error}"))
        })
    }
}

/// Creates a file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whether the disk or its quota is full.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// 503 for a full disk.
pub(crate) fn disk_full_error(cause: String) -> ApiError {
    ApiError::unavailable("there is no room for the clip right now").caused_by(cause)
}

/// Writes a part of a form to a file.
pub(crate) async fn read_part<C: Chunks>(form: &mut Multipart<C>, path: PathBuf) -> Result<StoredClip, ApiError> {
    let file = ClipFile::create(path);
    let mut left = max_clip();
    while let Some(data) = form.next_data().await.map_err(too_large_as_clip)? {
        left = left.checked_sub(data.len()).ok_or_else(clip_too_large)?;
        if file.pieces().send(data).await.is_err() {
            break;
        }
    }
    file.finish().await
}

fn too_large_as_clip(error: MultipartError) -> ApiError {
    match error {
        MultipartError::BodyTooLarge => clip_too_large(),
        MultipartError::Malformed(_) | MultipartError::Body(_) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_account_leaves_slots_for_others() {
        let slots = ClipSlots::new();
        let held: Vec<_> = std::iter::from_fn(|| slots.acquire("a").ok()).collect();
        assert_eq!(held.len(), 8);
        let other = slots.acquire("b");
        assert!(other.is_ok() && slots.acquire("c").is_ok() && slots.acquire("a").is_err());
        drop(held);
        assert!(slots.acquire("c").is_ok());
    }
}
