//! The whole way of one picture, from the bytes of a JPEG to the bytes of a PNG, on the CPU.

use backdrop::codec::{self, Channels, EncodeOptions, PngEffort};
use backdrop::engine::{Engine, EngineConfig, Lane};
use backdrop::image::{Buffer, Composite, Frame, OutputFormat, Quality, Size};
use backdrop::model::weights::Weights;
use backdrop::model::{CpuSegmenter, SegmentError, Segmenter};
use backdrop::pipeline::{self, Call};
use backdrop::recipe::Recipe;
use backdrop_kernels::conv::Isa;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A bright ball with a ragged edge on a shaded ground: a subject, and a band to be solved around it.
fn photo(size: Size) -> Bytes {
    let (width, height) = (size.width as f32, size.height as f32);
    let pixel = |x: u32, y: u32| {
        let (u, v) = (x as f32 / width - 0.5, y as f32 / height - 0.5);
        let angle = v.atan2(u);
        let radius = 0.3 + 0.01 * (angle * 90.0).sin() + 0.02 * (angle * 7.0).sin();
        if u.hypot(v) < radius {
            [(235.0 - 120.0 * u) as u8, (180.0 - 90.0 * v) as u8, 80, 255]
        } else {
            [(50.0 + 60.0 * v) as u8, (70.0 + 30.0 * u) as u8, 90, 255]
        }
    };
    let pixels: Vec<u8> = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| pixel(x, y))).collect();
    let options = EncodeOptions { format: OutputFormat::Jpeg, ..encode_options() };
    codec::encode(Composite(Frame::new(size, Buffer::from(pixels))), &options).expect("a JPEG").bytes
}

fn encode_options() -> EncodeOptions {
    EncodeOptions {
        format: OutputFormat::Png,
        quality: Quality::DEFAULT,
        png: PngEffort::Fast,
        channels: Channels::Rgba,
    }
}

fn remove(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    let weights = Weights::embedded();
    let factory = move || -> Result<Box<dyn Segmenter>, SegmentError> {
        CpuSegmenter::new(&weights, Isa::detect())
            .map(|network| Box::new(network) as Box<dyn Segmenter>)
            .map_err(|error| SegmentError::Device(error.to_string()))
    };
    let engine = Engine::start(&EngineConfig::default(), Arc::new(factory));
    runtime.block_on(engine.ready()).expect("the embedded weights");
    let recipe = Recipe { encode: encode_options(), ..Recipe::default() };
    let mut group = criterion.benchmark_group("pipeline/remove");
    group.sample_size(10);
    for (name, size) in [("1mp", Size::new(1152, 864)), ("4mp", Size::new(2304, 1728)), ("12mp", Size::new(4000, 3000))]
    {
        let file = photo(size);
        group.throughput(Throughput::Elements(size.area() as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                let call = Call { lane: Lane::Interactive, deadline: Instant::now() + Duration::from_secs(60) };
                runtime.block_on(pipeline::run(&engine, file.clone(), &recipe, &call)).expect("a cutout")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, remove);
criterion_main!(benches);
