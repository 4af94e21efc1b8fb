//! What is in a file, as ffprobe tells it, judged against what is taken.

use super::kind::{Kind, SNIFF_BYTES};
use super::rate::Rate;
use super::sandbox::{Allowance, PROTOCOLS, Tool};
use super::{Clip, MAX_BYTES, Tools, VideoError};
use crate::image::Size;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// Sides of a frame at most, the longer and the shorter.
const MAX_SIDES: (u32, u32) = (1920, 1080);
/// Seconds at most, and how much more is let pass: files round their length up.
const MAX_SECONDS: f64 = 60.0;
const GRACE_SECONDS: f64 = 0.5;
/// Frames per second at most, with the error of averages.
const MAX_RATE: f64 = 60.5;
/// What ffprobe says is read up to here.
const MAX_ANSWER: u64 = 1 << 20;
/// Packets that are counted at most.
const MAX_PACKETS: usize = 8 * 3600;
/// Looking into a file is quick; a file that makes it slow is no clip.
const PATIENCE: Duration = Duration::from_secs(60);
const ALLOWANCE: Allowance = Allowance { cpu: 30, memory: 2 << 30, file: 0 };

/// Decoders that are let at a caller's bytes: those that cameras, recorders and editors of the last decades wrote for,
/// with the captions that come along and are not used.
const DECODERS: &str = "h264,hevc,av1,libdav1d,libaom-av1,vp8,vp9,libvpx,libvpx-vp9,mpeg4,mpeg2video,mpeg1video,h261,\
    h263,h263i,flv,msmpeg4,msmpeg4v1,msmpeg4v2,wmv1,wmv2,wmv3,vc1,theora,dirac,prores,dnxhd,cfhd,hap,dvvideo,mjpeg,mjpegb,\
    jpeg2000,png,apng,gif,webp,bmp,tiff,targa,ffv1,ffvhuff,huffyuv,utvideo,magicyuv,qtrle,rpza,smc,cinepak,svq1,svq3,\
    rawvideo,v210,v308,v408,v410,r210,r10k,yuv4,aac,aac_latm,mp1,mp1float,mp2,mp2float,mp3,mp3float,opus,libopus,vorbis,\
    libvorbis,flac,alac,ac3,ac3_fixed,eac3,dca,truehd,mlp,wavpack,tta,wmav1,wmav2,speex,libspeex,gsm,gsm_ms,qdm2,mace3,\
    mace6,amrnb,amrwb,libopencore_amrnb,libopencore_amrwb,adpcm_ima_qt,adpcm_ima_wav,adpcm_ms,pcm_alaw,pcm_mulaw,pcm_u8,\
    pcm_s8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,mov_text,\
    ass,ssa,srt,subrip,text,webvtt,dvbsub,dvdsub,pgssub,cc_dec";

/// A file that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Probed {
    pub(super) clip: Clip,
    pub(super) source: Source,
}

/// How a tool reads the file.
#[derive(Clone, Debug)]
pub(super) struct Source {
    file: PathBuf,
    kind: Kind,
    /// The stream of the picture.
    pub(super) picture: u32,
    /// The stream of the sound.
    pub(super) sound: Option<u32>,
    /// Whether pixels may let something through.
    pub(super) is_transparent: bool,
    /// How its colours are coded.
    pub(super) colours: Colours,
}

/// How the colours of a clip are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    /// As the file says.
    Told,
    /// The file says nothing, and by its size it is of the old standard or of the new one.
    Untold {
        /// At least 720 rows or 1280 columns.
        is_high_definition: bool,
    },
    /// More light than a screen has, which is to be brought down: HLG or PQ.
    Bright,
}

impl Source {
    /// The arguments that open the file: nothing but this file, with this reader and these decoders.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        opened(&self.file, self.kind)
    }
}

