//! Reads files up to a size limit and writes them atomically.

use bytes::Bytes;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Reads at most one byte more than `max_bytes`, which the codec then refuses, so that a wrong file costs no memory.
pub(super) async fn read_file(path: PathBuf, max_bytes: usize) -> io::Result<Bytes> {
    blocking(move || read_bounded(&mut File::open(path)?, max_bytes)).await
}

/// Reads at most one byte more than `max_bytes` of standard input.
pub(super) async fn read_stdin(max_bytes: usize) -> io::Result<Bytes> {
    blocking(move || read_bounded(&mut io::stdin().lock(), max_bytes)).await
}

fn read_bounded(from: &mut impl Read, max_bytes: usize) -> io::Result<Bytes> {
    let limit = max_bytes as u64 + 1;
    let mut bytes = Vec::new();
    from.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// Writes to standard output.
pub(in crate::cli) async fn write_stdout(bytes: Bytes) -> io::Result<()> {
    blocking(move || {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes)?;
        stdout.flush()
    })
    .await
}

/// Writes a file with [`write_file`].
pub(super) async fn write_atomically(path: PathBuf, bytes: Bytes) -> io::Result<()> {
    blocking(move || write_file(&path, &bytes)).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Writes `path` atomically: a temporary file in its folder, then a rename.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Hidden, so that it is not listed as an input, and random, because another process or machine may write the same result.
    let partial = folder.join(format!(".{:016x}.part", rand::random::<u64>()));
    let mut file = File::create_new(&partial)?;
    let partial = PartialFile(partial);
    file.write_all(bytes)?;
    // Without this a crash of the machine could leave an empty file, which would count as done.
    file.sync_data()?;
    drop(file);
    fs::rename(&partial.0, path)
}

/// Removes an unfinished file; after the rename there is nothing to remove.
struct PartialFile(PathBuf);

impl Drop for PartialFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        // A name of the maximum length.
        let path = folder.path().join(format!("a/{}.png", "n".repeat(251)));
        for text in [b"one", b"two"] {
            write_file(&path, text).unwrap();
            assert_eq!(fs::read(&path).unwrap(), text);
        }
        let taken = folder.path().join("a/taken.png");
        fs::create_dir(&taken).unwrap();
        assert!(write_file(&taken, b"x").is_err());
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 2);
    }

    #[test]
    fn reading_stops_one_byte_after_the_limit() {
        for limit in [3, 10 << 20] {
            assert_eq!(read_bounded(&mut io::repeat(7), limit).unwrap().len(), limit + 1);
            assert_eq!(read_bounded(&mut &b"abc"[..], limit).unwrap().as_ref(), b"abc");
        }
    }
}
