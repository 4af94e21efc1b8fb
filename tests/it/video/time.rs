//! Audio sync, and resumed work on clips.

use crate::video::support::{boxed, cut, engine, engine_of_everything, frames, made, recipe, remade, sound, tools};
use backdrop::engine::Tenant;
use backdrop::image::color::Color;
use backdrop::recipe::{VideoFormat, VideoRecipe};
use backdrop::video::{self, Finished};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

#[tokio::test]
async fn audio_is_in_sync_after_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    // A flash and a beep at 59 seconds, at a fractional frame rate.
    let source = made(
        folder.path(),
        "minute.mp4",
        &[
            "color=c=black:s=32x18:r=15000/1001:d=60[dark];color=c=white:s=32x18:r=15000/1001:d=60[light];\
             [dark][light]overlay=enable='between(t,58.99,59.3)'",
            "sine=frequency=1000:duration=60:sample_rate=44100,volume='if(between(t,59,59.3),1,0)':eval=frame",
        ],
        "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac",
    );
    for format in [VideoFormat::Mp4, VideoFormat::Webm] {
        let (_kept, finished) = cut(&engine_of_everything(), &source, &recipe(format)).await.unwrap();
        let rate = finished.rate.per_second();
        let flash = frames(&finished.file).iter().position(|frame| frame.pixel(16, 9)[0] > 128).unwrap();
        let beep = sound(&finished.file).iter().position(|sample| sample.abs() > 0.05).unwrap();
        let (flash, beep) = (flash as f64 / rate, beep as f64 / 48_000.0);
        assert!((flash - 59.0).abs() <= 1.0 / rate + 0.01, "{format:?}: the flash is at {flash}");
        assert!((flash - beep).abs() <= 1.0 / rate, "{format:?}: flash at {flash}, beep at {beep}");
    }
}

#[tokio::test]
async fn audio_that_starts_later_than_the_video_keeps_its_offset() {
    let folder = tempfile::tempdir().unwrap();
    let beep = made(folder.path(), "beep.mkv", &["sine=frequency=1000:duration=1"], "-c:a flac");
    let silent = made(
        folder.path(),
        "silent.mkv",
        &[&boxed((96, 54), "10", 3)],
        "-c:v libx264 -preset ultrafast -pix_fmt yuv420p",
    );
    let later = format!("-itsoffset 1.5 -i {} -map 0 -map 1 -c copy", beep.display());
    let source = remade(&silent, "late.mkv", &later);
    let (_kept, finished) = cut(&engine(), &source, &recipe(VideoFormat::Mp4)).await.unwrap();
    let samples = sound(&finished.file);
    let beep = samples.iter().position(|sample| sample.abs() > 0.05).unwrap() as f64 / 48_000.0;
    assert!((beep - 1.5).abs() < 0.05, "{beep}");
    assert!((samples.len() as f64 / 48_000.0 - 3.0).abs() < 0.05, "the audio is as long as the video");
}

/// Waits until a file exists.
async fn appears(file: &Path) {
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_clip_interrupted_after_any_segment_has_the_same_result() {
    let sources = tempfile::tempdir().unwrap();
    // Three segments of 20, 20 and 10 frames.
    let source = made(
        sources.path(),
        "clip.mkv",
        &[&boxed((96, 54), "10", 5), "sine=duration=5"],
        "-c:v libx264 -preset ultrafast -crf 6 -pix_fmt yuv420p -c:a flac",
    );
    let (engine, tools) = (engine(), tools());
    for (format, extension) in [
        (VideoFormat::Webm, "webm"),
        (VideoFormat::Mov, "mov"),
        (VideoFormat::Mp4, "mp4"),
        (VideoFormat::Gif, "mkv"),
        (VideoFormat::PngSequence, "pngs"),
        (VideoFormat::Webp, "webps"),
    ] {
        let recipe = VideoRecipe {
            smoothing: 50,
            background: (format == VideoFormat::Mp4).then_some(Color::WHITE),
            ..recipe(format)
        };
        let (_kept, uninterrupted) = cut(&engine, &source, &recipe).await.unwrap();
        assert_eq!(uninterrupted.frames, 50);
        let folder = tempfile::tempdir().unwrap();
        let mut last = None;
        // After each segment for one format; the others differ only in their encoder.
        let stops: &[usize] = if format == VideoFormat::Webm { &[0, 1, 2, 3] } else { &[1, 3] };
        let segment = |at: usize| folder.path().join(format!("segment-{at:04}.{extension}"));
        let written = |at: usize| fs::metadata(segment(at)).and_then(|found| found.modified()).ok();
        for &stop in stops {
            let file = segment(stop);
            let before: Vec<_> = (0..3).map_while(written).collect();
            let progress = Mutex::new(0);
            let report = |percent: u8| {
                let mut last = progress.lock().unwrap();
                assert!(percent >= *last, "{percent} after {last}");
                *last = percent;
            };
            let work = video::remove(&engine, Tenant::default(), &tools, &source, folder.path(), &recipe, &report);
            tokio::select! {
                biased;
                () = appears(&file) => {}
                finished = work => last = Some(finished.unwrap()),
            }
            let after: Vec<_> = (0..before.len()).map_while(written).collect();
            assert_eq!(after, before, "{format:?}: a finished segment was written again");
        }
        let last: Finished = last.expect("after three segments the work finishes");
        assert_eq!((last.frames, &last.warnings), (uninterrupted.frames, &uninterrupted.warnings));
        let same = fs::read(&last.file).unwrap() == fs::read(&uninterrupted.file).unwrap();
        assert!(same, "{format:?}: the result differs");
    }
}