fn opened(file: &Path, kind: Kind) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "-protocol_whitelist",
        PROTOCOLS,
        "-format_whitelist",
        kind.readers(),
        "-codec_whitelist",
        DECODERS,
        "-f",
        kind.reader(),
        "-i",
    ]
    .map(OsString::from)
    .into();
    // With the protocol said, no name is taken for another one.
    let mut name = OsString::from("file:");
    name.push(file);
    arguments.push(name);
    arguments
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    format: Format,
}

#[derive(Default, Deserialize)]
struct Format {
    duration: Option<String>,
}

#[derive(Deserialize)]
struct Stream {
    index: u32,
    codec_type: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    pix_fmt: Option<String>,
    color_space: Option<String>,
    color_transfer: Option<String>,
    sample_aspect_ratio: Option<String>,
    avg_frame_rate: Option<String>,
    r_frame_rate: Option<String>,
    duration: Option<String>,
    #[serde(default)]
    disposition: Disposition,
    #[serde(default)]
    side_data_list: Vec<SideData>,
    #[serde(default)]
    tags: Tags,
}

#[derive(Default, Deserialize)]
struct Disposition {
    #[serde(default)]
    attached_pic: u8,
    #[serde(default)]
    default: u8,
}

#[derive(Deserialize)]
struct SideData {
    rotation: Option<f64>,
}

#[derive(Default, Deserialize)]
struct Tags {
    #[serde(alias = "DURATION")]
    duration: Option<String>,
}

/// Looks at `file` and judges it.
///
/// # Errors
/// See [`VideoError`].
pub(super) async fn probe(tools: &Tools, file: &Path) -> Result<Probed, VideoError> {
    let (file, kind) = sniffed(file).await?;
    let answer = asked(tools, &file, kind).await?;
    let picture = answer.streams.iter().find(|stream| stream.is("video") && stream.disposition.attached_pic == 0);
    let sounds = || answer.streams.iter().filter(|stream| stream.is("audio"));
    let Some(picture) = picture else {
        return Err(if sounds().next().is_some() { VideoError::NoPicture } else { VideoError::Unreadable });
    };
    let size = picture.upright().ok_or(VideoError::Unreadable)?;
    if size.longest() > MAX_SIDES.0 || size.width.min(size.height) > MAX_SIDES.1 {
        return Err(too_large(format!("the frames are {size}, more than {}×{} pixels", MAX_SIDES.0, MAX_SIDES.1)));
    }
    let counted = picture.r_frame_rate.as_deref().and_then(Rate::parse);
    let average = picture.avg_frame_rate.as_deref().and_then(Rate::parse).map(Rate::per_second);
    let told = picture.length().or_else(|| seconds(answer.format.duration.as_deref()));
    // Recorders that write as they go leave the length out, and the rate is then a guess.
    let (length, average) = match (told, average.filter(|average| *average <= MAX_RATE)) {
        (Some(length), Some(average)) => (length, average),
        (Some(_) | None, Some(_) | None) => measured(tools, &file, kind, picture.index).await?,
    };
    if average > MAX_RATE {
        return Err(too_large(format!("there are {average:.1} frames a second, more than 60")));
    }
    if length >= MAX_SECONDS + GRACE_SECONDS {
        return Err(too_large(format!("it lasts {length:.1} seconds, more than 60")));
    }
    let rate = Rate::chosen(average, counted);
    let frames = (length * rate.per_second()).round().max(1.0) as u64;
    let sound = sounds().find(|stream| stream.disposition.default == 1).or_else(|| sounds().next());
    let clip = Clip { size, rate, seconds: rate.length(frames), has_audio: sound.is_some() };
    let source = Source {
        kind,
        picture: picture.index,
        sound: sound.map(|stream| stream.index),
        is_transparent: picture.is_transparent(),
        colours: picture.colours(),
        file,
    };
    Ok(Probed { clip, source })
}

/// Frames that a clip may have, whatever it said of itself.
pub(super) fn most_frames(rate: Rate) -> u64 {
    ((MAX_SECONDS + GRACE_SECONDS) * rate.per_second()) as u64
}

fn too_large(what: String) -> VideoError {
    VideoError::TooLarge(what)
}

