//! Results in a local folder: takes finished files over by hard link, and streams them in pieces.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::task::spawn_blocking;

use crate::store::{make_private, sync_dir};

/// Bytes read from a file at once.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// An open result.
#[derive(Debug)]
pub struct StoredResult {
    file: File,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its media type.
    pub media_type: &'static str,
}

impl StoredResult {
    /// Opens a file. Blocks.
    pub(super) fn open(path: &Path, media_type: &'static str) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes, media_type })
    }

    /// Streams `count` bytes from `first` on, in pieces as they are polled; nothing is read ahead.
    pub fn read(self, first: u64, count: u64) -> impl Stream<Item = io::Result<Bytes>> + Send {
        let start = Some((self.file, first, count));
        stream::try_unfold(start, async |reading| {
            let Some((mut file, at, left)) = reading.filter(|(.., left)| *left > 0) else { return Ok(None) };
            let read = spawn_blocking(move || {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
                let mut piece = Vec::with_capacity(most);
                file.seek(SeekFrom::Start(at))?;
                (&mut file).take(most as u64).read_to_end(&mut piece)?;
                if piece.is_empty() {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
                Ok((file, Bytes::from(piece)))
            });
            let (file, piece) = read.await.map_err(io::Error::other)??;
            let read = piece.len() as u64;
            Ok(Some((piece, Some((file, at + read, left - read)))))
        })
    }
}

/// What the names of files begin with that are not stored yet.
const UNFINISHED: &str = ".unfinished-";

/// Deletes the files that a killed daemon has not stored to the end.
pub(super) fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Takes a file over into a folder, by hard link where both are on one file system. The file itself stays: until its
/// end is recorded, a job must be able to store its result again, and a clip may be fetched more than once.
pub(super) fn store_file(from: &Path, folder: &Path, to: &Path) -> io::Result<()> {
    // Linked under a temporary name and renamed, which replaces a file that an earlier start has left.
    let name = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?.into_temp_path();
    fs::remove_file(&name)?;
    if fs::hard_link(from, &name).is_err() {
        fs::copy(from, &name)?;
    }
    make_private(&name)?;
    File::open(&name)?.sync_all()?;
    let temporary = name.to_path_buf();
    name.persist(to).map_err(|error| error.error)?;
    // A rename between two links of one file does nothing (POSIX): then the stored file is this one already.
    if let Err(error) = fs::remove_file(temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    sync_dir(folder)
}
