//! Probes a clip: container, size, frame rate and duration, checked against the limits.

use super::container::{Container, SNIFF_BYTES};
use super::ffprobe::{self, seconds};
use super::frame_rate::{MIN_SAMPLING_RATE, Rate};
use super::input::Source;
use super::{Clip, MAX_BYTES, Tools, VideoError};
use crate::engine::{Engine, Tenant};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::io::AsyncReadExt;

/// Largest longer and shorter side of a frame.
const MAX_SIDES: (u32, u32) = (1920, 1080);
/// Maximum duration in seconds, and the tolerance for files that round up.
const MAX_SECONDS: f64 = 60.0;
const GRACE_SECONDS: f64 = 0.5;
/// Maximum frame rate, with the tolerance of averages.
const MAX_RATE: f64 = 60.5;
/// What a probe takes of the megapixels in flight: ffprobe decodes the first frame, in up to 512 MB.
const MEMORY_IN_PIXELS: usize = 16_000_000;

#[derive(Clone, Debug)]
pub(super) struct Probed {
    pub(super) clip: Clip,
    pub(super) source: Source,
}

/// Probes `file` in the turn of `tenant` and checks it against the limits.
pub(super) async fn probe(
    engine: &Engine,
    tenant: Tenant,
    tools: &Tools,
    file: &Path,
    deadline: Instant,
) -> Result<Probed, VideoError> {
    let _slot = engine.admit(tenant, MEMORY_IN_PIXELS, deadline).await?;
    let (file, container) = sniff(file).await?;
    let output = ffprobe::run(tools, &file, container).await?;
    let video = output.streams.iter().find(|stream| stream.is("video") && stream.disposition.attached_pic == 0);
    let audio_streams = || output.streams.iter().filter(|stream| stream.is("audio"));
    let Some(video) = video else {
        return Err(if audio_streams().next().is_some() { VideoError::NoPicture } else { VideoError::Unreadable });
    };
    let size = video.upright_size().ok_or(VideoError::Unreadable)?;
    if size.longest() > MAX_SIDES.0 || size.width.min(size.height) > MAX_SIDES.1 {
        return Err(too_large(format!("the frames are {size}, more than {}×{} pixels", MAX_SIDES.0, MAX_SIDES.1)));
    }
    let nominal = video.r_frame_rate.as_deref().and_then(Rate::parse);
    let average = video.avg_frame_rate.as_deref().and_then(Rate::parse).map(Rate::per_second);
    let declared = video.duration().or_else(|| seconds(output.format.duration.as_deref()));
    let measured = ffprobe::measure(tools, &file, container, video.index).await;
    let (measured, length, average) = match (declared, average.filter(|average| *average <= MAX_RATE), measured) {
        (Some(length), Some(average), measured) => (measured.ok(), length, average),
        // Streaming recorders omit the duration; the declared rate is then a guess.
        (_, _, Ok(measured)) => (Some(measured), measured.seconds, measured.average),
        (_, _, Err(error)) => return Err(error),
    };
    if average > MAX_RATE {
        return Err(too_large(format!("there are {average:.1} frames a second, more than 60")));
    }
    // A header may declare the recorder's rate though many frames are missing.
    let is_present = |rate: &Rate| measured.is_none_or(|measured| measured.average > 0.9 * rate.per_second());
    let known = Rate::regular(average, nominal);
    let is_regular = known.as_ref().is_some_and(is_present);
    let is_fast = |rate: &Rate| rate.per_second() >= MIN_SAMPLING_RATE;
    let rate = known.filter(|rate| is_regular || is_fast(rate)).unwrap_or_else(|| Rate::sampling(average));
    // A header may declare less than is decoded, and the quota is reserved by the length.
    let decoded = measured.map_or(length, |measured| measured.end - output.format.start());
    let length = if decoded - length > tolerance(length, rate.per_second()) { decoded } else { length };
    let frames = (length * rate.per_second()).round().max(1.0) as u64;
    if length >= MAX_SECONDS + GRACE_SECONDS || frames > max_frames(rate) {
        return Err(too_large(format!("it lasts {length:.1} seconds, more than 60")));
    }
    let audio = audio_streams().find(|stream| stream.disposition.default == 1).or_else(|| audio_streams().next());
    let clip = Clip { size, rate, seconds: rate.length(frames), has_audio: audio.is_some() };
    let source = Source {
        container,
        video_stream: video.index,
        audio_stream: audio.map(|stream| stream.index),
        // Without the last frame's duration the filter `fps` drops that frame.
        is_sampled: !is_regular && measured.is_some_and(|measured| measured.has_last_duration),
        has_alpha: video.has_alpha() || video.alpha_decoder().is_some(),
        alpha_decoder: video.alpha_decoder(),
        colors: video.color_coding(),
        file,
    };
    Ok(Probed { clip, source })
}

/// Seconds by which the probed and the decoded length of a clip of `seconds` may differ: durations are rounded and may
/// exclude the last frame.
pub(super) fn tolerance(seconds: f64, per_second: f64) -> f64 {
    (2.5 / per_second).max(0.02 * seconds)
}

/// Maximum number of frames of a clip at this rate, independent of its metadata.
pub(super) fn max_frames(rate: Rate) -> u64 {
    ((MAX_SECONDS + GRACE_SECONDS) * rate.per_second()) as u64
}

fn too_large(what: String) -> VideoError {
    VideoError::TooLarge(what)
}

async fn sniff(file: &Path) -> Result<(PathBuf, Container), VideoError> {
    let failed = |source| VideoError::Io { what: "the clip could not be read".to_owned(), source };
    let path = std::path::absolute(file).map_err(failed)?;
    let mut opened = tokio::fs::File::open(&path).await.map_err(failed)?;
    let bytes = opened.metadata().await.map_err(failed)?.len();
    if bytes > MAX_BYTES {
        return Err(too_large(format!("the file has {bytes} bytes, more than {MAX_BYTES}")));
    }
    let mut head = Vec::new();
    (&mut opened).take(SNIFF_BYTES as u64).read_to_end(&mut head).await.map_err(failed)?;
    let container = Container::detect(&head)?;
    Ok((path, container))
}
