//! Frames out of a clip: ffmpeg decodes, turns, resamples to the clip's rate, and hands packed RGBA through a pipe.
//!
//! The rate is made constant after all filters (`-fps_mode cfr`), so a clip that changes its size on the way, which
//! makes ffmpeg build its filters anew, keeps its time. The first frame lies at the beginning of the file, where its
//! sound begins: a picture that begins later is shown from there on.

use super::probe::{Colours, Probed, Source, most_frames};
use super::sandbox::{Allowance, Tool};
use super::{Clip, Tools, VideoError};
use crate::image::{BufferPool, Frame};
use std::ffi::OsString;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::ChildStdout;

/// A decoder that shows nothing for so long is stuck; it has all of a clip's limit on processor time before.
const PATIENCE: Duration = Duration::from_secs(600);

/// Full chroma and exact rounding: the quick way is off by up to 3 of 255. In four slices, which changes no bit.
pub(super) const EXACT: &str = "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp:threads=4";

/// The frames of a clip, one after the other.
#[derive(Debug)]
pub(super) struct Decoder {
    tool: Tool,
    output: Option<ChildStdout>,
    buffers: BufferPool,
    clip: Clip,
    given: u64,
}

impl Decoder {
    /// Starts to decode.
    ///
    /// # Errors
    /// [`VideoError::Io`].
    pub(super) fn start(tools: &Tools, probed: &Probed, buffers: &BufferPool) -> Result<Self, VideoError> {
        let Probed { clip, source } = probed;
        // A second of processor time for a frame: ten times what the costliest codecs take for one of 1920×1080.
        let allowance = Allowance { cpu: 120 + most_frames(clip.rate), memory: 4 << 30, file: 0 };
        let mut tool = Tool::start(&tools.ffmpeg, arguments(clip, source), None, allowance)?;
        let output = tool.output();
        Ok(Self { tool, output, buffers: buffers.clone(), clip: clip.clone(), given: 0 })
    }

    /// The next frame, opaque; nothing after the last.
    ///
    /// # Errors
    /// [`VideoError::TooLarge`] when there are more than a clip may have, [`VideoError::Exhausted`],
    /// [`VideoError::Io`].
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, VideoError> {
        let Some(output) = &mut self.output else { return Ok(None) };
        let mut pixels = self.buffers.take(self.clip.size.area() * 4);
        let read = tokio::time::timeout(PATIENCE, filled(output, &mut pixels))
            .await
            .map_err(|_| VideoError::Exhausted("decoding stood still".to_owned()))?
            .map_err(|source| VideoError::Io { what: "the decoder could not be heard".to_owned(), source })?;
        if !read {
            self.output = None;
            return Ok(None);
        }
        self.given += 1;
        if self.given > most_frames(self.clip.rate) {
            return Err(VideoError::TooLarge("it lasts more than 60 seconds".to_owned()));
        }
        Ok(Some(Frame::new(self.clip.size, pixels)))
    }

    /// After the last frame: what is to be said about the clip.
    ///
    /// # Errors
    /// [`VideoError::Unreadable`] when there was no frame at all, [`VideoError::Exhausted`].
    pub(super) async fn finish(self) -> Result<Vec<String>, VideoError> {
        let Self { tool, output, given, clip, .. } = self;
        drop(output);
        let ended = tool.ended(PATIENCE).await?;
        if let Err(error @ VideoError::Exhausted(_)) =
            if ended.status.success() { Ok(()) } else { Err(ended.failure()) }
        {
            return Err(error);
        }
        if given == 0 {
            tracing::debug!(said = ended.messages, "nothing of a clip could be decoded");
            return Err(VideoError::Unreadable);
        }
        let length = clip.rate.length(given);
        // Lengths are rounded, and a last frame may be counted or not.
        let is_short = clip.seconds - length > (2.5 / clip.rate.per_second()).max(0.02 * clip.seconds);
        let mut warnings = Vec::new();
        if is_short {
            warnings.push(format!(
                "the clip is cut off or damaged: {length:.2} of {:.2} seconds could be read",
                clip.seconds
            ));
        } else if !ended.status.success() || !ended.messages.trim().is_empty() {
            warnings.push("parts of the clip are damaged; what could be read of it is there".to_owned());
        }
        Ok(warnings)
    }
}

/// Whether `buffer` was filled; what is left of a last incomplete frame is none.
async fn filled(source: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> io::Result<bool> {
    match source.read_exact(buffer).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn arguments(clip: &Clip, source: &Source) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["-nostdin", "-hide_banner", "-v", "error"].map(OsString::from).into();
    // Frames in flight in the codec are memory; eight are enough for it to be no bottleneck.
    arguments.extend(["-threads", "8"].map(OsString::from));
    arguments.extend(source.arguments());
    let stream = format!("0:{}", source.picture);
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
    let size = format!("w={}:h={}", clip.size.width, clip.size.height);
    // What shows through is dropped, not blackened: a cutout of a cutout has no use for it.
    let opaque = if source.is_transparent { ",format=rgb24,format=rgba" } else { ",format=rgba" };
    let matrix = match source.colours {
        Colours::Told => "",
        Colours::Untold { is_high_definition: true } => ":in_color_matrix=bt709",
        Colours::Untold { is_high_definition: false } => ":in_color_matrix=bt601",
        Colours::Bright => {
            return format!(
                "zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=mobius:desat=0,\
                 zscale=t=bt709:m=bt709:r=tv,format=yuv444p,scale={size}:flags={EXACT}:in_color_matrix=bt709{opaque}"
            );
        }
    };
    format!("scale={size}:flags={EXACT}{matrix}{opaque}")
}
