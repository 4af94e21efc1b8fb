//! The whole way of one picture, from the bytes of a JPEG to those of the result, on the CPU.

use backdrop::codec::{self, Channels, EncodeOptions, PngEffort};
use backdrop::engine::{Engine, EngineConfig, Lane};
use backdrop::image::{Buffer, Composite, Frame, OutputFormat, Quality, Size};
use backdrop::model::weights::Weights;
use backdrop::model::{CpuSegmenter, SegmentError, Segmenter};
use backdrop::pipeline::{self, Call};
use backdrop::recipe::{ENDPOINTS, Fields, Recipe};
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

/// An endpoint, fields for it, and the sizes that it is run at.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [(&'static str, Size)]);

const MP1: (&str, Size) = ("1mp", Size::new(1152, 864));
const MP4: (&str, Size) = ("4mp", Size::new(2304, 1728));
const MP12: (&str, Size) = ("12mp", Size::new(4000, 3000));
const LARGEST: (&str, Size) = ("4096x4096", Size::new(4096, 4096));

const CASES: &[Case] = &[
    ("remove", &[], &[MP1, MP4, MP12, LARGEST]),
    ("studio-shot", &[], &[MP12]),
    ("studio-shot", &[("bg_blur", "true")], &[MP12]),
    ("sticker", &[("stroke_width", "100")], &[LARGEST]),
];

fn recipe((endpoint, pairs, _): &Case) -> Recipe {
    let mut fields = Fields::default();
    for (name, value) in *pairs {
        fields.push(name, value).expect("each once");
    }
    let endpoint = ENDPOINTS.iter().find(|one| one.name == *endpoint).expect("it is there");
    endpoint.recipe(&fields).expect("valid fields")
}

fn pictures(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    let weights = Weights::embedded();
    let factory = move || -> Result<Box<dyn Segmenter>, SegmentError> {
        CpuSegmenter::new(&weights, Isa::detect())
            .map(|network| Box::new(network) as Box<dyn Segmenter>)
            .map_err(|error| SegmentError::Device(error.to_string()))
    };
    let engine = Engine::start(&EngineConfig::default(), Arc::new(factory));
    runtime.block_on(engine.ready()).expect("the embedded weights");
    let mut group = criterion.benchmark_group("pipeline");
    group.sample_size(10);
    for case in CASES {
        let recipe = recipe(case);
        let (endpoint, pairs, sizes) = case;
        let set: String = pairs.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        for (name, size) in *sizes {
            let file = photo(*size);
            group.throughput(Throughput::Elements(size.area() as u64));
            group.bench_function(BenchmarkId::new(format!("{endpoint}{set}"), name), |bencher| {
                bencher.iter(|| {
                    let call = Call { lane: Lane::Interactive, deadline: Instant::now() + Duration::from_secs(60) };
                    runtime.block_on(pipeline::run(&engine, file.clone(), &recipe, &call)).expect("a picture")
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, pictures);
criterion_main!(benches);
