//! Painted frames become segments: files of some seconds each, which stand alone.
//!
//! Where ffmpeg has the encoder, each segment has one of its own that is fed through a pipe, with fixed threads, so that
//! the same frames give the same bytes. PNG and WebP are written by our own codecs, frame by frame, see [`still`].
//!
//! Colours: sRGB values are stored as BT.709 with limited range and tagged so (primaries, transfer, matrix), without a
//! change of the curve: cameras' clips hold such values, and players show them as they are.
//!
//! [`still`]: super::still

use super::decode::EXACT;
use super::paint::has_alpha;
use super::rate::Rate;
use super::sandbox::{Allowance, Tool};
use super::{Tools, VideoError};
use crate::image::Size;
use crate::recipe::{VideoFormat, VideoRecipe};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;

/// An encoder that takes nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the frames of a segment are written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// VP9, with alpha or without.
    Vp9 {
        /// Whether it lets something through.
        alpha: bool,
    },
    /// `ProRes` 4444, with alpha or without.
    ProRes {
        /// Whether it lets something through.
        alpha: bool,
    },
    /// H.264.
    H264,
    /// Lossless, for a last pass that has to see the whole clip first.
    Ffv1,
    /// Our own PNG.
    Png,
    /// Our own WebP.
    WebP,
}

impl Codec {
    pub(super) fn of(recipe: &VideoRecipe) -> Self {
        let alpha = has_alpha(recipe);
        match recipe.format {
            VideoFormat::Webm => Self::Vp9 { alpha },
            VideoFormat::Mov => Self::ProRes { alpha },
            VideoFormat::Mp4 => Self::H264,
            VideoFormat::Gif => Self::Ffv1,
            VideoFormat::PngSequence => Self::Png,
            VideoFormat::Webp => Self::WebP,
        }
    }

    /// The extension of a segment, which is also its container.
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Vp9 { .. } => "webm",
            Self::ProRes { .. } => "mov",
            Self::H264 => "mp4",
            Self::Ffv1 => "mkv",
            Self::Png => "pngs",
            Self::WebP => "webps",
        }
    }

    /// The muxer's name.
    const fn container(self) -> &'static str {
        match self {
            Self::Vp9 { .. } => "webm",
            Self::ProRes { .. } => "mov",
            Self::H264 => "mp4",
            Self::Ffv1 => "matroska",
            Self::Png | Self::WebP => "data",
        }
    }

    /// Whether frames are written by us.
    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Png | Self::WebP)
    }
}

/// A segment that is being written.
#[derive(Debug)]
pub(super) enum Encoder {
    /// By ffmpeg.
    Tool {
        /// The process.
        tool: Tool,
        /// Where it reads frames.
        input: ChildStdin,
    },
    /// By us.
    Records(tokio::io::BufWriter<tokio::fs::File>),
}

