//! A clip on its way to the disk: written and hashed as it comes, never in memory.
//!
//! A thread of its own writes; the channel to it holds a few pieces, so that a slow disk slows the caller down. So many
//! clips are on their way at once and no more: each may take 200 MB of the disk.

use super::body::Chunks;
use super::error::ApiError;
use super::form::MAX_OVERHEAD;
use super::multipart::{Multipart, MultipartError};
use super::upload_memory::no_room;
use crate::codec::DecodeError;
use crate::video;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

/// Clips on their way at once; one more is answered 429.
const CLIPS_AT_ONCE: usize = 8;

/// Pieces that wait for the disk; each is at most what a connection's buffer holds.
const PIECES_AHEAD: usize = 8;

/// The largest clip in bytes.
pub(super) fn max_clip() -> usize {
    usize::try_from(video::MAX_BYTES).unwrap_or(usize::MAX)
}

/// The largest body that can hold a clip.
pub(super) fn max_body() -> usize {
    max_clip().saturating_add(MAX_OVERHEAD)
}

/// What a caller whose clip is too large is told, whichever bound noticed it.
pub(super) fn clip_too_large() -> ApiError {
    DecodeError::TooManyBytes { limit: max_clip() }.into()
}

/// The places of clips on their way.
#[derive(Clone, Debug)]
pub(super) struct ClipRoom(Arc<Semaphore>);

impl ClipRoom {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(CLIPS_AT_ONCE)))
    }

    /// A place, until it is dropped.
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.0.clone().try_acquire_owned().map_err(|_| no_room())
    }
}

/// A file that a clip is written to.
#[derive(Debug)]
pub(super) struct ClipFile {
    pieces: mpsc::Sender<Bytes>,
    written: JoinHandle<io::Result<Written>>,
}

/// A clip that is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) bytes: usize,
    /// Its SHA-256.
    pub(super) hash: [u8; 32],
}

impl ClipFile {
    /// Makes the file.
    pub(super) fn create(path: PathBuf) -> Self {
        let (pieces, mut coming) = mpsc::channel::<Bytes>(PIECES_AHEAD);
        let written = spawn_blocking(move || {
            let (mut file, mut bytes, mut hash) = (create(&path)?, 0, Sha256::new());
            while let Some(piece) = coming.blocking_recv() {
                file.write_all(&piece)?;
                hash.update(&piece);
                bytes += piece.len();
            }
            // The job that is made of it is durable, so its clip has to be.
            file.sync_all()?;
            Ok(Written { bytes, hash: hash.finalize().into() })
        });
        Self { pieces, written }
    }

    /// Where the pieces go. That nobody takes them any more means that writing failed: [`ClipFile::end`] tells how.
    pub(super) fn pieces(&self) -> &mpsc::Sender<Bytes> {
        &self.pieces
    }

    /// Waits until all of it is on the disk.
    pub(super) async fn end(self) -> Result<Written, ApiError> {
        drop(self.pieces);
        let written = self.written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|error| {
            if is_full(&error) {
                return no_disk(error.to_string());
            }
            ApiError::internal(format!("a clip could not be written: {error}"))
        })
    }
}

/// Makes a file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whether the disk is the reason.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What a caller is told when it is.
pub(super) fn no_disk(cause: String) -> ApiError {
    ApiError::unavailable("there is no room for the clip right now").because(cause)
}

/// Reads a part of a form to its end, into a file.
pub(super) async fn read_part<C: Chunks>(form: &mut Multipart<C>, path: PathBuf) -> Result<Written, ApiError> {
    let file = ClipFile::create(path);
    let mut left = max_clip();
    while let Some(data) = form.next_data().await.map_err(too_large_as_clip)? {
        left = left.checked_sub(data.len()).ok_or_else(clip_too_large)?;
        if file.pieces().send(data).await.is_err() {
            break;
        }
    }
    file.end().await
}

fn too_large_as_clip(error: MultipartError) -> ApiError {
    match error {
        MultipartError::BodyTooLarge => clip_too_large(),
        MultipartError::Malformed(_) | MultipartError::Body(_) => error.into(),
    }
}
