//! Finished segments become the result.
//!
//! Pictures are copied as they are, with the sound of the clip beside them where there is room for it: cut or lengthened
//! with silence to the picture's length, its start at the picture's start. GIF takes a pass over the whole clip for its
//! colours and another one to write it.

use super::decode::EXACT;
use super::encode::{Codec, PLAIN, encoder_failure};
use super::probe::Source;
use super::rate::Rate;
use super::sandbox::{Allowance, PROTOCOLS, Tool};
use super::segments::{Segments, blocking};
use super::{Tools, VideoError, still};
use crate::image::Size;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The last pass over a minute of frames, in each of them.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Disposed or kept, a GIF shows no more than a frame in two hundredths of a second.
pub(super) const GIF_FASTEST: Rate = Rate { frames: 50, seconds: 1 };

/// What is joined.
#[derive(Debug)]
pub(super) struct Joint<'a> {
    pub(super) tools: &'a Tools,
    pub(super) segments: &'a Segments,
    pub(super) codec: Codec,
    pub(super) size: Size,
    pub(super) rate: Rate,
    /// Whether it lets something through.
    pub(super) alpha: bool,
    /// Where the sound comes from, where it is wanted.
    pub(super) sound: Option<&'a Source>,
}

impl Joint<'_> {
    /// Writes the result into the folder of the segments. Gives its place, and what is to be said about it.
    ///
    /// # Errors
    /// [`VideoError::Io`], [`VideoError::Tool`], [`VideoError::Exhausted`].
    pub(super) async fn join(&self) -> Result<(PathBuf, Vec<String>), VideoError> {
        let mut warnings = Vec::new();
        let name = match self.codec {
            Codec::Vp9 { .. } => "result.webm",
            Codec::ProRes { .. } => "result.mov",
            Codec::H264 => "result.mp4",
            Codec::Ffv1 => "result.gif",
            Codec::Png => "result.zip",
            Codec::WebP => "result.webp",
        };
        let (file, part) = (self.segments.file(name), self.segments.file(&format!("part-{name}")));
        match self.codec {
            Codec::Png => {
                let (files, to) = (self.segments.files.clone(), part.clone());
                blocking(move || still::zipped(&files, &to)).await?;
            }
            Codec::WebP => {
                let (files, to, size, alpha) = (self.segments.files.clone(), part.clone(), self.size, self.alpha);
                blocking(move || still::animation(&files, size, alpha, &to)).await?;
            }
            Codec::Ffv1 => self.gif(&part).await?,
            Codec::Vp9 { .. } | Codec::ProRes { .. } | Codec::H264 => {
                match (self.copied(&part, self.sound).await, self.sound) {
                    (Ok(()), _) => {}
                    // Sound that cannot be read is no reason to give nothing; a full disk is, and shows again.
                    (Err(VideoError::Tool(said)), Some(_)) => {
                        tracing::debug!(said, "the sound of a clip was left out");
                        self.copied(&part, None).await?;
                        warnings.push("the sound could not be read; the result is silent".to_owned());
                    }
                    (Err(error), _) => return Err(error),
                }
            }
        }
        let to = file.clone();
        blocking(move || {
            std::fs::File::open(&part)?.sync_all()?;
            std::fs::rename(&part, &to)
        })
        .await?;
        Ok((file, warnings))
    }

    /// The list of the segments, each with its exact length: what containers say is rounded, and would add up.
    async fn listed(&self) -> Result<OsString, VideoError> {
        let mut list = "ffconcat version 1.0\n".to_owned();
        let mut before = 0;
        for (file, frames) in self.segments.files.iter().zip(&self.segments.frames) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let micros = self.rate.micros(before + frames) - self.rate.micros(before);
            before += frames;
            let written = writeln!(list, "file '{name}'\nduration {}.{:06}", micros / 1_000_000, micros % 1_000_000);
            debug_assert!(written.is_ok(), "a string takes everything");
        }
        let path = self.segments.file("part-list");
        blocking(move || std::fs::write(path, list)).await?;
        Ok("file:part-list".into())
    }

    async fn copied(&self, to: &Path, sound: Option<&Source>) -> Result<(), VideoError> {
        let mut arguments = words(&["-nostdin", "-hide_banner", "-v", "error"]);
        arguments.extend(words(&["-protocol_whitelist", PROTOCOLS, "-f", "concat", "-i"]));
        arguments.push(self.listed().await?);
        let length = format!("{:.6}", self.rate.length(self.segments.finished()));
        let sound = sound.and_then(|source| Some((source, source.sound?)));
        if let Some((source, stream)) = sound {
            arguments.extend(source.arguments());
            arguments.extend(words(&["-map", "0:v:0", "-map", &format!("1:{stream}")]));
            let filters = format!("aresample=async=1000:first_pts=0,apad,atrim=end={length}");
            arguments.extend(words(&["-af", &filters, "-ac", "2"]));
            match self.codec {
                Codec::Vp9 { .. } => arguments.extend(words(&["-c:a", "libopus", "-b:a", "128k", "-ar", "48000"])),
                Codec::ProRes { .. } | Codec::H264 | Codec::Ffv1 | Codec::Png | Codec::WebP => {
                    arguments.extend(words(&["-c:a", "aac", "-b:a", "160k", "-ar", "48000"]));
                }
            }
        } else {
            arguments.extend(words(&["-map", "0:v:0", "-an"]));
        }
        arguments.extend(words(&["-c:v", "copy"]));
        arguments.extend(words(&PLAIN));
        match self.codec {
            Codec::Vp9 { .. } => {
                if self.alpha {
                    arguments.extend(words(&["-metadata:s:v:0", "alpha_mode=1"]));
                }
                arguments.extend(words(&["-f", "webm"]));
            }
            Codec::ProRes { .. } => arguments.extend(words(&["-movflags", "+write_colr+faststart", "-f", "mov"])),
            Codec::H264 | Codec::Ffv1 | Codec::Png | Codec::WebP => {
                arguments.extend(words(&["-movflags", "+faststart", "-f", "mp4"]));
            }
        }
        if !matches!(self.codec, Codec::Vp9 { .. }) {
            arguments.extend(words(&["-video_track_timescale", &self.rate.timescale().to_string()]));
        }
        arguments.extend(written(to));
        self.run(arguments).await
    }

    async fn gif(&self, to: &Path) -> Result<(), VideoError> {
        let palette = self.segments.file("part-palette.png");
        let opened = |list: OsString| {
            let mut arguments = words(&["-nostdin", "-hide_banner", "-v", "error"]);
            arguments.extend(words(&["-protocol_whitelist", PROTOCOLS, "-f", "concat", "-i"]));
            arguments.push(list);
            arguments
        };
        let transparent = u8::from(self.alpha);
        let mut first = opened(self.listed().await?);
        first.extend(words(&["-vf", &format!("palettegen=stats_mode=full:reserve_transparent={transparent}")]));
        first.extend(words(&["-frames:v", "1"]));
        first.extend(words(&PLAIN));
        first.extend(words(&["-f", "image2", "-update", "1"]));
        first.extend(written(&palette));
        self.run(first).await?;
        let mut second = opened(self.listed().await?);
        second.extend(words(&["-i", "file:part-palette.png"]));
        // Containers round the time of a frame; its number tells it exactly.
        let times = format!("setpts=N*{}/({}*TB)", self.rate.seconds, self.rate.frames);
        let filters =
            format!("[0:v]{times},scale=flags={EXACT}[v];[v][1:v]paletteuse=dither=sierra2_4a:alpha_threshold=128");
        second.extend(words(&["-lavfi", &filters, "-fps_mode", "passthrough", "-loop", "0"]));
        second.extend(words(&PLAIN));
        second.extend(words(&["-f", "gif"]));
        second.extend(written(to));
        self.run(second).await
    }

    async fn run(&self, arguments: Vec<OsString>) -> Result<(), VideoError> {
        let allowance = Allowance { cpu: 3600, memory: 4 << 30, file: 16 << 30 };
        let mut tool = Tool::start(&self.tools.ffmpeg, arguments, Some(self.segments.folder()), allowance)?;
        drop(tool.output());
        let ended = tool.ended(PATIENCE).await?;
        if ended.status.success() { Ok(()) } else { Err(encoder_failure(&ended)) }
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// The end of a command: replaces the file.
fn written(to: &Path) -> Vec<OsString> {
    let mut name = OsString::from("file:");
    name.push(to);
    vec!["-y".into(), name]
}
