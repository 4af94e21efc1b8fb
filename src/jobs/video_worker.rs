//! The work on a clip: from the fields of a job to a finished file.

use std::io::ErrorKind;
use std::path::Path;

use futures_util::future::BoxFuture;

use super::{Done, Job, Work, WorkError, input_in};
use crate::engine::{Engine, EngineError};
use crate::recipe::{Fields, VideoRecipe};
use crate::telemetry::with_causes;
use crate::video::{self, Finished, Tools, VideoConfig, VideoError};

/// Drawn over every frame that a sandbox key gets.
const STAMP: &str = "TEST";

/// Cuts subjects out of clips.
#[derive(Debug)]
pub struct VideoWork {
    engine: Engine,
    config: VideoConfig,
}

impl VideoWork {
    /// On `engine`, with the programs that `config` names. They are looked for at each job: one that is installed
    /// meanwhile is found.
    #[must_use]
    pub const fn new(engine: Engine, config: VideoConfig) -> Self {
        Self { engine, config }
    }

    async fn remove(&self, job: &Job, folder: &Path, progress: &(dyn Fn(u8) + Send + Sync)) -> Result<Done, WorkError> {
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
        match video::remove(&self.engine, &tools, &source, folder, &recipe, progress).await {
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
                Ok(Done { file, media_type, frames, rate_frames: rate.frames, rate_seconds: rate.seconds, warnings })
            }
            // The engine stops after the jobs: the daemon is about to end, and the job goes on at the next start.
            Err(VideoError::Engine(EngineError::Stopped)) => std::future::pending().await,
            Err(error) => Err(refused(job, &error)),
        }
    }
}

impl Work for VideoWork {
    fn run<'a>(
        &'a self,
        job: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<Done, WorkError>> {
        Box::pin(self.remove(job, folder, progress))
    }
}

/// What the fields of a job ask for. They were judged when it was made; a newer version may judge otherwise.
fn recipe(job: &Job) -> Result<VideoRecipe, WorkError> {
    let unusable = |error: crate::recipe::FieldError| WorkError {
        code: "invalid_parameter",
        message: error.to_string(),
        internal: false,
    };
    let mut fields = Fields::default();
    for (name, value) in &job.fields {
        fields.push(name, value).map_err(unusable)?;
    }
    let recipe = VideoRecipe::of(&fields).map_err(unusable)?;
    Ok(VideoRecipe { stamp: job.test.then_some(STAMP), ..recipe })
}

/// What the caller hears, with the codes of the API.
fn refused(job: &Job, error: &VideoError) -> WorkError {
    let told = |code| WorkError { code, message: error.to_string(), internal: false };
    match error {
        VideoError::Unreadable => told("invalid_image"),
        VideoError::Unsupported(_) => told("unsupported_media_type"),
        VideoError::NoPicture => told("no_subject_detected"),
        VideoError::TooLarge(_) | VideoError::Exhausted(_) => told("payload_too_large"),
        VideoError::Io { source, .. } if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            tracing::error!(job = job.id, error = with_causes(error), "the disk is full");
            WorkError::no_room()
        }
        VideoError::Engine(_) | VideoError::Io { .. } | VideoError::Tool(_) => {
            tracing::error!(job = job.id, error = with_causes(error), "a clip could not be worked on");
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
    fn a_job_asks_for_what_its_fields_say_and_a_sandbox_one_is_stamped() {
        let fields = vec![("format".to_owned(), "mov".to_owned()), ("smoothing".to_owned(), "7".to_owned())];
        let own = recipe(&Job { fields: fields.clone(), test: false, ..job("key") }).expect("good fields");
        assert_eq!((own.format, own.smoothing, own.stamp), (VideoFormat::Mov, 7, None));
        let sandbox = recipe(&Job { fields, test: true, ..job("key") }).expect("good fields");
        assert_eq!(sandbox.stamp, Some(STAMP));
    }

    #[test]
    fn fields_that_this_version_does_not_take_fail_the_job_and_say_why() {
        for fields in [&[("format", "avi")][..], &[("no", "such")], &[("audio", "true"), ("audio", "false")]] {
            let fields = fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            let error = recipe(&Job { fields, ..job("key") }).expect_err("not taken");
            assert_eq!((error.code, error.internal), ("invalid_parameter", false), "{error}");
        }
    }

    #[test]
    fn a_full_disk_is_told_as_such_and_the_systems_words_are_not() {
        let full =
            VideoError::Io { what: "writing /secret/path".into(), source: std::io::ErrorKind::StorageFull.into() };
        let error = refused(&job("key"), &full);
        assert!(error.internal && error.message.contains("no room") && !error.message.contains("secret"), "{error}");
        let broken = VideoError::Tool("ffmpeg: /secret/path".into());
        let error = refused(&job("key"), &broken);
        assert!(error.internal && !error.message.contains("secret"), "{error}");
        assert!(!refused(&job("key"), &VideoError::Unreadable).internal);
    }
}
