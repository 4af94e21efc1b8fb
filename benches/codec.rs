//! Benchmarks decoders and encoders on generated pictures: `cargo bench --bench codec`.

use backdrop::codec::{self, Channels, EncodeOptions, Limits, PngEffort};
use backdrop::image::{Buffer, BufferPool, Composite, Frame, OutputFormat, Quality, Size};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const PHOTO: Size = Size::new(4000, 3000);
const WEB: Size = Size::new(512, 512);

/// A gradient with edges and noise, about as compressible as a photo. In a cutout only a soft disc is opaque.
fn picture(size: Size, cutout: bool) -> Frame {
    let (width, height) = (size.width as f32, size.height as f32);
    let mut seed = 1_u32;
    let mut pixels = vec![0; size.area() * 4];
    for (index, pixel) in pixels.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let (x, y) = ((index % size.width as usize) as f32 / width, (index / size.width as usize) as f32 / height);
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (seed >> 28) as f32 - 8.0;
        let edges = if ((x * 40.0).sin() * (y * 30.0).cos()) > 0.3 { 60.0 } else { 0.0 };
        let level = |base: f32| (base + edges + noise).clamp(0.0, 255.0) as u8;
        let alpha = if cutout { ((0.4 - (x - 0.5).hypot(y - 0.5)) * 8000.0).clamp(0.0, 255.0) as u8 } else { 255 };
        *pixel = [level(40.0 + 150.0 * x), level(60.0 + 120.0 * y), level(160.0 - 100.0 * x * y), alpha];
    }
    Frame::new(size, Buffer::from(pixels))
}

fn options(format: OutputFormat, png: PngEffort) -> EncodeOptions {
    EncodeOptions { format, quality: Quality::DEFAULT, png, channels: Channels::Rgba }
}

fn decoders(c: &mut Criterion) {
    let pool = BufferPool::new(256 << 20);
    let limits = Limits { max_bytes: usize::MAX, ..Limits::default() };
    let mut group = c.benchmark_group("decode");
    for (pixels, size) in [("0.26mp", WEB), ("12mp", PHOTO)] {
        group.sample_size(10).throughput(Throughput::Elements(size.area() as u64));
        for (name, format) in [("jpeg", OutputFormat::Jpeg), ("png", OutputFormat::Png), ("webp", OutputFormat::WebP)] {
            let options = options(format, PngEffort::Default);
            let file = codec::encode(Composite::unchanged(picture(size, false)), &options).expect("a file");
            group.bench_function(format!("{name}/{pixels}"), |b| {
                b.iter(|| {
                    let header = codec::probe(&file.bytes, &limits).expect("a header");
                    codec::decode(&file.bytes, &header, &pool).expect("a picture")
                });
            });
        }
    }
    group.finish();
}

fn encoders(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    group.sample_size(10);
    for (pixels, size) in [("0.26mp", WEB), ("12mp", PHOTO)] {
        let cutout = picture(size, true);
        group.throughput(Throughput::Elements(size.area() as u64));
        for (name, format, png) in [
            ("png-fast", OutputFormat::Png, PngEffort::Fast),
            ("png-default", OutputFormat::Png, PngEffort::Default),
            ("png-best", OutputFormat::Png, PngEffort::Best),
            ("webp", OutputFormat::WebP, PngEffort::Default),
        ] {
            group.bench_function(format!("{name}/{pixels}"), |b| {
                let encode = |frame| codec::encode(Composite::unchanged(frame), &options(format, png)).expect("a file");
                b.iter_batched(|| cutout.clone(), encode, BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, decoders, encoders);
criterion_main!(benches);
