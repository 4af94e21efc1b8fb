//! Drawn pictures, noise and the comparison of thread counts, for the tests of all layers.

use super::{Frame, Size};
use std::fmt::Display;

/// A picture with the colour `pixel(x, y)` at each pixel.
pub(crate) fn drawn(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Frame {
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let pixels: Vec<u8> = places.flat_map(|(x, y)| pixel(x, y)).collect();
    Frame::new(Size::new(width, height), pixels.into())
}

/// A hash of the position.
pub(crate) fn noise(x: u32, y: u32) -> [u8; 4] {
    let hash = (x.wrapping_mul(0x9E37_79B9) ^ y.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0xC2B2_AE35);
    (hash ^ (hash >> 15)).to_le_bytes()
}

/// The places of the pixels that differ.
pub(crate) fn changed(before: &Frame, after: &Frame) -> Vec<(u32, u32)> {
    let Size { width, height } = before.size();
    assert_eq!(after.size(), before.size());
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    places.filter(|&(x, y)| before.pixel(x, y) != after.pixel(x, y)).collect()
}

/// The result of `work` on one thread, which must equal the result on five.
pub(crate) fn on_any_number_of_threads<T: PartialEq + Send>(what: impl Display, work: impl Fn() -> T + Sync) -> T {
    let [one, five] = [1, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(&work)
    });
    assert!(one == five, "{what}: the result depends on the number of threads");
    one
}
