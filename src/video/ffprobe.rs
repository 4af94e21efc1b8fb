//! Runs ffprobe and parses its JSON: streams, sizes, rates, durations and colour tags.

use super::container::Container;
use super::frame_rate::MIN_SAMPLING_RATE;
use super::input::{ColorCoding, input_arguments};
use super::sandbox::ToolProcess;
use super::tool_limits::{Files, ResourceLimits};
use super::{Tools, VideoError};
use crate::image::Size;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// Maximum bytes read of ffprobe's output.
const MAX_OUTPUT: u64 = 1 << 20;
/// Maximum number of packets counted.
const MAX_PACKETS: usize = 8 * 3600;
/// Time limit; probing any real clip takes much less.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Probing 4096×4096 needs 384 MB of address space. The index of a hostile header, 24 bytes for each of up to 2³²
/// declared samples, exceeds the limit and ends the process.
const LIMITS: ResourceLimits = ResourceLimits { cpu: 30, memory: 512 << 20, file: 0 };

#[derive(Deserialize)]
pub(super) struct Output {
    #[serde(default)]
    pub(super) streams: Vec<Stream>,
    #[serde(default)]
    pub(super) format: Format,
}

#[derive(Default, Deserialize)]
pub(super) struct Format {
    pub(super) duration: Option<String>,
    start_time: Option<String>,
}

impl Format {
    /// Start of the first stream in seconds; often 0, and negative if sound is primed.
    pub(super) fn start(&self) -> f64 {
        let start = self.start_time.as_deref().and_then(|time| time.parse::<f64>().ok());
        start.filter(|start| start.is_finite()).unwrap_or(0.0)
    }
}

/// Measurements from the timestamps of all packets of a stream.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    /// Length in seconds.
    pub(super) seconds: f64,
    /// Average frames per second.
    pub(super) average: f64,
    /// End of the last packet in seconds on the file's clock.
    pub(super) end: f64,
    /// Whether the last packet has a duration.
    pub(super) has_last_duration: bool,
}

#[derive(Deserialize)]
pub(super) struct Stream {
    pub(super) index: u32,
    codec_type: Option<String>,
    codec_name: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    pix_fmt: Option<String>,
    color_space: Option<String>,
    color_transfer: Option<String>,
    sample_aspect_ratio: Option<String>,
    pub(super) avg_frame_rate: Option<String>,
    pub(super) r_frame_rate: Option<String>,
    duration: Option<String>,
    #[serde(default)]
    pub(super) disposition: Disposition,
    #[serde(default)]
    side_data_list: Vec<SideData>,
    #[serde(default)]
    tags: Tags,
}

#[derive(Default, Deserialize)]
pub(super) struct Disposition {
    #[serde(default)]
    pub(super) attached_pic: u8,
    #[serde(default)]
    pub(super) default: u8,
}

#[derive(Deserialize)]
struct SideData {
    rotation: Option<f64>,
}

#[derive(Default, Deserialize)]
struct Tags {
    #[serde(alias = "DURATION")]
    duration: Option<String>,
    /// 1 if a WebM stream has alpha in an additional block.
    #[serde(alias = "ALPHA_MODE")]
    alpha_mode: Option<String>,
}

fn start(tools: &Tools, arguments: &[OsString], file: &Path) -> Result<ToolProcess, VideoError> {
    ToolProcess::start(&tools.ffprobe, arguments, Files { input: Some(file), folder: None }, LIMITS)
}

