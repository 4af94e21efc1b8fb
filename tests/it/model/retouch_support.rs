//! Pictures for the retouching networks, and PyTorch's outputs for them
//! (`tests/reference/retouch/record.py`).

use backdrop::image::{Buffer, Frame, Size};
use backdrop::model::{FACE_SIDE, FaceCrop, Factor};

/// As `wave` in `record.py`: one value of a picture.
fn wave(x: usize, y: usize, channel: usize) -> u8 {
    let slope = |t: usize| (t % 510).abs_diff(255);
    let slopes = (slope(9 * x + 5 * y + 60 * channel) + slope(4 * x + 11 * y + 90 * channel)) / 2;
    u8::try_from((slopes + (13 * x * y + 7 * channel) % 16).min(255)).expect("a byte")
}

/// All values of a picture, packed.
fn values(width: usize, height: usize) -> Vec<u8> {
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    places.flat_map(|(x, y)| (0..3).map(move |channel| wave(x, y, channel))).collect()
}

/// The input of the upscaler.
pub(crate) fn small_picture() -> Frame {
    let pixels = values(24, 20);
    let rgba = pixels.as_chunks::<3>().0.iter().flat_map(|&[red, green, blue]| [red, green, blue, 255]);
    Frame::new(Size::new(24, 20), Buffer::from(rgba.collect::<Vec<u8>>()))
}

/// The input of the restorer.
pub(crate) fn crop() -> FaceCrop {
    let pixels = values(FACE_SIDE, FACE_SIDE);
    FaceCrop(pixels.as_chunks::<3>().0.iter().map(|pixel| pixel.map(|value| f32::from(value) / 255.0)).collect())
}

/// The enlarged picture, 0..=1.
pub(crate) fn enlarged(factor: Factor) -> Vec<f32> {
    let bytes: &[u8] = match factor {
        Factor::Two => include_bytes!("../../reference/retouch/upscale-2.u16"),
        Factor::Four => include_bytes!("../../reference/retouch/upscale-4.u16"),
    };
    bytes.as_chunks::<2>().0.iter().map(|&value| f32::from(u16::from_le_bytes(value)) / 65535.0).collect()
}

/// The restoration: every third pixel of every third row.
pub(crate) fn restoration() -> Vec<f32> {
    halves(include_bytes!("../../reference/retouch/restore-256.f16"))
}

/// Every third pixel of every third row of a face.
pub(crate) fn thinned(face: &FaceCrop) -> Vec<f32> {
    face.0.chunks_exact(FACE_SIDE).step_by(3).flat_map(|row| row.iter().step_by(3)).flatten().copied().collect()
}

/// Values in half precision.
fn halves(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<2>().0.iter().map(|&value| half::f16::from_le_bytes(value).to_f32()).collect()
}

/// The largest difference of two outputs.
pub(crate) fn largest_difference(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len(), "outputs of different sizes");
    actual.iter().zip(expected).map(|(a, e)| if a.is_nan() { f32::INFINITY } else { (a - e).abs() }).fold(0.0, f32::max)
}

/// The range of the values.
pub(crate) fn spread(values: &[f32]) -> f32 {
    let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    high - low
}
