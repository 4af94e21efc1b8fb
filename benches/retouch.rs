//! The auxiliary networks (face detection, face restoration, upscaling): `cargo bench --bench retouch`.

use std::hint::black_box;

use backdrop::image::{Buffer, Frame, Size};
use backdrop::model::{CpuRetoucher, FACE_SIDE, FaceCrop, FaceSearch, Factor, Retoucher};
use backdrop_kernels::conv::Isa;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// A ball on a shaded background. Unless `opaque`, its soft edge ends in transparency.
fn frame(width: u32, height: u32, opaque: bool) -> Frame {
    let pixel = |x: u32, y: u32| {
        let (u, v) = (x as f32 / width as f32 - 0.5, y as f32 / height as f32 - 0.5);
        let inside = ((0.35 - u.hypot(v)) * 60.0 + 0.5).clamp(0.0, 1.0);
        let alpha = if opaque { 255 } else { (inside * 255.0) as u8 };
        [(200.0 * inside) as u8 + 30, (x % 256) as u8, (y % 256) as u8, alpha]
    };
    let pixels: Vec<u8> = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
    Frame::new(Size::new(width, height), Buffer::from(pixels))
}

fn isas() -> impl Iterator<Item = (&'static str, CpuRetoucher)> {
    let named = [("avx512", Isa::Avx512), ("avx2", Isa::Avx2), ("portable", Isa::Portable)];
    named.into_iter().filter(|(_, isa)| isa.is_available()).map(|(name, isa)| (name, CpuRetoucher::new(isa)))
}

/// Face detection in a picture.
fn faces(c: &mut Criterion) {
    let mut group = c.benchmark_group("retouch/faces");
    for (name, retoucher) in isas() {
        for (width, height) in [(320, 320), (4000, 3000)] {
            let frame = frame(width, height, true);
            group.bench_function(BenchmarkId::new(name, format!("{width}x{height}")), |b| {
                b.iter(|| retoucher.faces(black_box(&frame), FaceSearch::All).expect("the CPU does not fail"));
            });
        }
    }
    group.finish();
}

/// Restoration of one aligned face.
fn restore(c: &mut Criterion) {
    let face = FaceCrop((0..FACE_SIDE * FACE_SIDE).map(|at| [(at as f32 * 0.001).sin().abs(), 0.5, 0.4]).collect());
    let mut group = c.benchmark_group("retouch/restore");
    for (name, retoucher) in isas() {
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| retoucher.restoration(black_box(&face)).expect("the CPU does not fail"));
        });
    }
    group.finish();
}

/// One megapixel upscaled to four and to sixteen.
fn upscale(c: &mut Criterion) {
    let mut group = c.benchmark_group("retouch/upscale");
    group.sample_size(10);
    for (name, retoucher) in isas() {
        for (kind, opaque) in [("opaque", true), ("transparent", false)] {
            let frame = frame(1024, 1024, opaque);
            group.throughput(Throughput::Elements(1024 * 1024));
            for factor in Factor::ALL {
                let id = BenchmarkId::new(name, format!("1024x1024/{kind}/x{}", factor.get()));
                group.bench_function(id, |b| {
                    b.iter_batched(
                        || frame.clone(),
                        |frame| retoucher.enlarged(black_box(frame), factor).expect("the CPU does not fail"),
                        BatchSize::LargeInput,
                    );
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, faces, restore, upscale);
criterion_main!(benches);
