//! Folders of jobs, below `jobs` in the data directory: `incoming-…` during an upload, then the job's id.
//!
//! A folder is on the disk before its job is recorded, and is deleted after its job's end is recorded. So a crash leaves
//! at most folders without a job, which the next start deletes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::store::{create_private_dir, make_private, sync_dir};
use crate::telemetry::with_causes;

use super::Job;
use super::disk_space::{DiskSpace, SpaceReservation};
use super::error::JobsError;

const INCOMING: &str = "incoming-";

/// File with one byte: the job's progress. It is saved before it is shown, so that a restart does not turn it back.
const PROGRESS: &str = "progress";

/// A folder for an incoming clip. Dropped, it is deleted with its content; [`Jobs::create`](super::Jobs::create) adopts
/// it.
#[derive(Debug)]
pub struct IncomingClip {
    /// `None` once it was adopted.
    folder: Option<PathBuf>,
    _space: SpaceReservation,
}

impl IncomingClip {
    /// The path to write the clip to. No file exists there yet.
    #[must_use]
    pub fn input(&self) -> PathBuf {
        input_in(self.folder.as_deref().unwrap_or(Path::new("")))
    }
}

/// The path of the clip in the folder of a job.
#[must_use]
pub fn input_in(folder: &Path) -> PathBuf {
    folder.join("input")
}

#[derive(Debug)]
pub(super) struct JobFolders {
    root: PathBuf,
}

impl JobFolders {
    /// Creates `jobs` in the data directory if it is missing.
    pub(super) fn open(data_dir: &Path) -> Result<Self, JobsError> {
        let root = data_dir.join("jobs");
        create_private_dir(&root)
            .and_then(|()| make_private(&root))
            .map_err(|source| io_error("the folder of the jobs cannot be created", source))?;
        Ok(Self { root })
    }

    /// The folder of a job.
    pub(super) fn of(&self, id: &str) -> PathBuf {
        // A forged id in a store must not lead out of this folder.
        self.root.join(if Job::is_id(id) { id } else { "job_of_no_name" })
    }

    /// The folder that holds all of them.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A fresh folder for a clip of up to `bytes`, if `space` has room for it.
    pub(super) async fn incoming(&self, space: &DiskSpace, bytes: u64) -> Result<IncomingClip, JobsError> {
        let (root, space) = (self.root.clone(), space.clone());
        let what = "a folder for the clip cannot be created";
        let made = tokio::task::spawn_blocking(move || {
            let reserved = space.reserve(bytes)?;
            let folder = tempfile::Builder::new().prefix(INCOMING).tempdir_in(root);
            let folder = folder.map_err(|source| io_error(what, source))?.keep();
            Ok(IncomingClip { folder: Some(folder), _space: reserved })
        });
        made.await.unwrap_or_else(|error| Err(io_error(what, io::Error::other(error))))
    }

    /// Renames the folder of an incoming clip to the folder of a job, durably. After a failure the folder is deleted.
    pub(super) async fn adopt(&self, mut incoming: IncomingClip, id: &str) -> Result<(), JobsError> {
        let (to, root) = (self.of(id), self.root.clone());
        blocking("the clip cannot be stored", move || {
            let Some(from) = incoming.folder.as_deref() else { return Ok(()) };
            File::open(input_in(from))?.sync_all()?;
            sync_dir(from)?;
            fs::rename(from, &to)?;
            incoming.set_folder(Some(to));
            sync_dir(&root)?;
            incoming.set_folder(None);
            Ok(())
        })
        .await
    }

    /// Creates the folder of a job if it is missing. It need not be durable: it can be made again.
    pub(super) async fn create(&self, id: &str) -> Result<PathBuf, JobsError> {
        let folder = self.of(id);
        blocking("the folder of a job cannot be created", move || create_private_dir(&folder).map(|()| folder)).await
    }

    /// Deletes the folder of a job. A failure is logged; the next start retries.
    pub(super) async fn remove(&self, id: &str) {
        let folder = self.of(id);
        let removed = blocking("the folder of a job cannot be deleted", move || remove_folder(&folder)).await;
        if let Err(error) = removed {
            tracing::warn!(job = id, error = with_causes(&error), "the folder of a job stays until the next start");
        }
    }

    /// The ids of the jobs that have a folder. Blocks.
    pub(super) fn job_ids(&self) -> Result<Vec<String>, JobsError> {
        let failed = |source| io_error("the folder of the jobs cannot be read", source);
        let names = fs::read_dir(&self.root).map_err(failed)?.map(|entry| entry.map(|entry| entry.file_name()));
        let names: Vec<_> = names.collect::<Result<_, _>>().map_err(failed)?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| Job::is_id(name)).collect())
    }

    /// Deletes the folders of incoming clips, and of jobs for whose ids `is_kept` is false. Blocks.
    pub(super) fn retain(&self, is_kept: impl Fn(&str) -> bool) -> Result<(), JobsError> {
        let failed = |source| io_error("the folder of the jobs cannot be cleaned up", source);
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            // Other files stay.
            let Some(name) = name.to_str().filter(|name| name.starts_with(INCOMING) || Job::is_id(name)) else {
                continue;
            };
            if !is_kept(name) {
                remove_folder(&entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The saved progress of a job. Blocks.
    pub(super) fn progress(&self, id: &str) -> u8 {
        let mut byte = [0];
        let read = File::open(self.of(id).join(PROGRESS)).and_then(|mut file| file.read_exact(&mut byte));
        read.map_or(0, |()| byte[0])
    }

    /// Saves the progress of a job. It survives the process, not a power cut; a failure is as harmless.
    pub(super) async fn save_progress(&self, id: &str, progress: u8) {
        let file = self.of(id).join(PROGRESS);
        let saved = blocking("the progress of the job cannot be saved", move || {
            // Overwritten in place: the file is never empty.
            OpenOptions::new().write(true).create(true).truncate(false).open(file)?.write_all(&[progress])
        });
        if let Err(error) = saved.await {
            tracing::debug!(job = id, error = with_causes(&error), "the progress of the job was not saved");
        }
    }
}

impl IncomingClip {
    /// Sets what is deleted on drop.
    fn set_folder(&mut self, folder: Option<PathBuf>) {
        self.folder = folder;
    }
}

impl Drop for IncomingClip {
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else { return };
        let remove = move || {
            if let Err(error) = remove_folder(&folder) {
                tracing::warn!(%error, folder = %folder.display(), "the folder of an unused clip stays until the next start");
            }
        };
        // Deleting 200 MB blocks, and callers drop this in async code.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Deletes a folder; a missing one is no error.
fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn io_error(what: &str, source: io::Error) -> JobsError {
    JobsError::Io { what: what.to_owned(), source }
}

/// Runs `work` on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, JobsError> {
    let outcome = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    outcome.map_err(|source| io_error(what, source))
}
