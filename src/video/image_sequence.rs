//! Encodes frames by our own codecs, and muxes them as a ZIP archive of PNGs or an animated WebP.
//!
//! A segment is a sequence of records: a length (u32, little-endian) and that many bytes, a PNG file or the `ANMF`
//! chunk of an animated WebP. Muxing copies both unchanged.
//!
//! Each frame of the animation is independent: its visible part, cropped at even pixels, on a cleared canvas (RFC 9649,
//! section 2.7.1.1: dispose to background, do not blend).

use super::frame_rate::Rate;
use super::{VideoError, encode::Codec};
use crate::codec::{self, Channels, EncodeOptions, PngEffort};
use crate::image::{Buffer, Composite, Frame, OutputFormat, Quality, Rect, Size};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;

/// Quality of WebP frames, lower than of single pictures because an animation has many.
const QUALITY: u8 = 80;
/// `ANMF` flags: do not blend, dispose to background.
const INDEPENDENT: u8 = 0b11;

/// Encodes one frame as a record. Fails with [`VideoError::Tool`] when a codec fails.
pub(super) fn record(frame: Frame, codec: Codec, rate: Rate, index: u64) -> Result<Vec<u8>, VideoError> {
    match codec {
        Codec::Png => encode_file(frame, OutputFormat::Png),
        Codec::WebP => animation_frame(frame, rate, index),
        Codec::Vp9 { .. } | Codec::ProRes { .. } | Codec::H264 | Codec::Ffv1 => {
            Err(VideoError::Tool("this format is not encoded frame by frame".to_owned()))
        }
    }
}

fn encode_file(frame: Frame, format: OutputFormat) -> Result<Vec<u8>, VideoError> {
    let quality = Quality::new(QUALITY).unwrap_or_default();
    let options = EncodeOptions { format, quality, png: PngEffort::Fast, channels: Channels::Rgba };
    let encoded =
        codec::encode(Composite::unchanged(frame), &options).map_err(|error| VideoError::Tool(error.to_string()))?;
    Ok(encoded.bytes.into())
}

/// The `ANMF` chunk of frame `index`.
fn animation_frame(frame: Frame, rate: Rate, index: u64) -> Result<Vec<u8>, VideoError> {
    // The difference of rounded timestamps, so that rounding errors do not accumulate.
    let time = |index: u64| rate.micros(index).div_euclid(1000);
    let duration = time(index + 1).saturating_sub(time(index));
    let part = visible(&frame);
    let buffer = |len| Buffer::from(vec![0; len]);
    let frame = if part == Rect::whole(frame.size()) { frame } else { frame.cropped(part, 1, buffer) };
    let file = encode_file(frame, OutputFormat::WebP)?;
    let mut payload = Vec::with_capacity(file.len() + 24);
    for value in [part.left / 2, part.top / 2, part.width - 1, part.height - 1, duration as u32] {
        payload.extend_from_slice(&value.to_le_bytes()[..3]);
    }
    payload.push(INDEPENDENT);
    for (name, data) in chunks(&file) {
        if [*b"ALPH", *b"VP8 ", *b"VP8L"].contains(&name) {
            push_chunk(&mut payload, name, data);
        }
    }
    let mut chunk = Vec::with_capacity(payload.len() + 8);
    push_chunk(&mut chunk, *b"ANMF", &payload);
    Ok(chunk)
}

/// Bounds of the visible pixels, from an even pixel; a single pixel when nothing is visible.
fn visible(frame: &Frame) -> Rect {
    let Some(Rect { left, top, width, height }) = frame.covered(1) else {
        return Rect { left: 0, top: 0, width: 1, height: 1 };
    };
    let (right, bottom) = (left + width, top + height);
    let (left, top) = (left & !1, top & !1);
    Rect { left, top, width: right - left, height: bottom - top }
}

fn chunks(file: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = file.get(12..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (name, after) = rest.split_first_chunk::<4>()?;
        let (len, after) = after.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len) as usize;
        let data = after.get(..len)?;
        rest = after.get(len + len % 2..).unwrap_or_default();
        Some((*name, data))
    })
}

fn push_chunk(to: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    to.extend_from_slice(&name);
    to.extend_from_slice(&(data.len() as u32).to_le_bytes());
    to.extend_from_slice(data);
    if data.len() % 2 == 1 {
        to.push(0);
    }
}

/// Calls `take` with each record of each file in turn.
fn records(segments: &[PathBuf], mut take: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut index, mut record) = (0, Vec::new());
    for segment in segments {
        let mut file = BufReader::new(File::open(segment)?);
        let mut len = [0; 4];
        loop {
            match file.read_exact(&mut len) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            record.clear();
            (&mut file).take(u64::from(u32::from_le_bytes(len))).read_to_end(&mut record)?;
            take(index, &record)?;
            index += 1;
        }
    }
    Ok(())
}

/// Writes a ZIP archive of the frames, `frame-000001.png` and so on, uncompressed, with the format's default date.
/// Fails when a file cannot be read or written.
pub(super) fn write_zip(segments: &[PathBuf], to: &Path) -> io::Result<()> {
    let mut archive = zip::ZipWriter::new(BufWriter::new(File::create(to)?));
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default());
    records(segments, |index, record| {
        archive.start_file(format!("frame-{:06}.png", index + 1), options).map_err(io::Error::other)?;
        archive.write_all(record)
    })?;
    archive.finish().map_err(io::Error::other)?.into_inner()?.sync_all()
}

/// Writes an animated WebP of the frames that loops forever. Fails when a file cannot be read or written, or the result
/// exceeds the format's 4 GB.
pub(super) fn write_animated_webp(segments: &[PathBuf], size: Size, alpha: bool, to: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    let mut extended = vec![if alpha { 0b1_0010 } else { 0b0_0010 }, 0, 0, 0];
    for side in [size.width - 1, size.height - 1] {
        extended.extend_from_slice(&side.to_le_bytes()[..3]);
    }
    push_chunk(&mut head, *b"VP8X", &extended);
    push_chunk(&mut head, *b"ANIM", &[0; 6]);
    let mut file = BufWriter::new(File::create(to)?);
    file.write_all(b"RIFF\0\0\0\0WEBP")?;
    file.write_all(&head)?;
    let mut len = 4 + head.len() as u64;
    records(segments, |_, record| {
        len += record.len() as u64;
        file.write_all(record)
    })?;
    let len = u32::try_from(len).map_err(|_| io::Error::other("an animated WebP holds 4 GB at most"))?;
    file.seek(SeekFrom::Start(4))?;
    file.write_all(&len.to_le_bytes())?;
    file.into_inner()?.sync_all()
}
