//! Encodes output frames into segments: independent files of two seconds each.
//!
//! VP9, `ProRes`, H.264 and FFV1 are encoded by one ffmpeg process per segment, fed through a pipe, with a fixed number
//! of threads, so equal frames give equal bytes. PNG and WebP frames come from our own codecs, see
//! [`image_sequence`](super::image_sequence).
//!
//! Colours: sRGB values are stored as BT.709 with limited range and tagged so (primaries, transfer, matrix), without a
//! change of the transfer curve: clips of cameras contain such values, and players show them unchanged.

use super::composite::has_alpha;
use super::decode::EXACT;
use super::frame_rate::Rate;
use super::sandbox::{Exit, ToolProcess};
use super::tool_limits::{Files, ResourceLimits};
use super::{Tools, VideoError};
use crate::image::Size;
use crate::recipe::{VideoFormat, VideoRecipe};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;

/// Time without accepted input after which an encoder counts as stuck.
const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// VP9, with or without alpha.
    Vp9 {
        alpha: bool,
    },
    /// `ProRes` 4444, with or without alpha.
    ProRes {
        alpha: bool,
    },
    H264,
    /// Lossless, as an intermediate for GIF, whose palette needs a pass over the whole clip.
    Ffv1,
    /// PNG by our codec.
    Png,
    /// WebP by our codec.
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

    /// File extension of a segment; also selects the container.
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

    const fn container(self) -> &'static str {
        match self {
            Self::Vp9 { .. } => "webm",
            Self::ProRes { .. } => "mov",
            Self::H264 => "mp4",
            Self::Ffv1 => "matroska",
            Self::Png | Self::WebP => "data",
        }
    }

    /// Whether frames are encoded by our own codecs.
    pub(super) const fn is_builtin(self) -> bool {
        matches!(self, Self::Png | Self::WebP)
    }
}

/// The writer of a segment.
#[derive(Debug)]
pub(super) enum Encoder {
    Ffmpeg {
        process: ToolProcess,
        /// Standard input of the process.
        input: ChildStdin,
    },
    /// A file of length-prefixed frames.
    Records(tokio::io::BufWriter<tokio::fs::File>),
}

