//! Clips whose ffmpeg is killed or gets no threads: the service is at fault, not the clip.

use crate::video::support::{boxed, clip, engine, made, recipe};
use backdrop::engine::Tenant;
use backdrop::recipe::VideoFormat;
use backdrop::video::{self, Finished, Tools, VideoConfig, VideoError};
use std::path::Path;
use std::process::Command;

/// Cuts out `source` with `script` as ffmpeg.
async fn cut_by(script: &str, source: &Path, format: VideoFormat) -> Result<Finished, VideoError> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("ffmpeg");
    // Written by another process, so that no child of another test inherits its open descriptor.
    let write = "printf '#!/bin/sh\n%s\n' \"$1\" > \"$0\" && chmod +x \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(&program).arg(script).status();
    assert!(written.unwrap().success());
    let tools = Tools::find(&VideoConfig { ffmpeg: program, ..VideoConfig::default() }).unwrap();
    let job = tempfile::tempdir().unwrap();
    video::remove(&engine(), Tenant::default(), &tools, source, job.path(), &recipe(format), &|_| {}).await
}

#[tokio::test]
async fn a_clip_whose_decoder_gets_a_signal_fails_instead_of_ending_early() {
    let folder = tempfile::tempdir().unwrap();
    let options = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p";
    let source = made(folder.path(), "long.mp4", &[&boxed((160, 90), "10", 30)], options);
    // After ten frames in real time the group gets SIGTERM. Only ffmpeg does not ignore it, and exits with 255.
    let script = "trap '' TERM; exec 4>&1\n\
        status=$({ { ffmpeg -re \"$@\"; echo $? >&3; } | { head -c 576000; kill -TERM 0; cat; } >&4; } 3>&1)\n\
        exit $status";
    let ended = cut_by(script, &source, VideoFormat::PngSequence).await;
    assert!(matches!(&ended, Err(VideoError::Tool(message)) if message.contains("255")), "{ended:?}");
}

#[tokio::test]
async fn a_decoder_without_threads_or_memory_is_not_the_clips_fault() {
    let folder = tempfile::tempdir().unwrap();
    let source = clip(folder.path());
    for message in ["Resource temporarily unavailable", "Cannot allocate memory"] {
        let script = format!("echo 'Error while opening decoder for input stream #0:0 : {message}' >&2; exit 1");
        let ended = cut_by(&script, &source, VideoFormat::PngSequence).await;
        assert!(matches!(&ended, Err(VideoError::Tool(said)) if said.contains(message)), "{ended:?}");
    }
    let ended = cut_by("exit 1", &source, VideoFormat::PngSequence).await;
    assert!(matches!(ended, Err(VideoError::Unreadable)), "{ended:?}");
}

#[tokio::test]
async fn a_clip_whose_muxer_is_killed_fails_instead_of_losing_its_sound() {
    let folder = tempfile::tempdir().unwrap();
    let script = "case \"$*\" in *apad*) kill -TERM $$ ;; esac; exec ffmpeg \"$@\"";
    let ended = cut_by(script, &clip(folder.path()), VideoFormat::Mp4).await;
    assert!(matches!(ended, Err(VideoError::Tool(_))), "{ended:?}");
}
