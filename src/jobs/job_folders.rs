//! The folders of jobs, below `jobs` in the data directory: `incoming-…` while a clip comes in, then the job's id.
//!
//! A folder is on the disk before its job is recorded, and is deleted after its job is at its end. So a crash leaves
//! folders without a job at most, and those go at the next start.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::store::{create_private_dir, make_private};
use crate::telemetry::with_causes;

use super::space::Space;
use super::{Incoming, Job, JobsError, input_in};

const INCOMING: &str = "incoming-";

/// One byte: how far the job is. Shown is only what is in it, so that a restart does not turn it back.
const PROGRESS: &str = "progress";

#[derive(Debug)]
pub(super) struct Folders {
    root: PathBuf,
}

impl Folders {
    /// Makes `jobs` in the data directory where it is missing.
    pub(super) fn open(data_dir: &Path) -> Result<Self, JobsError> {
        let root = data_dir.join("jobs");
        create_private_dir(&root)
            .and_then(|()| make_private(&root))
            .map_err(|source| cannot("the folder of the jobs cannot be made", source))?;
        Ok(Self { root })
    }

    /// The folder of a job.
    pub(super) fn of(&self, id: &str) -> PathBuf {
        // An id from a store that somebody made up must not lead out of here.
        self.root.join(if Job::is_id(id) { id } else { "job_of_no_name" })
    }

    /// Where they all are.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A fresh folder for a clip of `bytes` at most, where `space` has room for it.
    pub(super) async fn incoming(&self, space: &Space, bytes: u64) -> Result<Incoming, JobsError> {
        let (root, space) = (self.root.clone(), space.clone());
        let what = "a folder for the clip cannot be made";
        let made = tokio::task::spawn_blocking(move || {
            let room = space.reserve(bytes)?;
            let folder = tempfile::Builder::new().prefix(INCOMING).tempdir_in(root);
            let folder = folder.map_err(|source| cannot(what, source))?.keep();
            Ok(Incoming { folder: Some(folder), _room: room })
        });
        made.await.unwrap_or_else(|error| Err(cannot(what, io::Error::other(error))))
    }

    /// Makes a folder with a clip that of a job. It is on the disk, durable, when this returns. When it fails the folder
    /// is gone.
    pub(super) async fn adopt(&self, mut incoming: Incoming, id: &str) -> Result<(), JobsError> {
        let (to, root) = (self.of(id), self.root.clone());
        blocking("the clip cannot be kept", move || {
            let Some(from) = incoming.folder.as_deref() else { return Ok(()) };
            File::open(input_in(from))?.sync_all()?;
            sync_folder(from)?;
            fs::rename(from, &to)?;
            incoming.now_at(Some(to));
            sync_folder(&root)?;
            incoming.now_at(None);
            Ok(())
        })
        .await
    }

    /// Deletes the folder of a job. A failure is logged: the next start tries again.
    pub(super) async fn remove(&self, id: &str) {
        let folder = self.of(id);
        let removed = blocking("the folder of a job cannot be deleted", move || without(&folder)).await;
        if let Err(error) = removed {
            tracing::warn!(job = id, error = with_causes(&error), "the folder of a job stays until the next start");
        }
    }

    /// Deletes the folders of clips that never became jobs, and of jobs that are not among `kept`. Blocks.
    pub(super) fn retain(&self, kept: &HashSet<&str>) -> Result<(), JobsError> {
        let failed = |source| cannot("the folder of the jobs cannot be tidied", source);
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            // What is not ours stays.
            let Some(name) = name.to_str().filter(|name| name.starts_with(INCOMING) || Job::is_id(name)) else {
                continue;
            };
            if !kept.contains(name) {
                without(&entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// How far a job was, as far as it was saved. Blocks.
    pub(super) fn progress(&self, id: &str) -> u8 {
        let mut byte = [0];
        let read = File::open(self.of(id).join(PROGRESS)).and_then(|mut file| file.read_exact(&mut byte));
        read.map_or(0, |()| byte[0])
    }

    /// Saves how far a job is. Survives the process, not a power cut; a failure costs as little.
    pub(super) async fn save_progress(&self, id: &str, progress: u8) {
        let file = self.of(id).join(PROGRESS);
        let saved = blocking("how far the job is cannot be saved", move || {
            // One byte over the other: there is never none.
            OpenOptions::new().write(true).create(true).truncate(false).open(file)?.write_all(&[progress])
        });
        if let Err(error) = saved.await {
            tracing::debug!(job = id, error = with_causes(&error), "how far the job is was not saved");
        }
    }
}

impl Incoming {
    /// Says what is to be deleted from now on.
    fn now_at(&mut self, folder: Option<PathBuf>) {
        self.folder = folder;
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else { return };
        let remove = move || {
            if let Err(error) = without(&folder) {
                tracing::warn!(%error, folder = %folder.display(), "a clip that was not used stays until the next start");
            }
        };
        // Deleting 200 MB takes its time, and callers drop this in async code.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Deletes a folder; one that is not there is as good as deleted.
fn without(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    // A folder cannot be opened as a file there.
    Ok(())
}

fn cannot(what: &str, source: io::Error) -> JobsError {
    JobsError::Io { what: what.to_owned(), source }
}

/// Runs `work` where blocking harms nobody.
async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, JobsError> {
    let outcome = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    outcome.map_err(|source| cannot(what, source))
}
