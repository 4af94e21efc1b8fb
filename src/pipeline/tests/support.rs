//! Shared by the tests on a GPU: the pictures, and the comparison of results.

use crate::codec::{Limits, decode, probe};
use crate::image::{BufferPool, DeviceCopy, DeviceLimits, DeviceSession, Frame, RawMask, Rect};
pub(crate) use crate::model::device::test_adapter::{adapter, device};
use crate::model::weights::Weights;
use crate::model::{CpuSegmenter, Segmenter};
use backdrop_kernels::conv::Isa;
use burn::tensor::Device;

/// Fur, hair, glass, goods, a whole scene.
pub(crate) const PICTURES: [&str; 5] =
    ["fur-chelsea.jpg", "hair-curls.jpg", "glass-wine.jpg", "goods-camera.jpg", "scene-figure.jpg"];
/// Largest difference of two values that counts as rounding, and the share of values that may differ by more.
pub(crate) const ROUNDING: u8 = 2;
pub(crate) const MOST_OFF: f64 = 0.001;
/// Least matte IoU of the two devices.
pub(crate) const LEAST_IOU: f64 = 0.998;

pub(crate) fn picture(name: &str) -> Frame {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pictures").join(name);
    let bytes = std::fs::read(path).expect("a golden picture");
    let header = probe(&bytes, &Limits::default()).expect("a picture");
    decode(&bytes, &header, &BufferPool::new(0)).expect("a whole one")
}

/// The picture at half its size, to save time on a software adapter.
pub(crate) fn small_picture(name: &str) -> Frame {
    let frame = picture(name);
    frame.cropped(Rect::whole(frame.size()), 2, |len| vec![0; len].into())
}

pub(crate) fn masks(frames: &[Frame]) -> Vec<RawMask> {
    let mut network =
        CpuSegmenter::new(&Weights::embedded(), Isa::detect()).expect("the embedded weights are complete");
    network.segment(&frames.iter().collect::<Vec<_>>()).expect("the CPU computes")
}

pub(crate) const LIMITS: DeviceLimits =
    DeviceLimits { memory: 1 << 32, largest_buffer: 1 << 30, call: std::time::Duration::from_secs(600) };

pub(crate) fn session(device: &Device, limits: DeviceLimits) -> DeviceSession {
    DeviceSession::new(device.clone(), limits, |_, _| {})
}

pub(crate) fn on(device: &Device, frame: &Frame) -> DeviceCopy {
    frame.copied_to(&session(device, LIMITS))
}

/// A frame with equal pixels and a copy on `device`.
pub(crate) fn resident(frame: &Frame, device: &Device) -> Frame {
    let frame = Frame::new(frame.size(), frame.pixels().to_vec().into());
    frame.keep_on_device(on(device, &frame));
    frame
}

/// The share of values that differ by more than rounding.
pub(crate) fn off(expected: &[u8], actual: &[u8]) -> f64 {
    assert_eq!(expected.len(), actual.len());
    let differs = |(one, other): &(&u8, &u8)| one.abs_diff(**other) > ROUNDING;
    expected.iter().zip(actual).filter(differs).count() as f64 / expected.len() as f64
}

pub(crate) fn assert_alike(expected: &[u8], actual: &[u8], what: &str) {
    let share = off(expected, actual);
    eprintln!("{what}: {share:.6} off");
    assert!(share <= MOST_OFF, "{what}: {share} of the values differ by more than {ROUNDING}");
}

/// Intersection over union of two mattes, as fuzzy sets.
pub(crate) fn iou(one: &[u8], other: &[u8]) -> f64 {
    let sum = |pick: fn(u8, u8) -> u8| one.iter().zip(other).map(|(&a, &b)| f64::from(pick(a, b))).sum::<f64>();
    sum(Ord::min) / sum(Ord::max)
}

pub(crate) fn channel(frame: &Frame, at: usize) -> Vec<u8> {
    frame.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[at]).collect()
}

/// `cutout` on a green screen whose light is a seventh of the subject's, mixed in encoded values.
pub(crate) fn before_green(cutout: &Frame) -> Frame {
    const GREEN: [u16; 3] = [30, 190, 50];
    let mut frame = Frame::new(cutout.size(), cutout.pixels().to_vec().into());
    for pixel in frame.pixels_mut().as_chunks_mut::<4>().0 {
        let alpha = u16::from(pixel[3]) * 6 / 7;
        let mixed = |at: usize| ((u16::from(pixel[at]) * alpha + GREEN[at] * (255 - alpha)) / 255) as u8;
        *pixel = [mixed(0), mixed(1), mixed(2), 255];
    }
    frame
}
