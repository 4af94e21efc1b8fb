//! The networks on a GPU, or on Mesa's lavapipe without a GPU, give the CPU's results.
//!
//! lavapipe takes minutes for the network at its full side. The tests run it at 128, because the network is fully convolutional; at
//! 96 it finds no subject in some pictures. Without an adapter the tests are skipped with a notice, or fail with
//! `BACKDROP_TEST_DEVICE=gpu` in the environment.

use crate::model::retouch_support::{crop, largest_difference, small_picture, spread, thinned};
use crate::support::skipped;
use backdrop::image::{Buffer, Frame, RawMask, Size};
use backdrop::model::device::{Adapter, adapters};
use backdrop::model::weights::architecture::{Network, fgnet};
use backdrop::model::weights::{Card, Weights};
use backdrop::model::{
    CpuRetoucher, CpuSegmenter, FaceSearch, Factor, GpuRetoucher, GpuSegmenter, Retoucher, Segmenter,
};
use backdrop_kernels::conv::Isa;

pub(crate) const SIDE: usize = 128;

/// Largest difference between the masks or the restorations of two devices.
const TOLERANCE: f32 = 2e-3;

/// The best adapter.
pub(crate) fn adapter() -> Option<Adapter> {
    let best = adapters().iter().min_by_key(|adapter| adapter.kind).cloned();
    if best.is_none() {
        #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
        let wanted = std::env::var("BACKDROP_TEST_DEVICE").is_ok_and(|value| value == "gpu");
        assert!(!wanted, "BACKDROP_TEST_DEVICE=gpu, but there is no graphics adapter");
        skipped::notice("no graphics adapter, the GPU networks were NOT tested (install mesa-vulkan-drivers)");
    }
    best
}

pub(crate) fn weights() -> Weights {
    let weights = Weights::embedded();
    let card = weights.card().clone();
    weights.with_card(Card { network: Network::Fgnet { input_side: SIDE }, ..card })
}

/// A disc on a gradient, with a transparent stripe.
fn picture(width: u32, height: u32, radius: f32) -> Frame {
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let (across, down) = (x as f32 / width as f32, y as f32 / height as f32);
            let alpha = if (0.2..0.25).contains(&across) { 90 } else { 255 };
            let inside = (across - 0.5).hypot(down - 0.5) < radius;
            let shade = (across * 90.0 + down * 60.0) as u8;
            pixels.extend(if inside { [230, 120, 40, alpha] } else { [shade, shade / 2 + 40, 90, alpha] });
        }
    }
    Frame::new(Size::new(width, height), Buffer::from(pixels))
}

fn pictures() -> Vec<Frame> {
    vec![picture(67, 45, 0.3), picture(300, 200, 0.25), picture(1, 1, 0.3), picture(4096, 8, 0.4), picture(64, 64, 0.2)]
}

fn assert_alike(expected: &RawMask, actual: &RawMask, what: &str) {
    assert_eq!(expected.size(), actual.size(), "{what}");
    let off = expected.values().iter().zip(actual.values()).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    assert!(off <= TOLERANCE, "{what}: {off}");
}

#[test]
fn masks_on_the_gpu_agree_with_the_cpu_and_are_the_same_bits_in_any_batch_and_after_reloading() {
    let Some(adapter) = adapter() else { return };
    assert!(fgnet::is_input_side(SIDE));
    let weights = weights();
    let started = std::time::Instant::now();
    let mut segmenter = GpuSegmenter::start(&adapter, &weights, 2).expect("the adapter passes its own test");
    eprintln!("started on {adapter} in {:?}", started.elapsed());
    assert_eq!(segmenter.model(), weights.model());
    assert_eq!(segmenter.device(), adapter.to_string());
    let frames = pictures();
    let mut cpu = CpuSegmenter::new(&weights, Isa::detect()).expect("the embedded weights are complete");
    let expected = cpu.segment(&frames.iter().collect::<Vec<_>>()).expect("the CPU computes");
    let spread =
        |mask: &RawMask| mask.values().iter().fold((1.0f32, 0.0f32), |(low, high), &v| (low.min(v), high.max(v)));
    assert!(expected.iter().any(|mask| spread(mask).1 - spread(mask).0 > 0.3), "the references are flat");

    assert_eq!(segmenter.segment(&[]).expect("nothing to do"), []);
    let mut alone = Vec::new();
    for (frame, expected) in frames.iter().zip(&expected) {
        let mask = segmenter.segment(&[frame]).expect("the device computes").remove(0);
        assert_alike(expected, &mask, "alone");
        alone.push(mask);
    }
    // A device gives equal bits in any batch.
    for size in [2, frames.len()] {
        for (batch, alone) in frames.chunks(size).zip(alone.chunks(size)) {
            let batch: Vec<&Frame> = batch.iter().collect();
            assert_eq!(segmenter.segment(&batch).expect("the device computes"), alone, "batches of {size}");
        }
    }

    // The engine unloads an idle network and loads it again: the adapter is shared, not opened twice.
    drop(segmenter);
    let mut reloaded = GpuSegmenter::start(&adapter, &weights, 1).expect("the adapter passes its own test again");
    let mask = reloaded.segment(&[&frames[1]]).expect("the device computes").remove(0);
    assert_eq!(mask, alone[1], "after unloading and reloading");
}

#[test]
fn retouching_on_an_adapter_agrees_with_the_cpu() {
    let Some(adapter) = adapter() else { return };
    let (gpu, cpu) = (GpuRetoucher::new(&adapter, std::time::Duration::from_secs(1800)), CpuRetoucher::default());
    let picture = small_picture();
    for by in Factor::ALL {
        let found = gpu.enlarged(picture.clone(), by).expect("the adapter passes its own test");
        let expected = cpu.enlarged(picture.clone(), by).expect("the CPU computes");
        assert_eq!(found.size(), expected.size());
        let pairs = found.pixels().iter().zip(expected.pixels());
        assert!(pairs.clone().all(|(one, other)| one.abs_diff(*other) <= 1), "{by:?}");
    }
    let added = |retoucher: &dyn Retoucher| thinned(&retoucher.restoration(&crop()).expect("both compute"));
    let (found, expected) = (added(&gpu), added(&cpu));
    let difference = largest_difference(&found, &expected);
    eprintln!("restoration: {difference:e} of {}", spread(&expected));
    assert!(difference <= TOLERANCE, "restoration: a value is {difference} off");
    assert!(spread(&expected) > 10.0 * TOLERANCE, "the reference is flat");
    let faces = |retoucher: &dyn Retoucher| retoucher.faces(&picture, FaceSearch::All).expect("both compute").len();
    assert_eq!(faces(&gpu), faces(&cpu));
}