async fn sniffed(file: &Path) -> Result<(PathBuf, Kind), VideoError> {
    let failed = |source| VideoError::Io { what: "the clip could not be read".to_owned(), source };
    let path = std::path::absolute(file).map_err(failed)?;
    let mut opened = tokio::fs::File::open(&path).await.map_err(failed)?;
    let bytes = opened.metadata().await.map_err(failed)?.len();
    if bytes > MAX_BYTES {
        return Err(too_large(format!("the file has {bytes} bytes, more than {MAX_BYTES}")));
    }
    let mut head = Vec::new();
    (&mut opened).take(SNIFF_BYTES as u64).read_to_end(&mut head).await.map_err(failed)?;
    let kind = Kind::of(&head)?;
    Ok((path, kind))
}

/// ffprobe's answer about all streams.
async fn asked(tools: &Tools, file: &Path, kind: Kind) -> Result<Answer, VideoError> {
    let mut arguments: Vec<OsString> = [
        "-hide_banner",
        "-v",
        "error",
        "-of",
        "json",
        "-show_entries",
        "stream=index,codec_type,width,height,pix_fmt,color_space,color_transfer,sample_aspect_ratio,avg_frame_rate,\
         r_frame_rate,duration:stream_disposition=attached_pic,default:stream_tags=duration,DURATION:\
         stream_side_data=rotation:format=duration",
    ]
    .map(OsString::from)
    .into();
    arguments.extend(opened(file, kind));
    let mut tool = Tool::start(&tools.ffprobe, &arguments, None, ALLOWANCE)?;
    let mut answer = Vec::new();
    if let Some(output) = tool.output() {
        let read = tokio::time::timeout(PATIENCE, output.take(MAX_ANSWER).read_to_end(&mut answer)).await;
        match read {
            Ok(Ok(_)) => {}
            Ok(Err(source)) => return Err(VideoError::Io { what: "ffprobe could not be heard".to_owned(), source }),
            Err(_) => return Err(VideoError::Unreadable),
        }
    }
    let ended = tool.ended(PATIENCE).await?;
    if !ended.status.success() {
        tracing::debug!(said = ended.messages, "ffprobe refused a clip");
        return Err(foreign_codec(&ended.messages).map_or(VideoError::Unreadable, VideoError::Unsupported));
    }
    serde_json::from_slice(&answer).map_err(|_| VideoError::Unreadable)
}

/// The codec that is not on the list, of a tool's words `Codec (snow) not on whitelist`.
fn foreign_codec(messages: &str) -> Option<String> {
    let (before, _) = messages.split_once(") not on whitelist")?;
    let (_, name) = before.rsplit_once("Codec (")?;
    Some(name.chars().filter(char::is_ascii_graphic).take(32).collect())
}

/// Length in seconds and frames per second, from the times of all packets.
async fn measured(tools: &Tools, file: &Path, kind: Kind, stream: u32) -> Result<(f64, f64), VideoError> {
    let mut arguments: Vec<OsString> =
        ["-hide_banner", "-v", "error", "-of", "csv=p=0", "-show_entries", "packet=pts_time", "-select_streams"]
            .map(OsString::from)
            .into();
    arguments.push(stream.to_string().into());
    arguments.extend(opened(file, kind));
    let mut tool = Tool::start(&tools.ffprobe, &arguments, None, ALLOWANCE)?;
    let (mut packets, mut first, mut last) = (0_usize, f64::MAX, f64::MIN);
    if let Some(output) = tool.output() {
        let mut lines = BufReader::new(output.take(MAX_ANSWER)).lines();
        let count = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(time) = seconds(Some(line.trim_end_matches(','))) {
                    (packets, first, last) = (packets + 1, first.min(time), last.max(time));
                }
                if packets > MAX_PACKETS {
                    break;
                }
            }
        };
        if tokio::time::timeout(PATIENCE, count).await.is_err() {
            return Err(VideoError::Unreadable);
        }
    }
    drop(tool);
    let span = last - first;
    match packets {
        0 => Err(VideoError::Unreadable),
        1 => Ok((1.0, 1.0)),
        _ if span <= 0.0 => Err(VideoError::Unreadable),
        _ => {
            let average = (packets - 1) as f64 / span;
            Ok((packets as f64 / average, average))
        }
    }
}

