//! Writes an uploaded clip to disk while it arrives, and hashes it; it is never held in memory.
//!
//! A blocking thread writes; the channel to it holds a few pieces, so that a slow disk slows the upload.

use super::body::Chunks;
use super::form::MAX_OVERHEAD;
use super::multipart::Multipart;
use crate::codec::DecodeError;
use crate::http::reply::{ApiError, Result};
use crate::video;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

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
    pub(crate) async fn finish(self) -> Result<StoredClip> {
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
pub(crate) async fn read_part<C: Chunks>(form: &mut Multipart<C>, path: PathBuf) -> Result<StoredClip> {
    let file = ClipFile::create(path);
    let mut left = max_clip();
    while let Some(data) = form.next_data().await.map_err(|error| error.answered(clip_too_large))? {
        left = left.checked_sub(data.len()).ok_or_else(clip_too_large)?;
        if file.pieces().send(data).await.is_err() {
            break;
        }
    }
    file.finish().await
}