/// Lists all streams of `file`.
pub(super) async fn run(tools: &Tools, file: &Path, container: Container) -> Result<Output, VideoError> {
    let mut arguments: Vec<OsString> = [
        "-hide_banner",
        "-v",
        "error",
        "-of",
        "json",
        "-show_entries",
        "stream=index,codec_type,codec_name,width,height,pix_fmt,color_space,color_transfer,sample_aspect_ratio,avg_frame_rate,\
         r_frame_rate,duration:stream_disposition=attached_pic,default:stream_tags=duration,DURATION,alpha_mode,ALPHA_MODE:\
         stream_side_data=rotation:format=duration,start_time",
    ]
    .map(OsString::from)
    .into();
    arguments.extend(input_arguments(file, container));
    let mut process = start(tools, &arguments, file)?;
    let mut json = Vec::new();
    if let Some(output) = process.output() {
        let read = tokio::time::timeout(TIMEOUT, output.take(MAX_OUTPUT).read_to_end(&mut json)).await;
        match read {
            Ok(Ok(_)) => {}
            Ok(Err(source)) => {
                return Err(VideoError::Io { what: "ffprobe's output could not be read".to_owned(), source });
            }
            Err(_) => return Err(VideoError::Unreadable),
        }
    }
    let exit = process.wait(TIMEOUT).await?;
    if exit.is_killed() {
        return Err(exit.failure());
    }
    if !exit.status.success() {
        tracing::debug!(messages = exit.messages, "ffprobe rejected a clip");
        return Err(rejected_codec(&exit.messages).map_or(VideoError::Unreadable, VideoError::Unsupported));
    }
    serde_json::from_slice(&json).map_err(|_| VideoError::Unreadable)
}

/// The codec that ffmpeg rejected, from its message `Codec (snow) not on whitelist`.
fn rejected_codec(messages: &str) -> Option<String> {
    let (before, _) = messages.split_once(") not on whitelist")?;
    let (_, name) = before.rsplit_once("Codec (")?;
    Some(name.chars().filter(char::is_ascii_graphic).take(32).collect())
}

pub(super) async fn measure(
    tools: &Tools,
    file: &Path,
    container: Container,
    stream: u32,
) -> Result<Measured, VideoError> {
    let entries = "packet=pts_time,duration_time";
    let mut arguments: Vec<OsString> =
        ["-hide_banner", "-v", "error", "-of", "csv=p=0", "-show_entries", entries, "-select_streams"]
            .map(OsString::from)
            .into();
    arguments.push(stream.to_string().into());
    arguments.extend(input_arguments(file, container));
    let mut process = start(tools, &arguments, file)?;
    let (mut packets, mut first, mut last, mut end) = (0_usize, f64::MAX, f64::MIN, f64::MIN);
    if let Some(output) = process.output() {
        let mut lines = BufReader::new(output.take(MAX_OUTPUT)).lines();
        let count = async {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut columns = line.split(',').map(|column| seconds(Some(column)));
                if let Some(time) = columns.next().flatten() {
                    (packets, first, last) = (packets + 1, first.min(time), last.max(time));
                    end = end.max(time + columns.next().flatten().unwrap_or(0.0));
                }
                if packets > MAX_PACKETS {
                    break;
                }
            }
        };
        if tokio::time::timeout(TIMEOUT, count).await.is_err() {
            return Err(VideoError::Unreadable);
        }
    }
    drop(process);
    let (span, has_last_duration) = (last - first, end > last);
    let average = match packets {
        0 => return Err(VideoError::Unreadable),
        // A single frame has no rate.
        1 => MIN_SAMPLING_RATE,
        _ if span <= 0.0 => return Err(VideoError::Unreadable),
        _ => (packets - 1) as f64 / span,
    };
    let seconds = if has_last_duration { end - first } else { packets as f64 / average };
    Ok(Measured { seconds, average, end, has_last_duration })
}

impl Stream {
    pub(super) fn is(&self, kind: &str) -> bool {
        self.codec_type.as_deref() == Some(kind)
    }

    /// Display size of a frame: with square pixels and upright.
    pub(super) fn upright_size(&self) -> Option<Size> {
        let (width, height) = (self.width.filter(|&side| side > 0)?, self.height.filter(|&side| side > 0)?);
        let aspect = self.sample_aspect_ratio.as_deref().and_then(aspect).unwrap_or(1.0);
        let stored = if (aspect - 1.0).abs() < 1e-3 {
            Size::new(width, height)
        } else {
            Size::new((f64::from(width) * aspect).round().clamp(1.0, 1e6) as u32, height)
        };
        let turn = self.side_data_list.iter().find_map(|data| data.rotation).unwrap_or(0.0).rem_euclid(180.0);
        Some(if (turn - 90.0).abs() < 1.0 { stored.transposed() } else { stored })
    }