impl Stream {
    fn is(&self, kind: &str) -> bool {
        self.codec_type.as_deref() == Some(kind)
    }

    /// Size of a frame as it is shown: pixels made square, turned upright.
    fn upright(&self) -> Option<Size> {
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

    fn length(&self) -> Option<f64> {
        seconds(self.duration.as_deref()).or_else(|| clock(self.tags.duration.as_deref()?))
    }

    fn is_transparent(&self) -> bool {
        let format = self.pix_fmt.as_deref().unwrap_or_default();
        ["yuva", "rgba", "bgra", "argb", "abgr", "gbrap", "ya8", "ya16", "pal8"]
            .iter()
            .any(|transparent| format.starts_with(transparent))
    }

    fn colours(&self) -> Colours {
        if matches!(self.color_transfer.as_deref(), Some("smpte2084" | "arib-std-b67")) {
            return Colours::Bright;
        }
        match self.color_space.as_deref() {
            None | Some("unknown" | "reserved") => Colours::Untold {
                is_high_definition: self.height.unwrap_or(0) >= 720 || self.width.unwrap_or(0) >= 1280,
            },
            Some(_) => Colours::Told,
        }
    }
}

/// `1.5`, as a time that makes sense.
fn seconds(text: Option<&str>) -> Option<f64> {
    text?.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
}

/// `00:00:01.998000000` in seconds.
fn clock(text: &str) -> Option<f64> {
    let mut parts = text.splitn(3, ':');
    let (hours, minutes, rest) = (parts.next()?, parts.next()?, parts.next()?);
    Some(
        f64::from(hours.parse::<u32>().ok()?) * 3600.0
            + f64::from(minutes.parse::<u32>().ok()?) * 60.0
            + seconds(Some(rest))?,
    )
}

/// `4:3`, within reason.
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
        let size = |more: &str| stream(&format!("{{\"index\":0,\"width\":720,\"height\":576{more}}}")).upright();
        assert_eq!(size(""), Some(Size::new(720, 576)));
        assert_eq!(size(",\"side_data_list\":[{\"rotation\":-90}]"), Some(Size::new(576, 720)));
        assert_eq!(size(",\"side_data_list\":[{},{\"rotation\":180}]"), Some(Size::new(720, 576)));
        assert_eq!(size(",\"sample_aspect_ratio\":\"64:45\""), Some(Size::new(1024, 576)));
        assert_eq!(size(",\"sample_aspect_ratio\":\"0:1\""), Some(Size::new(720, 576)));
        assert_eq!(size(",\"sample_aspect_ratio\":\"1:0\""), Some(Size::new(720, 576)));
        assert_eq!(stream("{\"index\":0,\"width\":0,\"height\":5}").upright(), None);
    }

    #[test]
    fn times_are_read_or_refused() {
        assert_eq!(clock("00:01:01.500000000"), Some(61.5));
        assert_eq!(clock("61.5"), None);
        assert_eq!(seconds(Some("N/A")), None);
        assert_eq!(seconds(Some("nan")), None);
        assert_eq!(seconds(Some("-3")), None);
        assert_eq!(aspect("0:1"), None);
        assert_eq!(aspect("1:0"), None);
    }

    #[test]
    fn a_codec_that_is_not_taken_is_named() {
        let said = "[snow @ 0x55] Codec (snow) not on whitelist 'h264,hevc'\n";
        assert_eq!(foreign_codec(said).as_deref(), Some("snow"));
        assert_eq!(foreign_codec("moov atom not found"), None);
    }

    #[test]
    fn the_list_of_decoders_is_one_word() {
        assert!(!DECODERS.contains(char::is_whitespace));
    }
}
