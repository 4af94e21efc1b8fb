//! Encoding and decoding of pictures.

use backdrop::codec::{self, Channels, EncodeOptions, Limits, PngEffort};
use backdrop::image::{Buffer, BufferPool, Composite, Frame, OutputFormat, Quality, Size};
use bytes::Bytes;

/// The file of a frame.
pub(crate) fn encoded(frame: Frame, format: OutputFormat, quality: u8) -> Bytes {
    let quality = Quality::new(quality).expect("1 to 100");
    let options = EncodeOptions { format, quality, png: PngEffort::Fast, channels: Channels::Rgba };
    codec::encode(Composite::unchanged(frame), &options).expect("a picture").bytes
}

/// A PNG with these pixels; colour under zero alpha is not kept.
pub(crate) fn png(size: Size, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Bytes {
    let places = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (x, y)));
    let pixels: Vec<u8> = places.flat_map(|(x, y)| pixel(x, y)).collect();
    encoded(Frame::new(size, Buffer::from(pixels)), OutputFormat::Png, 100)
}

/// The pixels of a file, up to the size of results.
pub(crate) fn decoded(bytes: &[u8]) -> Frame {
    let limits = Limits { max_side: 8192, max_megapixels: 68, ..Limits::default() };
    let header = codec::probe(bytes, &limits).expect("a picture");
    codec::decode(bytes, &header, &BufferPool::new(0)).expect("a whole picture")
}
