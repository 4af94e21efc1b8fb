//! Segmentation of one picture and of a batch, and the network's input: `cargo bench --bench network`.

use std::hint::black_box;

use backdrop::image::{Buffer, Frame, Size};
use backdrop::model::weights::Weights;
use backdrop::model::{CpuSegmenter, Segmenter};
use backdrop_kernels::conv::Isa;
use backdrop_kernels::model_input::cpu::model_input;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn frame(side: u32) -> Frame {
    let pixels = (0..side * side).flat_map(|i| [i as u8, (i >> 8) as u8, (i >> 4) as u8, 255]).collect::<Vec<_>>();
    Frame::new(Size::new(side, side), Buffer::from(pixels))
}

/// Resampling, network and sigmoid: the work of the engine's device thread for one batch.
fn network(c: &mut Criterion) {
    let weights = Weights::embedded();
    let frame = frame(384);
    let mut group = c.benchmark_group("network");
    for (name, isa) in
        [("avx512", Isa::Avx512), ("avx512-bf16", Isa::Avx512Bf16), ("avx2", Isa::Avx2), ("portable", Isa::Portable)]
    {
        if !isa.is_available() {
            continue;
        }
        let mut segmenter = CpuSegmenter::new(&weights, isa).expect("the embedded weights are complete");
        for batch in [1, 2, 4, 8] {
            let frames = vec![&frame; batch];
            group.throughput(Throughput::Elements(batch as u64));
            group.bench_function(BenchmarkId::new(name, format!("384/batch{batch}")), |b| {
                b.iter(|| segmenter.segment(black_box(&frames)).expect("the CPU does not fail"));
            });
        }
    }
    group.finish();
}

/// From a photo to the network's input.
fn input(c: &mut Criterion) {
    let mut group = c.benchmark_group("model_input/cpu");
    let mut output = vec![0.0; 384 * 384 * 3];
    for side in [320, 1024, 4096] {
        let frame = frame(side);
        let extent = side as usize;
        group.throughput(Throughput::Elements(u64::from(side) * u64::from(side)));
        group.bench_function(BenchmarkId::from_parameter(side), |b| {
            b.iter(|| model_input(black_box(frame.pixels()), extent, extent, 384, 0, &mut output));
        });
    }
    group.finish();
}

criterion_group!(benches, network, input);
criterion_main!(benches);
