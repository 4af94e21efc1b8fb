//! Copies the checkpoint of a running job to the result store, and into the folder of a daemon that claims the job next.
//!
//! Only on a store that several daemons use. The worker adds files to its folder, and every two seconds those that are new are
//! copied. A copy that fails costs no more than time: the next daemon resumes from an older checkpoint, or from the beginning.
//!
//! A folder that has a plan keeps its own files, and the stored checkpoint is replaced by them, so that one daemon never mixes
//! files of two plans. Two daemons of different versions that both copy, because one is cut off from the database, can.

use std::collections::HashSet;
use std::future::Future;
use std::path::PathBuf;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::deps::{ResultStoreError, WorkCheckpoint};
use super::error::JobsError;
use super::shared::{Shared, stopped};
use super::{Job, input_in};

/// Fetches the clip and the checkpoint of a job into its folder. A clip that the result store does not have is left to the worker,
/// which fails.
pub(super) async fn fetch_input(shared: &Shared, job: &Job) -> Result<(), JobsError> {
    if !shared.deps.store.is_shared() {
        return Ok(());
    }
    let input = input_in(&shared.folders.create(&job.id).await?);
    // Written whole or not at all: one that is there is complete.
    if !tokio::fs::try_exists(&input).await.unwrap_or(false)
        && !shared.deps.results.fetch_input(&job.id, &input).await?
    {
        tracing::error!(job = job.id, "the result store does not have the clip of the job");
    }
    fetch(shared, job).await;
    Ok(())
}

/// Fetches the stored checkpoint of a job into its folder, unless the folder has one. A failure is logged: without it the
/// job begins at its beginning.
async fn fetch(shared: &Shared, job: &Job) {
    let fetched = async {
        if local(shared, job).await?.is_none() {
            shared.deps.results.fetch_checkpoint(&job.id, &shared.folders.of(&job.id)).await?;
        }
        Ok::<_, ResultStoreError>(())
    };
    if let Err(error) = fetched.await {
        tracing::warn!(job = job.id, %error, "the checkpoint of a job could not be fetched");
    }
}

/// Runs the work on a job, and copies its checkpoint meanwhile.
pub(super) async fn copied_during<T>(shared: &Shared, job: &Job, work: impl Future<Output = T>) -> T {
    if !shared.deps.store.is_shared() {
        return work.await;
    }
    let (finish, mut finished) = watch::channel(false);
    let work = async {
        let output = work.await;
        finish.send_replace(true);
        output
    };
    let copying = async {
        let mut copied = Copied::default();
        loop {
            tokio::select! {
                () = stopped(&mut finished) => return,
                () = sleep(shared.tuning.checkpoint_every) => {}
            }
            // Not dropped half way when the work ends by itself: nothing must appear in the result store after the job's end.
            if let Err(error) = copied.copy(shared, job, &finished).await {
                tracing::warn!(job = job.id, %error, "the checkpoint of a job could not be stored");
            }
        }
    };
    tokio::join!(work, copying).0
}

/// What the result store has of a job's checkpoint.
#[derive(Default)]
struct Copied {
    /// `None` before the first copy: whatever is stored is replaced.
    plan: Option<Vec<u8>>,
    files: HashSet<PathBuf>,
}

impl Copied {
    /// Stores the files that are new, until the work is finished.
    async fn copy(
        &mut self,
        shared: &Shared,
        job: &Job,
        finished: &watch::Receiver<bool>,
    ) -> Result<(), ResultStoreError> {
        let Some(WorkCheckpoint { plan, files }) = local(shared, job).await? else { return Ok(()) };
        if self.plan.as_ref() != Some(&plan) {
            shared.deps.results.delete_checkpoint(&job.id).await?;
            self.files.clear();
            self.plan = Some(plan);
        }
        for file in files {
            if *finished.borrow() {
                break;
            }
            if !self.files.contains(&file) {
                shared.deps.results.put_checkpoint(&job.id, &file).await?;
                self.files.insert(file);
            }
        }
        Ok(())
    }
}

/// The checkpoint in the folder of a job.
async fn local(shared: &Shared, job: &Job) -> Result<Option<WorkCheckpoint>, ResultStoreError> {
    let (worker, folder) = (shared.deps.worker.clone(), shared.folders.of(&job.id));
    let read = spawn_blocking(move || worker.checkpoint(&folder)).await;
    let failed = |error: &dyn std::error::Error| ResultStoreError(format!("the folder cannot be read: {error}"));
    read.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}
