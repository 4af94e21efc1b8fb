//! Reading no more than may be read, and writing all or nothing.

use super::plan::Sink;
use bytes::Bytes;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Reads a picture: at most one byte more than `max_bytes`, which the codec then refuses, so that a wrong file costs no
/// memory.
pub(super) async fn read(path: PathBuf, max_bytes: usize) -> io::Result<Bytes> {
    off_the_runtime(move || read_bounded(&mut File::open(path)?, max_bytes)).await
}

/// The same from standard input.
pub(super) async fn read_stdin(max_bytes: usize) -> io::Result<Bytes> {
    off_the_runtime(move || read_bounded(&mut io::stdin().lock(), max_bytes)).await
}

fn read_bounded(from: &mut impl Read, max_bytes: usize) -> io::Result<Bytes> {
    let most = max_bytes as u64 + 1;
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// Writes a result.
pub(super) async fn write(sink: &Sink, bytes: Bytes) -> io::Result<()> {
    let sink = sink.clone();
    off_the_runtime(move || match sink {
        Sink::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(&bytes)?;
            stdout.flush()
        }
        Sink::File(path) => write_now(&path, &bytes),
    })
    .await
}

async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Writes `path` whole or not at all: into a file beside it, which then takes the name.
pub(super) fn write_now(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let partial = Partial(partial_name(folder, path));
    let mut file = File::create(&partial.0)?;
    file.write_all(bytes)?;
    // Without this a crash of the machine could leave the name on an empty file, which would count as done.
    file.sync_data()?;
    drop(file);
    fs::rename(&partial.0, path)
}

/// A hidden name, so that a folder that is being read does not show it, and one per process.
fn partial_name(folder: &Path, path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    folder.join(name)
}

/// Removes what was not finished; after the rename there is nothing left to remove.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether `output` is there and was written after `input` was.
pub(super) fn is_newer(output: &Path, input: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((modified(output), modified(input)), (Ok(output), Ok(input)) if output >= input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_replaces_the_old_one_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.png");
        write_now(&path, b"one").unwrap();
        write_now(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_result_that_cannot_take_its_name_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken.png");
        fs::create_dir(&taken).unwrap();
        assert!(write_now(&taken, b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn reading_stops_one_byte_after_the_limit() {
        for limit in [3, 10 << 20] {
            assert_eq!(read_bounded(&mut io::repeat(7), limit).unwrap().len(), limit + 1);
            assert_eq!(read_bounded(&mut &b"abc"[..], limit).unwrap().as_ref(), b"abc");
        }
    }
}
