//! Executes a video job: from the fields of its request and its clip to a finished file, through `video::remove`.

use std::io::{self, ErrorKind};
use std::path::Path;

use futures_util::future::BoxFuture;

use super::deps::{WorkCheckpoint, WorkError, WorkOutput, Worker};
use super::{Job, input_in};
use crate::engine::{Engine, EngineError, EngineState, Tenant};
use crate::recipe::{Fields, ModelRef, Network, VideoRecipe};
use crate::telemetry::with_causes;
use crate::video::{self, Finished, Tools, VideoConfig, VideoError};

/// The stamp on every frame for a sandbox key.
const STAMP: &str = "TEST";

/// Cuts subjects out of clips.
#[derive(Debug)]
pub struct VideoWorker {
    engine: Engine,
    config: VideoConfig,
}

impl VideoWorker {
    /// On `engine`, with the programs that `config` names. They are searched at each job, so that a later installation is
    /// found.
    #[must_use]
    pub const fn new(engine: Engine, config: VideoConfig) -> Self {
        Self { engine, config }
    }

    async fn remove(
        &self,
        job: &Job,
        folder: &Path,
        progress: &(dyn Fn(u8) + Send + Sync),
    ) -> Result<WorkOutput, WorkError> {
        let recipe = recipe(job)?;
        let config = self.config.clone();
        let tools = tokio::task::spawn_blocking(move || Tools::find(&config)).await;
        let tools = tools.map_err(|_| internal("the daemon is shutting down"))?;
        let tools = tools.map_err(|missing| WorkError {
            code: "unavailable",
            message: format!("clips cannot be worked on: {missing}"),
            internal: true,
        })?;
        let source = input_in(folder);
        let tenant = Tenant::background(&job.account);
        let removed = loop {
            match video::remove(&self.engine, tenant, &tools, &source, folder, &recipe, progress).await {
                // No clip can be processed then. The next attempt resumes from the checkpoint.
                Err(VideoError::Engine(EngineError::Failed(reason)))
                    if matches!(recipe.network, Network::BuiltIn(_)) =>
                {
                    tracing::warn!(job = job.id, %reason, "a clip waits until the network can be loaded");
                    // An error means that the engine is gone, which the next attempt reports.
                    let is_over = |state: &EngineState| !matches!(state, EngineState::Failed | EngineState::Loading);
                    drop(self.engine.state().wait_for(is_over).await);
                }
                removed => break removed,
            }
        };
        match removed {
            Ok(Finished { file, frames, rate, warnings, took }) => {
                tracing::info!(
                    job = job.id,
                    frames,
                    decode_s = took.decode.as_secs_f64(),
                    segment_s = took.segment.as_secs_f64(),
                    matte_s = took.matte.as_secs_f64(),
                    encode_s = took.encode.as_secs_f64(),
                    total_s = took.total.as_secs_f64(),
                    "a clip is finished"
                );
                let media_type = recipe.format.media_type();
                Ok(WorkOutput {
                    file,
                    media_type,
                    frames,
                    rate_frames: rate.frames,
                    rate_seconds: rate.seconds,
                    warnings,
                })
            }
            // The engine stops after the jobs: the daemon is about to end, and the job resumes at the next start.
            Err(VideoError::Engine(EngineError::Stopped)) => std::future::pending().await,
            Err(error) => Err(work_error(job, &error)),
        }
    }
}

impl Worker for VideoWorker {
    fn run<'a>(
        &'a self,
        job: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<WorkOutput, WorkError>> {
        Box::pin(self.remove(job, folder, progress))
    }

    fn is_waiting(&self) -> bool {
        self.engine.failed_for().is_some()
    }

    fn checkpoint(&self, folder: &Path) -> io::Result<Option<WorkCheckpoint>> {
        Ok(video::checkpoint(folder)?.map(|(plan, files)| WorkCheckpoint { plan, files }))
    }
}

/// The recipe of a job's fields. They were valid when it was created; a newer version may refuse them.
fn recipe(job: &Job) -> Result<VideoRecipe, WorkError> {
    let refused = |message: String| WorkError { code: "invalid_parameter", message, internal: false };
    let unusable = |error: crate::recipe::FieldError| refused(error.to_string());
    let mut fields = Fields::default();
    for (name, value) in &job.fields {
        fields.push(name, value).map_err(unusable)?;
    }
    let recipe = VideoRecipe::of(&fields).map_err(unusable)?;
    let network = recipe.named_model.as_ref().map(|ModelRef(name)| name.parse()).transpose();
    let network = network.map_err(|error: &str| refused(format!("segmentation_model: {error}")))?.unwrap_or_default();
    Ok(VideoRecipe { stamp: job.test.then_some(STAMP), network, ..recipe })
}

/// The error for the caller, with the codes of the API.
fn work_error(job: &Job, error: &VideoError) -> WorkError {
    let public = |code| WorkError { code, message: error.to_string(), internal: false };
    match error {
        VideoError::Unreadable => public("invalid_image"),
        VideoError::Unsupported(_) => public("unsupported_media_type"),
        VideoError::NoPicture => public("no_subject_detected"),
        VideoError::TooLarge(_) | VideoError::Exhausted(_) => public("payload_too_large"),
        VideoError::Io { source, .. } if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            tracing::error!(job = job.id, error = with_causes(error), "the disk is full");
            WorkError::no_disk_space()
        }
        VideoError::Engine(_) | VideoError::Io { .. } | VideoError::Tool(_) => {
            tracing::error!(job = job.id, error = with_causes(error), "a clip could not be processed");
            internal("the service failed at this clip")
        }
    }
}

fn internal(message: &str) -> WorkError {
    WorkError { code: "internal_error", message: message.to_owned(), internal: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::job;
    use crate::recipe::VideoFormat;

    #[test]
    fn a_recipe_follows_the_jobs_fields_and_a_sandbox_job_is_stamped() {
        let fields = vec![("format".to_owned(), "mov".to_owned()), ("smoothing".to_owned(), "7".to_owned())];
        let own = recipe(&Job { fields: fields.clone(), test: false, ..job("key") }).expect("good fields");
        assert_eq!((own.format, own.smoothing, own.stamp), (VideoFormat::Mov, 7, None));
        let sandbox = recipe(&Job { fields, test: true, ..job("key") }).expect("good fields");
        assert_eq!(sandbox.stamp, Some(STAMP));
    }

    #[test]
    fn fields_that_this_version_refuses_fail_the_job_with_the_reason() {
        for fields in [&[("format", "avi")][..], &[("no", "such")], &[("audio", "true"), ("audio", "false")]] {
            let fields = fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            let error = recipe(&Job { fields, ..job("key") }).expect_err("not taken");
            assert_eq!((error.code, error.internal), ("invalid_parameter", false), "{error}");
        }
    }

    #[test]
    fn a_full_disk_is_reported_without_the_systems_message() {
        let full =
            VideoError::Io { what: "writing /secret/path".into(), source: std::io::ErrorKind::StorageFull.into() };
        let error = work_error(&job("key"), &full);
        assert!(error.internal && error.message.contains("no room") && !error.message.contains("secret"), "{error}");
        let broken = VideoError::Tool("ffmpeg: /secret/path".into());
        let error = work_error(&job("key"), &broken);
        assert!(error.internal && !error.message.contains("secret"), "{error}");
        assert!(!work_error(&job("key"), &VideoError::Unreadable).internal);
    }
}
