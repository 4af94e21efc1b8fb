//! Matting on the CPU: `trimap`, `closed_form` and `foreground` separately, on a drawn disc with a soft rim.

use backdrop::image::{Frame, RawMask, Size};
use backdrop::matting::clean::clean_without_colors;
use backdrop::matting::prior::{MaskPrior, Priors};
use backdrop::matting::{CleanMask, closed_form, foreground, trimap};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn distance(x: f32, y: f32) -> f32 {
    // A wavy rim, so that the band is long: about 8 % of the picture.
    let (dx, dy) = (x - 0.5, y - 0.5);
    f32::hypot(dx, dy) - 0.3 - 0.04 * (f32::atan2(dy, dx) * 9.0).sin()
}

fn mask() -> CleanMask {
    let at = |index: usize| ((index % 384) as f32 + 0.5, (index / 384) as f32 + 0.5);
    let value = |(x, y): (f32, f32)| (0.5 - distance(x / 384.0, y / 384.0) * 60.0).clamp(0.0, 1.0);
    let values = (0..384 * 384).map(|index| value(at(index))).collect::<Vec<f32>>();
    clean_without_colors(&RawMask::new(Size::new(384, 384), values).expect("probabilities")).expect("a subject")
}

fn frame(side: u32) -> Frame {
    let mut pixels = Vec::with_capacity(side as usize * side as usize * 4);
    for (x, y) in (0..side).flat_map(|y| (0..side).map(move |x| (x, y))) {
        let alpha = (0.5 - distance(x as f32 / side as f32, y as f32 / side as f32) * 80.0).clamp(0.0, 1.0);
        let grain = ((x.wrapping_mul(7919) ^ y.wrapping_mul(104_729)) % 9) as f32;
        pixels.extend(
            [40.0, 90.0, 200.0].map(|subject| (alpha * subject + (1.0 - alpha) * (240.0 - subject) + grain) as u8),
        );
        pixels.push(255);
    }
    Frame::new(Size::new(side, side), pixels.into())
}

fn benches(criterion: &mut Criterion) {
    let mask = mask();
    criterion.bench_function("trimap/cpu/16mp", |bench| {
        bench.iter(|| trimap::from_mask(black_box(&mask), Size::new(4096, 4096), None));
    });
    for (name, side) in [("1mp", 1024), ("16mp", 4096)] {
        let frame = frame(side);
        let trimap = trimap::from_mask(&mask, frame.size(), None);
        let prior = MaskPrior::of(&frame, &mask);
        let priors = Priors { mask: Some(&prior), temporal: None };
        let mut group = criterion.benchmark_group("closed_form/cpu");
        group.sample_size(10);
        group.bench_function(name, |bench| {
            bench.iter(|| closed_form::estimate_alpha(&frame, black_box(&trimap), &priors))
        });
        group.finish();
        let matte = closed_form::estimate_alpha(&frame, &trimap, &priors);
        let mut group = criterion.benchmark_group("foreground/cpu");
        group.sample_size(10);
        group.bench_function(name, |bench| {
            bench.iter_batched(
                || frame.clone(),
                |mut frame| foreground::estimate(&mut frame, &matte),
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

criterion_group!(matting, benches);
criterion_main!(matting);