impl Encoder {
    /// Begins a segment of at most `frames` frames in `file`, which is replaced.
    ///
    /// # Errors
    /// [`VideoError::Io`].
    pub(super) async fn start(
        tools: &Tools,
        codec: Codec,
        size: Size,
        rate: Rate,
        frames: u64,
        file: &Path,
    ) -> Result<Self, VideoError> {
        // An encoder that outlived a killed daemon may still write to a file of this name: it keeps that one.
        match tokio::fs::remove_file(file).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if codec.is_ours() {
            let file = tokio::fs::File::create(file).await.map_err(failed)?;
            return Ok(Self::Records(tokio::io::BufWriter::new(file)));
        }
        let (folder, name) = (file.parent(), file.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let allowance = Allowance { cpu: 60 + 20 * frames, memory: 6 << 30, file: 8 << 30 };
        let mut tool = Tool::start(&tools.ffmpeg, arguments(codec, size, rate, &name), folder, allowance)?;
        match tool.input() {
            Some(input) => Ok(Self::Tool { tool, input }),
            None => Err(VideoError::Tool("ffmpeg has no input".to_owned())),
        }
    }

    /// Writes one frame: packed RGBA, or a record of ours.
    ///
    /// # Errors
    /// [`VideoError::Io`] when the disk is full, [`VideoError::Tool`], [`VideoError::Exhausted`].
    pub(super) async fn write(self, bytes: &[u8]) -> Result<Self, VideoError> {
        match self {
            Self::Tool { tool, mut input } => {
                match tokio::time::timeout(PATIENCE, input.write_all(bytes)).await {
                    Ok(Ok(())) => Ok(Self::Tool { tool, input }),
                    // It is gone; what it said is worth more than that it does not listen.
                    Ok(Err(error)) => {
                        drop(input);
                        let ended = tool.ended(PATIENCE).await?;
                        Err(if ended.status.success() { failed(error) } else { encoder_failure(&ended) })
                    }
                    Err(_) => Err(VideoError::Exhausted("encoding stood still".to_owned())),
                }
            }
            Self::Records(mut file) => {
                let len = u32::try_from(bytes.len()).map_err(|error| failed(io::Error::other(error)))?;
                file.write_all(&len.to_le_bytes()).await.map_err(failed)?;
                file.write_all(bytes).await.map_err(failed)?;
                Ok(Self::Records(file))
            }
        }
    }

    /// After the last frame: all of it is written.
    ///
    /// # Errors
    /// As [`Encoder::write`].
    pub(super) async fn finish(self) -> Result<(), VideoError> {
        match self {
            Self::Tool { tool, mut input } => {
                // A pipe is not buffered here, so there is nothing to lose.
                let _closed = input.shutdown().await;
                drop(input);
                let ended = tool.ended(PATIENCE).await?;
                if ended.status.success() { Ok(()) } else { Err(encoder_failure(&ended)) }
            }
            Self::Records(mut file) => file.flush().await.map_err(failed),
        }
    }
}

/// ffmpeg tells of a full disk in words only.
pub(super) fn encoder_failure(ended: &super::sandbox::Ended) -> VideoError {
    let full = ["No space left on device", "Disk quota exceeded"];
    if full.iter().any(|words| ended.messages.contains(words)) {
        return failed(io::Error::from(io::ErrorKind::StorageFull));
    }
    ended.failure()
}

fn failed(source: io::Error) -> VideoError {
    VideoError::Io { what: "the result could not be written".to_owned(), source }
}

/// Options that every file of ours is written with: no dates, no versions, no random numbers.
pub(super) const PLAIN: [&str; 6] = ["-flags", "+bitexact", "-fflags", "+bitexact", "-map_metadata", "-1"];

/// The options of the video stream of `codec`, without its container.
fn arguments(codec: Codec, size: Size, rate: Rate, name: &str) -> Vec<String> {
    let (dimensions, rate_text) = (format!("{}x{}", size.width, size.height), rate.to_string());
    let mut arguments: Vec<String> = [
        "-hide_banner",
        "-v",
        "error",
        "-protocol_whitelist",
        super::sandbox::PROTOCOLS,
        "-f",
        "rawvideo",
        "-pixel_format",
        "rgba",
        "-video_size",
        &dimensions,
        "-framerate",
        &rate_text,
        "-i",
        "pipe:0",
        "-an",
    ]
    .map(str::to_owned)
    .into();
    let mut add = |more: &[&str]| arguments.extend(more.iter().map(|&word| word.to_owned()));
    // Tiles are at least 256 columns wide; more of them than four gain nothing here.
    let tiles = if size.width >= 1024 {
        "2"
    } else if size.width >= 512 {
        "1"
    } else {
        "0"
    };
    match codec {
        Codec::Vp9 { alpha } => {
            let pixels = if alpha { "yuva420p" } else { "yuv420p" };
            add(&["-vf", &converted(pixels, ""), "-c:v", "libvpx-vp9", "-crf", "24", "-b:v", "0"]);
            add(&["-deadline", "realtime", "-cpu-used", "6", "-row-mt", "0", "-tile-columns", tiles, "-threads", "4"]);
            // Alpha is a second stream, whose frames go with the picture's one by one: no frames that are not shown.
            add(&["-auto-alt-ref", "0", "-lag-in-frames", "0"]);
        }
        Codec::ProRes { alpha } => {
            let pixels = if alpha { "yuva444p10le" } else { "yuv444p10le" };
            add(&["-vf", &converted(pixels, ""), "-c:v", "prores_ks", "-profile:v", "4444", "-vendor", "apl0"]);
            add(&["-alpha_bits", if alpha { "16" } else { "0" }, "-threads", "4", "-movflags", "+write_colr"]);
        }
        Codec::H264 => {
            // Its chroma has half the rows and columns, so both must be even: the last ones are shown twice.
            let (right, bottom) = (size.width % 2, size.height % 2);
            let even = match right + bottom {
                0 => String::new(),
                1.. => format!("pad=w=iw+{right}:h=ih+{bottom},fillborders=right={right}:bottom={bottom}:mode=smear,"),
            };
            add(&["-vf", &converted("yuv420p", &even), "-c:v", "libx264", "-preset", "veryfast", "-crf", "18"]);
            add(&["-profile:v", "high", "-threads", "4"]);
        }
        Codec::Ffv1 => add(&["-c:v", "ffv1", "-level", "3", "-slices", "4", "-pix_fmt", "bgra", "-threads", "4"]),
        Codec::Png | Codec::WebP => {}
    }
    if codec != Codec::Ffv1 {
        add(&["-color_range", "tv", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"]);
    }
    if matches!(codec, Codec::ProRes { .. } | Codec::H264) {
        add(&["-video_track_timescale", &rate.timescale().to_string()]);
    }
    add(&PLAIN);
    add(&["-f", codec.container(), "-y", &format!("file:{name}")]);
    arguments
}

/// Filters from RGBA to `pixels` in BT.709; `first` comes before.
fn converted(pixels: &str, first: &str) -> String {
    format!(
        "{first}scale=out_color_matrix=bt709:out_range=tv:flags={EXACT},format={pixels},\
         setparams=range=tv:colorspace=bt709:color_primaries=bt709:color_trc=bt709"
    )
}
