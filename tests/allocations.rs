//! In the steady state no memory of the size of a picture is allocated between decoding and encoding: the buffers of earlier
//! pictures are reused.
//!
//! Counts the bytes that all threads allocate while pictures run through the pipeline, from the end of the stage `decode` to the
//! start of the stage `encode`, including the network.

use backdrop::codec::{self, Limits};
use backdrop::engine::{Engine, EngineConfig, Lane, Tenant};
use backdrop::image::BufferPool;
use backdrop::model::device::{ActiveDevice, DeviceChoice};
use backdrop::model::weights::Weights;
use backdrop::pipeline::{self, Call};
use backdrop::recipe::{ENDPOINTS, Fields, Recipe};
use bytes::Bytes;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Runs of each photo: first the uncounted, then the counted ones.
const WARM_UP: usize = 5;
const COUNTED: usize = 5;
/// Bytes that may be allocated in the median run: two batches of the network allocate some 40 KiB of small objects, and a thread of
/// the pool allocates its scratch memory at the first strip that it steals, in any run.
const MOST_BYTES: u64 = 128 << 10;

/// The system's allocator, with a count of all requested bytes.
struct Counting;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The count at the end of the last stage `decode`, and the bytes allocated from there to the start of `encode`.
static DECODED: AtomicU64 = AtomicU64::new(0);
static BETWEEN: AtomicU64 = AtomicU64::new(0);

/// Reads the count at the pipeline's spans of stages.
struct Stages;

const DECODE: u64 = 1;
const ENCODE: u64 = 2;
const OTHER: u64 = 3;

impl Subscriber for Stages {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "stage"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        struct Stage(u64);
        impl Visit for Stage {
            fn record_str(&mut self, _: &Field, name: &str) {
                self.0 = match name {
                    "decode" => DECODE,
                    "encode" => ENCODE,
                    _ => OTHER,
                };
            }
            fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
        }
        let mut stage = Stage(OTHER);
        span.record(&mut stage);
        Id::from_u64(stage.0)
    }

    fn enter(&self, span: &Id) {
        let allocated = ALLOCATED.load(Ordering::Relaxed);
        if span.into_u64() == ENCODE {
            BETWEEN.store(allocated - DECODED.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn exit(&self, span: &Id) {
        let allocated = ALLOCATED.load(Ordering::Relaxed);
        if span.into_u64() == DECODE {
            DECODED.store(allocated, Ordering::Relaxed);
        }
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
}

fn recipe(endpoint: &str, fields: &[(&str, &str)]) -> Recipe {
    let mut given = Fields::default();
    fields.iter().for_each(|(name, value)| given.push(name, value).expect("each once"));
    let endpoint = ENDPOINTS.iter().find(|other| other.name == endpoint).expect("it is there");
    endpoint.recipe(&given).expect("valid fields")
}

fn photo(name: &str) -> Bytes {
    fs::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/photos").join(name))
        .expect("a photo of the tests")
        .into()
}

/// `photo` in the middle of a grey picture of three times its width and height: a small subject, which is segmented a second time.
fn on_grey(photo: &Bytes) -> Bytes {
    let header = codec::probe(photo, &Limits::default()).expect("a photo");
    let frame = codec::decode(photo, &header, &BufferPool::new(0)).expect("a photo");
    let [width, height] = [frame.size().width as usize, frame.size().height as usize];
    let mut pixels = vec![128; 9 * width * height * 4];
    for (y, row) in frame.pixels().chunks_exact(4 * width).enumerate() {
        pixels[((height + y) * 3 * width + width) * 4..][..row.len()].copy_from_slice(row);
    }
    let (mut file, [width, height]) = (Vec::new(), [width, height].map(|side| 3 * side as u32));
    let encoder = image_webp::WebPEncoder::new(&mut file);
    encoder.encode(&pixels, width, height, image_webp::ColorType::Rgba8).expect("a picture");
    file.into()
}

#[test]
fn nothing_large_is_allocated_between_decoding_and_encoding() {
    tracing::subscriber::set_global_default(Stages).expect("the only one");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (weights, config) = (Weights::embedded(), EngineConfig { cpu_workers: 2, ..EngineConfig::default() });
    let device = ActiveDevice::select(&DeviceChoice::Cpu).expect("the CPU is always there");
    let engine = Engine::start(&config, Arc::new(move || device.segmenter(&weights, config.max_batch)));
    runtime.block_on(engine.ready()).expect("the embedded weights");
    let [astronaut, coffee] = ["astronaut.jpg", "coffee.jpg"].map(photo);
    let photos = [on_grey(&astronaut), astronaut, coffee];
    let recipes: [(&str, Recipe); 3] = [
        ("a cutout", recipe("remove", &[])),
        ("on a colour", recipe("replace-bg", &[("bg_color", "#3366cc")])),
        ("with a hard edge and despill", recipe("remove", &[("edge", "hard"), ("despill", "100")])),
    ];
    for (name, recipe) in &recipes {
        let mut allocated = photos.each_ref().map(|_| Vec::new());
        for run in 0..WARM_UP + COUNTED {
            for (photo, counts) in photos.iter().zip(&mut allocated) {
                let call = Call {
                    lane: Lane::Interactive,
                    tenant: Tenant::default(),
                    deadline: Instant::now() + Duration::from_secs(60),
                    limits: Limits::default(),
                };
                runtime.block_on(pipeline::run(&engine, photo.clone(), recipe, &call)).expect("a picture");
                let between = BETWEEN.swap(u64::MAX, Ordering::Relaxed);
                assert_ne!(between, u64::MAX, "the stages were not seen");
                println!("{name}: run {run}: {between} bytes");
                if run >= WARM_UP {
                    counts.push(between);
                }
            }
        }
        for mut counts in allocated {
            counts.sort_unstable();
            let median = counts[COUNTED / 2];
            assert!(median <= MOST_BYTES, "{name}: {median} bytes in the median of {counts:?}");
        }
    }
}
