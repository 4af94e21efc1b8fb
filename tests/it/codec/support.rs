//! Fixtures of the codec tests, their references, and the comparison.

use backdrop::codec::{self, DecodeError, Limits};
use backdrop::image::{BufferPool, Frame, Size};
use std::path::PathBuf;

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/fixtures/codec")
}

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fixtures of an extension without references, in order.
pub(crate) fn names(extension: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("the fixtures")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .filter(|name| name.ends_with(extension) && name.matches('.').count() == 1)
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no fixtures of {extension}");
    names
}

/// RGBA pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) size: Size,
    pub(crate) pixels: Vec<u8>,
}

impl From<Frame> for Picture {
    fn from(frame: Frame) -> Self {
        Self { size: frame.size(), pixels: frame.into_pixels().into_vec() }
    }
}

pub(crate) fn read_png(bytes: &[u8]) -> Picture {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().expect("a PNG header");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a small picture")];
    let info = reader.next_frame(&mut pixels).expect("PNG pixels");
    if info.color_type == png::ColorType::GrayscaleAlpha {
        pixels = pixels.chunks_exact(2).flat_map(|pair| [pair[0], pair[0], pair[0], pair[1]]).collect();
    }
    Picture { size: Size::new(info.width, info.height), pixels }
}

pub(crate) fn reference(name: &str) -> Picture {
    read_png(&fixture(&format!("{name}.png")))
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Frame, DecodeError> {
    let header = codec::probe(bytes, &Limits::default())?;
    let frame = codec::decode(bytes, &header, &BufferPool::new(0))?;
    assert_eq!(frame.size(), header.size, "decode and probe agree on the size");
    Ok(frame)
}

/// Largest and mean absolute difference of all channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) max: u8,
    pub(crate) mean: f64,
}

pub(crate) fn difference(seen: &Picture, right: &Picture) -> Difference {
    assert_eq!(seen.size, right.size);
    let each = || seen.pixels.iter().zip(&right.pixels).map(|(a, b)| a.abs_diff(*b));
    let sum: f64 = each().map(f64::from).sum();
    Difference { max: each().max().unwrap_or(0), mean: sum / right.pixels.len() as f64 }
}

/// The picture with the colour of fully transparent pixels zeroed.
pub(crate) fn visible(mut picture: Picture) -> Picture {
    for pixel in picture.pixels.chunks_exact_mut(4).filter(|pixel| pixel[3] == 0) {
        pixel.fill(0);
    }
    picture
}

pub(crate) fn assert_close(name: &str, seen: &Picture, right: &Picture, max: u8, mean: f64) {
    let found = difference(seen, right);
    assert!(found.max <= max && found.mean <= mean, "{name}: {found:?}, allowed {max} and {mean}");
}

#[test]
fn the_comparison_fails_on_a_wrong_picture() {
    let right = reference("baseline_444.jpg");
    let mut one_pixel = right.clone();
    one_pixel.pixels[400] ^= 64;
    assert_eq!(difference(&one_pixel, &right).max, 64);
    let mut shifted = right.clone();
    shifted.pixels.rotate_left(4);
    assert!(difference(&shifted, &right).mean > 1.5, "{:?}", difference(&shifted, &right));
    let mut darker = right.clone();
    darker.pixels.iter_mut().for_each(|byte| *byte = byte.saturating_sub(2));
    assert!(difference(&darker, &right).mean > 1.5);
    assert!(std::panic::catch_unwind(|| assert_close("x", &one_pixel, &right, 8, 1.0)).is_err());
    assert_eq!(difference(&right, &right), Difference { max: 0, mean: 0.0 });
}
