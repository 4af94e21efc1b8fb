//! Muxes finished segments and the clip's sound into the result file.
//!
//! Video packets are copied. Audio is encoded, trimmed or padded with silence to the video's length, and aligned with
//! its start. GIF takes one pass over the whole clip for its palette and another to encode it.

use super::checkpoint::{Checkpoint, blocking};
use super::decode::EXACT;
use super::encode::{Codec, REPRODUCIBLE, written};
use super::frame_rate::Rate;
use super::input::Source;
use super::sandbox::{Exit, PROTOCOLS, ToolProcess};
use super::tool_limits::{Files, ResourceLimits};
use super::{Tools, VideoError, image_sequence};
use crate::image::Size;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of a pass over all frames.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Maximum frame rate of a GIF: delays are in hundredths of a second, and players slow down below two of them.
pub(super) const GIF_MAX_RATE: Rate = Rate { frames: 50, seconds: 1 };

#[derive(Debug)]
pub(super) struct Mux<'a> {
    pub(super) tools: &'a Tools,
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) codec: Codec,
    pub(super) size: Size,
    pub(super) rate: Rate,
    pub(super) alpha: bool,
    /// The clip whose sound is added.
    pub(super) audio: Option<&'a Source>,
}

impl Mux<'_> {
    /// Writes the result into the job's folder. Returns its path and warnings. Fails with [`VideoError::Io`],
    /// [`VideoError::Tool`], [`VideoError::Exhausted`].
    pub(super) async fn write(&self) -> Result<(PathBuf, Vec<String>), VideoError> {
        let mut warnings = Vec::new();
        let name = match self.codec {
            Codec::Vp9 { .. } => "result.webm",
            Codec::ProRes { .. } => "result.mov",
            Codec::H264 => "result.mp4",
            Codec::Ffv1 => "result.gif",
            Codec::Png => "result.zip",
            Codec::WebP => "result.webp",
        };
        let (file, part) = (self.checkpoint.file(name), self.checkpoint.file(&format!("part-{name}")));
        match self.codec {
            Codec::Png => {
                let (files, to) = (self.checkpoint.files.clone(), part.clone());
                blocking(move || image_sequence::write_zip(&files, &to)).await?;
            }
            Codec::WebP => {
                let (files, to, size, alpha) = (self.checkpoint.files.clone(), part.clone(), self.size, self.alpha);
                blocking(move || image_sequence::write_animated_webp(&files, size, alpha, &to)).await?;
            }
            Codec::Ffv1 => self.gif(&part).await?,
            Codec::Vp9 { .. } | Codec::ProRes { .. } | Codec::H264 => {
                let exit = self.concat(&part, self.audio).await?;
                match written(&exit) {
                    Ok(()) => {}
                    // Unreadable sound is dropped. Any other cause, such as a full disk, fails the second attempt too;
                    // a killed process could have read the sound.
                    Err(VideoError::Tool(message)) if self.audio.is_some() && !exit.is_killed() => {
                        tracing::debug!(message, "unreadable sound was dropped");
                        written(&self.concat(&part, None).await?)?;
                        warnings.push("the sound could not be read; the result is silent".to_owned());
                    }
                    Err(error) => return Err(error),
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

    /// The arguments that open the segments as one input. Writes their list with exact durations, because errors of the
    /// containers' rounded durations would accumulate.
    async fn concat_input(&self) -> Result<Vec<OsString>, VideoError> {
        let mut list = "ffconcat version 1.0\n".to_owned();
        let mut before = 0;
        for (file, frames) in self.checkpoint.files.iter().zip(&self.checkpoint.frames) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let micros = self.rate.micros(before + frames) - self.rate.micros(before);
            before += frames;
            let result = writeln!(list, "file '{name}'\nduration {}.{:06}", micros / 1_000_000, micros % 1_000_000);
            debug_assert!(result.is_ok(), "writing to a string cannot fail");
        }
        let path = self.checkpoint.file("part-list");
        blocking(move || std::fs::write(path, list)).await?;
        let mut arguments = words(&["-nostdin", "-hide_banner", "-v", "error"]);
        arguments.extend(words(&["-protocol_whitelist", PROTOCOLS, "-f", "concat", "-i", "file:part-list"]));
        Ok(arguments)
    }

    /// Concatenates the segments without re-encoding, with the sound of `audio`.
    async fn concat(&self, to: &Path, audio: Option<&Source>) -> Result<Exit, VideoError> {
        let mut arguments = self.concat_input().await?;
        let length = format!("{:.6}", self.rate.length(self.checkpoint.finished_frames()));
        let audio = audio.and_then(|source| Some((source, source.audio_stream?)));
        if let Some((source, stream)) = audio {
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
        arguments.extend(words(&REPRODUCIBLE));
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
        arguments.extend(output_to(to));
        self.run(arguments).await
    }

    async fn gif(&self, to: &Path) -> Result<(), VideoError> {
        let palette = self.checkpoint.file("part-palette.png");
        let transparent = u8::from(self.alpha);
        let mut first = self.concat_input().await?;
        first.extend(words(&["-vf", &format!("palettegen=stats_mode=full:reserve_transparent={transparent}")]));
        first.extend(words(&["-frames:v", "1"]));
        first.extend(words(&REPRODUCIBLE));
        first.extend(words(&["-f", "image2", "-update", "1"]));
        first.extend(output_to(&palette));
        written(&self.run(first).await?)?;
        let mut second = self.concat_input().await?;
        second.extend(words(&["-i", "file:part-palette.png"]));
        // Exact timestamps from frame numbers, because the containers' are rounded.
        let times = format!("setpts=N*{}/({}*TB)", self.rate.seconds, self.rate.frames);
        let filters =
            format!("[0:v]{times},scale=flags={EXACT}[v];[v][1:v]paletteuse=dither=sierra2_4a:alpha_threshold=128");
        second.extend(words(&["-lavfi", &filters, "-fps_mode", "passthrough", "-loop", "0"]));
        second.extend(words(&REPRODUCIBLE));
        second.extend(words(&["-f", "gif"]));
        second.extend(output_to(to));
        written(&self.run(second).await?)
    }

    async fn run(&self, arguments: Vec<OsString>) -> Result<Exit, VideoError> {
        let limits = ResourceLimits { cpu: 3600, memory: 4 << 30, file: 16 << 30 };
        let input = self.audio.map(|source| source.file.as_path());
        let files = Files { input, folder: Some(self.checkpoint.folder()) };
        let mut process = ToolProcess::start(&self.tools.ffmpeg, arguments, files, limits)?;
        drop(process.output());
        process.wait(TIMEOUT).await
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// The output arguments: overwrites the file.
fn output_to(to: &Path) -> Vec<OsString> {
    let mut name = OsString::from("file:");
    name.push(to);
    vec!["-y".into(), name]
}
