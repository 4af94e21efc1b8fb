//! Arguments with which ffmpeg and ffprobe open a clip: file protocol only, one demuxer, an allowlist of decoders.

use super::container::Container;
use super::sandbox::PROTOCOLS;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Allowlist of decoders for untrusted files: formats of cameras, recorders and editors of the last decades, and of
/// their caption streams, which are ignored.
const DECODERS: &str = "h264,hevc,av1,libdav1d,libaom-av1,vp8,vp9,libvpx,libvpx-vp9,mpeg4,mpeg2video,mpeg1video,h261,\
    h263,h263i,flv,msmpeg4,msmpeg4v1,msmpeg4v2,wmv1,wmv2,wmv3,vc1,theora,dirac,prores,dnxhd,cfhd,hap,dvvideo,mjpeg,mjpegb,\
    jpeg2000,png,apng,gif,webp,bmp,tiff,targa,ffv1,ffvhuff,huffyuv,utvideo,magicyuv,qtrle,rpza,smc,cinepak,svq1,svq3,\
    rawvideo,v210,v308,v408,v410,r210,r10k,yuv4,aac,aac_latm,mp1,mp1float,mp2,mp2float,mp3,mp3float,opus,libopus,vorbis,\
    libvorbis,flac,alac,ac3,ac3_fixed,eac3,dca,truehd,mlp,wavpack,tta,wmav1,wmav2,speex,libspeex,gsm,gsm_ms,qdm2,mace3,\
    mace6,amrnb,amrwb,libopencore_amrnb,libopencore_amrwb,adpcm_ima_qt,adpcm_ima_wav,adpcm_ms,pcm_alaw,pcm_mulaw,pcm_u8,\
    pcm_s8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,mov_text,\
    ass,ssa,srt,subrip,text,webvtt,dvbsub,dvdsub,pgssub,cc_dec";

/// A probed file and the streams to decode.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) file: PathBuf,
    pub(super) container: Container,
    pub(super) video_stream: u32,
    pub(super) audio_stream: Option<u32>,
    /// Whether frames are sampled at the clip's rate, because their times are irregular.
    pub(super) is_sampled: bool,
    pub(super) has_alpha: bool,
    /// The decoder that reads alpha, if it is not ffmpeg's default.
    pub(super) alpha_decoder: Option<&'static str>,
    pub(super) colors: ColorCoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColorCoding {
    /// Tagged in the file.
    Tagged,
    /// Untagged: BT.601 or BT.709 by the frame size.
    Untagged {
        /// At least 720 rows or 1280 columns.
        is_high_definition: bool,
    },
    /// High dynamic range (HLG or PQ), to be tone-mapped.
    Hdr,
}

impl Source {
    /// The arguments that open the file as an input.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let decoder = self.alpha_decoder.map(|decoder| ["-c:v", decoder].map(OsString::from));
        decoder.into_iter().flatten().chain(input_arguments(&self.file, self.container)).collect()
    }
}

/// The arguments that open `file`: this file only, with this demuxer and the allowed decoders.
pub(super) fn input_arguments(file: &Path, container: Container) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "-protocol_whitelist",
        PROTOCOLS,
        "-format_whitelist",
        container.demuxer_list(),
        "-codec_whitelist",
        DECODERS,
        "-f",
        container.demuxer(),
        "-i",
    ]
    .map(OsString::from)
    .into();
    // With an explicit protocol no file name is parsed as a URL.
    let mut name = OsString::from("file:");
    name.push(file);
    arguments.push(name);
    arguments
}
