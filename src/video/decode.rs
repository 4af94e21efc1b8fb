//! Decodes a clip with ffmpeg: upright, opaque RGBA frames at a constant rate, through a pipe.
//!
//! The rate is made constant after all filters (`-fps_mode cfr`): a clip that changes its frame size, which makes
//! ffmpeg rebuild its filters, keeps its timing. Time zero is the start of the file, where its sound begins; a video
//! stream that starts later is extended backwards to it. Frames at irregular times are sampled first (filter `fps`), by
//! filters that are not rebuilt: at the end of such a clip ffmpeg 5 repeats the last frame as often as earlier ones.

use super::input::{ColorCoding, Source};
use super::probe::{Probed, max_frames, tolerance};
use super::sandbox::ToolProcess;
use super::tool_limits::{Files, ResourceLimits};
use super::{Clip, Tools, VideoError};
use crate::image::{BufferPool, Frame};
use std::ffi::OsString;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::ChildStdout;

/// Time without output after which a decoder counts as stuck; a working one reaches its CPU limit earlier.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Scaler flags for full chroma and exact rounding: the default is off by up to 3 of 255. Four slices change no bit.
pub(super) const EXACT: &str = "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp:threads=4";

#[derive(Debug)]
pub(super) struct Decoder {
    process: ToolProcess,
    output: Option<ChildStdout>,
    buffers: BufferPool,
    clip: Clip,
    decoded_frames: u64,
}

impl Decoder {
    /// Starts decoding. Fails with [`VideoError::Io`].
    pub(super) fn start(tools: &Tools, probed: &Probed, buffers: &BufferPool) -> Result<Self, VideoError> {
        let Probed { clip, source } = probed;
        // Processor time: a second per frame, ten times what the costliest codecs take at 1920×1080.
        let limits = ResourceLimits { cpu: 120 + max_frames(clip.rate), memory: 4 << 30, file: 0 };
        let files = Files { input: Some(&source.file), folder: None };
        let mut process = ToolProcess::start(&tools.ffmpeg, arguments(clip, source), files, limits)?;
        let output = process.output();
        Ok(Self { process, output, buffers: buffers.clone(), clip: clip.clone(), decoded_frames: 0 })
    }

    /// The next frame, opaque; `None` after the last. Fails with [`VideoError::TooLarge`] when the clip exceeds its
    /// probed length or the limit on frames, [`VideoError::Exhausted`], [`VideoError::Io`].
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, VideoError> {
        let Some(output) = &mut self.output else { return Ok(None) };
        // Filled by the decoder, or dropped.
        let mut pixels = self.buffers.take_for_overwrite(self.clip.size.area() * 4);
        let read = tokio::time::timeout(TIMEOUT, filled(output, &mut pixels))
            .await
            .map_err(|_| VideoError::Exhausted("the decoder stalled".to_owned()))?
            .map_err(|source| VideoError::Io { what: "the decoder's output could not be read".to_owned(), source })?;
        if !read {
            self.output = None;
            return Ok(None);
        }
        self.decoded_frames += 1;
        let length = self.clip.rate.length(self.decoded_frames);
        if self.decoded_frames > max_frames(self.clip.rate) {
            return Err(VideoError::TooLarge("it lasts more than 60 seconds".to_owned()));
        }
        // The reserved quota covers the probed length only.
        if length - self.clip.seconds > tolerance(self.clip.seconds, self.clip.rate.per_second()) {
            return Err(VideoError::TooLarge(format!("it lasts longer than its {:.2} seconds", self.clip.seconds)));
        }
        Ok(Some(Frame::new(self.clip.size, pixels)))
    }

    /// Ends the decoder after the last frame; returns warnings. Fails with [`VideoError::Unreadable`] when there was no
    /// frame, [`VideoError::Exhausted`], [`VideoError::Tool`] when it was killed or lacked threads or memory.
    pub(super) async fn finish(self) -> Result<Vec<String>, VideoError> {
        let Self { process, output, decoded_frames, clip, .. } = self;
        drop(output);
        let exit = process.wait(TIMEOUT).await?;
        // The decoder's own failure may be the clip's fault. An outside one is not: no truncated clip is billed.
        if !exit.status.success() && (exit.is_killed() || matches!(exit.failure(), VideoError::Exhausted(_))) {
            return Err(exit.failure());
        }
        // A lack of threads or memory is no property of the clip.
        let lacking = ["Resource temporarily unavailable", "Cannot allocate memory"];
        if decoded_frames == 0 && lacking.iter().any(|message| exit.messages.contains(message)) {
            return Err(exit.failure());
        }
        if decoded_frames == 0 {
            tracing::debug!(messages = exit.messages, "no frame of a clip could be decoded");
            return Err(VideoError::Unreadable);
        }
        let length = clip.rate.length(decoded_frames);
        let is_short = clip.seconds - length > tolerance(clip.seconds, clip.rate.per_second());
        let mut warnings = Vec::new();
        if is_short {
            warnings.push(format!(
                "the clip is cut off or damaged: {length:.2} of {:.2} seconds could be read",
                clip.seconds
            ));
        } else if !exit.status.success() || !exit.messages.trim().is_empty() {
            warnings.push("parts of the clip are damaged; the result contains what could be read".to_owned());
        }
        Ok(warnings)
    }
}

/// Fills `buffer`; `false` at the end of `source`. An incomplete last frame is dropped.
async fn filled(source: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> io::Result<bool> {
    match source.read_exact(buffer).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn arguments(clip: &Clip, source: &Source) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["-nostdin", "-hide_banner", "-v", "error"].map(OsString::from).into();
    // Each decoder thread holds a frame in memory; with eight the decoder is no bottleneck.
    arguments.extend(["-threads", "8"].map(OsString::from));
    if source.is_sampled {
        // Filters rebuilt for a new frame size would drop the frame that `fps` holds; the scaler adapts anyway.
        arguments.extend(["-reinit_filter", "0"].map(OsString::from));
    }
    arguments.extend(source.arguments());
    let stream = format!("0:{}", source.video_stream);
    let (filters, rate) = (filters(clip, source), clip.rate.to_string());
    let rest = [
        "-map",
        &stream,
        "-vf",
        &filters,
        "-r",
        &rate,
        "-fps_mode",
        "cfr",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgba",
        "pipe:1",
    ];
    arguments.extend(rest.map(OsString::from));
    arguments
}

fn filters(clip: &Clip, source: &Source) -> String {
    // With `pass`, a last frame shorter than a frame of the result is kept.
    let sampled = if source.is_sampled { format!(",fps={}:eof_action=pass", clip.rate) } else { String::new() };
    format!("{}{sampled}", color_filters(clip, source))
}

/// Filters to the clip's size and to RGBA with the clip's alpha.
fn color_filters(clip: &Clip, source: &Source) -> String {
    let size = format!("w={}:h={}", clip.size.width, clip.size.height);
    let matrix = match source.colors {
        ColorCoding::Tagged => "",
        ColorCoding::Untagged { is_high_definition: true } => ":in_color_matrix=bt709",
        ColorCoding::Untagged { is_high_definition: false } => ":in_color_matrix=bt601",
        ColorCoding::Hdr => {
            return format!(
                "zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=mobius:desat=0,\
                 zscale=t=bt709:m=bt709:r=tv,format=yuv444p,scale={size}:flags={EXACT}:in_color_matrix=bt709,format=rgba"
            );
        }
    };
    format!("scale={size}:flags={EXACT}{matrix},format=rgba")
}
