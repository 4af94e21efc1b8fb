//! Clean-up of two masks: a disc with a sharp edge, and a mask that is uncertain except for a frame and a core.

use backdrop::image::{Frame, RawMask, Size};
use backdrop::matting::clean::clean;
use backdrop::matting::{CleanParams, Seeds};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;

const SIDE: u32 = 384;

/// Distance between the centres of a cell and of the grid, 0 to about 0.7.
fn distance(at: u32) -> f32 {
    let [x, y] = [at % SIDE, at / SIDE].map(|cell| (cell as f32 + 0.5) / SIDE as f32 - 0.5);
    f32::hypot(x, y)
}

fn mask(value: impl Fn(f32) -> f32) -> RawMask {
    let values = (0..SIDE * SIDE).map(|at| value(distance(at)).clamp(0.0, 1.0)).collect::<Vec<f32>>();
    RawMask::new(Size::new(SIDE, SIDE), values).expect("probabilities")
}

fn frame(side: u32) -> Frame {
    let at = |at: u32| f32::hypot((at % side) as f32 / side as f32 - 0.5, (at / side) as f32 / side as f32 - 0.5);
    let grain = |at: u32| (at.wrapping_mul(2_654_435_761) >> 27) as u8;
    let pixels = (0..side * side).flat_map(|pixel| {
        let [red, blue] = if at(pixel) < 0.3 { [40, 180] } else { [190, 40] };
        [red + grain(pixel), 60, blue, 255]
    });
    Frame::new(Size::new(side, side), pixels.collect::<Vec<u8>>().into())
}

fn benches(criterion: &mut Criterion) {
    let edge = mask(|distance| 0.5 + (0.3 - distance) * 60.0);
    let uncertain = mask(|distance| match distance {
        distance if distance < 0.05 => 1.0,
        distance if distance > 0.5 => 0.0,
        distance => 0.8 - distance,
    });
    let mut group = criterion.benchmark_group("clean/cpu");
    for side in [512, 4096] {
        let frame = frame(side);
        for (name, mask) in [("edge", &edge), ("uncertain", &uncertain)] {
            for (mode, decontaminate) in [("", false), ("/decontaminate", true)] {
                let params = CleanParams { decontaminate, opaque: false };
                group.bench_function(BenchmarkId::new(format!("{name}{mode}"), side), |bench| {
                    bench.iter(|| clean(&frame, black_box(mask), &Seeds::default(), params).expect("a subject"));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(cleaning, benches);
criterion_main!(cleaning);