impl Encoder {
    /// Starts a segment of at most `frames` frames in `file`, which is replaced. Fails with [`VideoError::Io`].
    pub(super) async fn start(
        tools: &Tools,
        codec: Codec,
        size: Size,
        rate: Rate,
        frames: u64,
        file: &Path,
    ) -> Result<Self, VideoError> {
        // An encoder left by a killed daemon may still write to a file of this name: unlinking separates the two.
        match tokio::fs::remove_file(file).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if codec.is_builtin() {
            let file = tokio::fs::File::create(file).await.map_err(failed)?;
            return Ok(Self::Records(tokio::io::BufWriter::new(file)));
        }
        let (folder, name) = (file.parent(), file.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let limits = ResourceLimits { cpu: 60 + 20 * frames, memory: 6 << 30, file: 8 << 30 };
        let files = Files { input: None, folder };
        let mut process = ToolProcess::start(&tools.ffmpeg, arguments(codec, size, rate, &name), files, limits)?;
        match process.input() {
            Some(input) => Ok(Self::Ffmpeg { process, input }),
            None => Err(VideoError::Tool("ffmpeg has no input".to_owned())),
        }
    }

    /// Writes one frame: packed RGBA, or an encoded frame for a file of records. Fails with [`VideoError::Io`] when the
    /// disk is full, [`VideoError::Tool`], [`VideoError::Exhausted`].
    pub(super) async fn write(self, bytes: &[u8]) -> Result<Self, VideoError> {
        match self {
            Self::Ffmpeg { process, mut input } => {
                match tokio::time::timeout(TIMEOUT, input.write_all(bytes)).await {
                    Ok(Ok(())) => Ok(Self::Ffmpeg { process, input }),
                    // The process has exited: its messages are more specific than the broken pipe.
                    Ok(Err(error)) => {
                        drop(input);
                        let exit = process.wait(TIMEOUT).await?;
                        Err(if exit.status.success() { failed(error) } else { encoder_failure(&exit) })
                    }
                    Err(_) => Err(VideoError::Exhausted("the encoder stalled".to_owned())),
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

    /// Completes the file after the last frame.
    ///
    /// # Errors
    /// As [`Encoder::write`].
    pub(super) async fn finish(self) -> Result<(), VideoError> {
        match self {
            Self::Ffmpeg { process, mut input } => {
                // The pipe has no buffer on our side to flush.
                let _closed = input.shutdown().await;
                drop(input);
                let exit = process.wait(TIMEOUT).await?;
                written(&exit)
            }
            Self::Records(mut file) => file.flush().await.map_err(failed),
        }
    }
}

/// Checks that a process has completed its file. ffmpeg 5 exits with success when it could not write the last bytes;
/// only its messages report that.
///
/// # Errors
/// As [`Encoder::write`].
pub(super) fn written(exit: &Exit) -> Result<(), VideoError> {
    let is_cut_off = ["Error writing trailer", "Error closing file"].iter().any(|said| exit.messages.contains(said));
    if exit.status.success() && !is_cut_off { Ok(()) } else { Err(encoder_failure(exit)) }
}

/// The error of a failed encoder. A full disk is reported in ffmpeg's messages only.
fn encoder_failure(exit: &Exit) -> VideoError {
    let disk_full = ["No space left on device", "Disk quota exceeded"];
    if disk_full.iter().any(|message| exit.messages.contains(message)) {
        return failed(io::Error::from(io::ErrorKind::StorageFull));
    }
    exit.failure()
}

fn failed(source: io::Error) -> VideoError {
    VideoError::Io { what: "the result could not be written".to_owned(), source }
}

/// Options for reproducible files: no dates, versions or random numbers.
pub(super) const REPRODUCIBLE: [&str; 6] = ["-flags", "+bitexact", "-fflags", "+bitexact", "-map_metadata", "-1"];

/// ffmpeg's arguments for encoding raw RGBA from standard input to the file `name`.
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
    // log2 of the tile columns: tiles are at least 256 columns wide, and more than four gain nothing here.
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
            add(&["-vf", &to_bt709(pixels, ""), "-c:v", "libvpx-vp9", "-crf", "24", "-b:v", "0"]);
            add(&["-deadline", "realtime", "-cpu-used", "6", "-row-mt", "0", "-tile-columns", tiles, "-threads", "4"]);
            // Alpha is a second stream with one frame per picture, so hidden (alternate reference) frames are disabled.
            add(&["-auto-alt-ref", "0", "-lag-in-frames", "0"]);
        }
        Codec::ProRes { alpha } => {
            let pixels = if alpha { "yuva444p10le" } else { "yuv444p10le" };
            add(&["-vf", &to_bt709(pixels, ""), "-c:v", "prores_ks", "-profile:v", "4444", "-vendor", "apl0"]);
            add(&["-alpha_bits", if alpha { "16" } else { "0" }, "-threads", "4", "-movflags", "+write_colr"]);
        }
        Codec::H264 => {
            // 4:2:0 chroma needs even sides: an odd last row or column is duplicated.
            let (right, bottom) = (size.width % 2, size.height % 2);
            let even = match right + bottom {
                0 => String::new(),
                1.. => format!("pad=w=iw+{right}:h=ih+{bottom},fillborders=right={right}:bottom={bottom}:mode=smear,"),
            };
            add(&["-vf", &to_bt709("yuv420p", &even), "-c:v", "libx264", "-preset", "veryfast", "-crf", "18"]);
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
    add(&REPRODUCIBLE);
    add(&["-f", codec.container(), "-y", &format!("file:{name}")]);
    arguments
}

/// Filters from RGBA to the pixel format `pixels` in BT.709, after the filters `first`.
fn to_bt709(pixels: &str, first: &str) -> String {
    format!(
        "{first}scale=out_color_matrix=bt709:out_range=tv:flags={EXACT},format={pixels},\
         setparams=range=tv:colorspace=bt709:color_primaries=bt709:color_trc=bt709"
    )
}