    pub(super) fn duration(&self) -> Option<f64> {
        seconds(self.duration.as_deref()).or_else(|| clock(self.tags.duration.as_deref()?))
    }

    pub(super) fn has_alpha(&self) -> bool {
        let format = self.pix_fmt.as_deref().unwrap_or_default();
        ["yuva", "rgba", "bgra", "argb", "abgr", "gbrap", "ya8", "ya16", "pal8"]
            .iter()
            .any(|with_alpha| format.starts_with(with_alpha))
    }

    /// The decoder that reads alpha of VP8 and VP9; ffmpeg's built-in decoders do not.
    pub(super) fn alpha_decoder(&self) -> Option<&'static str> {
        self.tags.alpha_mode.as_deref().filter(|mode| *mode == "1")?;
        match self.codec_name.as_deref()? {
            "vp8" => Some("libvpx"),
            "vp9" => Some("libvpx-vp9"),
            _ => None,
        }
    }

    pub(super) fn color_coding(&self) -> ColorCoding {
        if matches!(self.color_transfer.as_deref(), Some("smpte2084" | "arib-std-b67")) {
            return ColorCoding::Hdr;
        }
        match self.color_space.as_deref() {
            None | Some("unknown" | "reserved") => ColorCoding::Untagged {
                is_high_definition: self.height.unwrap_or(0) >= 720 || self.width.unwrap_or(0) >= 1280,
            },
            Some(_) => ColorCoding::Tagged,
        }
    }
}

/// Parses `1.5` as a finite, non-negative time.
pub(super) fn seconds(text: Option<&str>) -> Option<f64> {
    text?.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
}

/// Parses `00:00:01.998000000` into seconds.
fn clock(text: &str) -> Option<f64> {
    let mut parts = text.splitn(3, ':');
    let (hours, minutes, rest) = (parts.next()?, parts.next()?, parts.next()?);
    Some(
        f64::from(hours.parse::<u32>().ok()?) * 3600.0
            + f64::from(minutes.parse::<u32>().ok()?) * 60.0
            + seconds(Some(rest))?,
    )
}

/// Parses `4:3`; ratios outside of 0.1 to 10 are ignored.
fn aspect(text: &str) -> Option<f64> {
    let (width, height) = text.split_once(':')?;
    let aspect = width.parse::<f64>().ok()? / height.parse::<f64>().ok()?;
    (0.1..=10.0).contains(&aspect).then_some(aspect)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(json: &str) -> Stream {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn frames_are_upright_with_square_pixels() {
        for (more, [width, height]) in [
            ("", [720, 576]),
            (r#","side_data_list":[{"rotation":-90}]"#, [576, 720]),
            (r#","side_data_list":[{},{"rotation":180}]"#, [720, 576]),
            (r#","sample_aspect_ratio":"64:45""#, [1024, 576]),
            (r#","sample_aspect_ratio":"0:1""#, [720, 576]),
            (r#","sample_aspect_ratio":"1:0""#, [720, 576]),
        ] {
            let size = stream(&format!(r#"{{"index":0,"width":720,"height":576{more}}}"#)).upright_size();
            assert_eq!(size, Some(Size::new(width, height)), "{more}");
        }
        assert_eq!(stream(r#"{"index":0,"width":0,"height":5}"#).upright_size(), None);
    }

    #[test]
    fn times_are_parsed_or_rejected() {
        assert_eq!(clock("00:01:01.500000000"), Some(61.5));
        assert_eq!(clock("61.5"), None);
        assert_eq!(["N/A", "nan", "-3"].map(|text| seconds(Some(text))), [None; 3]);
    }
}
