//! One GPU compared with the machine's CPU: `cargo bench --bench gpu -- [--device NAME] [MEGAPIXELS...]`.
//!
//! Four tables: the network in batches; matting of one picture and of four in flight; a clip of 1920×1080 with its codecs, if
//! ffmpeg is installed; and pictures through the engine with the recipes of `/remove` and `/studio-shot` for 1, 8 and 32 clients,
//! with the bytes of each picture that were uploaded and downloaded. The device is the best one, or the first whose name contains
//! `NAME`. The least time of several runs is printed. No row begins after nine minutes, so that the command ends within ten.
//!
//! Matting is timed from the clean-up of the mask on the host to the cutout in host memory. The upload of the picture belongs to
//! the network and is timed separately. Each picture in flight has one thread, as in the daemon. On a software adapter the
//! network's side is 64 cells: its times say nothing about a GPU.

mod support;

use backdrop::codec::Limits;
use backdrop::engine::{Engine, EngineConfig, Lane, SegmenterFactory, Tenant};
use backdrop::image::color::Color;
use backdrop::image::{Buffer, DeviceCopy, DeviceSession, Frame, RawMask, Size, Transferred};
use backdrop::matting::{self, Options};
use backdrop::model::device::{Adapter, AdapterKind, adapters};
use backdrop::model::weights::architecture::Network;
use backdrop::model::weights::{Card, Weights};
use backdrop::model::{CpuSegmenter, GpuSegmenter, Segmenter};
use backdrop::pipeline::{self, Call};
use backdrop::recipe::{Fields, Recipe, VideoFormat, VideoRecipe};
use backdrop::video::{self, Tools, VideoConfig};
use backdrop_kernels::conv::Isa;
use backdrop_kernels::device::download;
use bytes::Bytes;
use futures_util::future::join_all;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;
/// No further run of a row begins after this time.
const ROW: Duration = Duration::from_secs(4);
/// No further row begins after this time.
const ALL: Duration = Duration::from_secs(540);
/// Pictures in flight in the table of matting.
const TOGETHER: usize = 4;
const BATCHES: [usize; 5] = [1, 4, 8, 16, 32];
const CLIENTS: [usize; 3] = [1, 8, 32];
/// Cells along a side of the network's grid on a software adapter.
const GRID: u32 = 384;
const SOFTWARE_SIDE: usize = 64;
/// Frames of a clip on a GPU and on a software adapter.
const FRAMES: u32 = 120;
const SOFTWARE_FRAMES: u32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut name = None;
    let mut sizes = Vec::new();
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--device" => name = arguments.next(),
            size => sizes.push(size.parse::<f64>()?),
        }
    }
    let wanted = |adapter: &&Adapter| name.as_ref().is_none_or(|name| adapter.name.contains(name));
    let Some(adapter) = adapters().iter().filter(wanted).min_by_key(|adapter| adapter.kind) else {
        return Err("no such graphics adapter".into());
    };
    println!("CPU of {} threads, and {adapter}\n", std::thread::available_parallelism()?);
    let bench = Bench { adapter, weights: Arc::new(weights(adapter)), began: Instant::now() };
    bench.network()?;
    bench.matting(if sizes.is_empty() { &[1.0, 4.0, 16.8] } else { &sizes })?;
    bench.clips()?;
    bench.pictures(if sizes.is_empty() { &[0.26, 12.0, 16.8] } else { &sizes })?;
    Ok(())
}

/// The embedded weights, with a smaller picture for a software adapter.
fn weights(adapter: &Adapter) -> Weights {
    let weights = Weights::embedded();
    let card = weights.card().clone();
    match adapter.kind {
        AdapterKind::Software => {
            weights.with_card(Card { network: Network::Fgnet { input_side: SOFTWARE_SIDE }, ..card })
        }
        AdapterKind::Discrete | AdapterKind::Integrated | AdapterKind::Virtual => weights,
    }
}

struct Bench<'a> {
    adapter: &'a Adapter,
    weights: Arc<Weights>,
    began: Instant,
}

impl Bench<'_> {
    fn has_time(&self) -> bool {
        let has_time = self.began.elapsed() < ALL;
        if !has_time {
            println!("(left out: the time is over)");
        }
        has_time
    }

    fn network(&self) -> Result<(), Box<dyn Error>> {
        let most = BATCHES[BATCHES.len() - 1];
        let began = Instant::now();
        let on_gpu = GpuSegmenter::start(self.adapter, &self.weights, most)?;
        println!("loading, self-test and warm-up: {:.1} s\n", began.elapsed().as_secs_f64());
        println!("{:20} {:44} {:>6} {:>12} {:>12}", "network", "device", "batch", "ms", "pictures/s");
        let frame = picture(GRID);
        let on_cpu = CpuSegmenter::new(&self.weights, Isa::detect())?;
        let mut networks: [(String, Box<dyn Segmenter>); 2] =
            [("CPU".to_owned(), Box::new(on_cpu)), (self.adapter.to_string(), Box::new(on_gpu))];
        for batch in BATCHES {
            for (device, network) in &mut networks {
                if !self.has_time() {
                    return Ok(());
                }
                let frames = vec![frame.clone(); batch];
                let frames: Vec<&Frame> = frames.iter().collect();
                let took = least(|| drop(network.segment(&frames).expect("the device computes")));
                let rate = batch as f64 / took.as_secs_f64();
                let (model, ms) = (network.model(), took.as_secs_f64() * 1e3);
                println!("{model:20} {device:44} {batch:>6} {ms:>12.1} {rate:>12.1}");
            }
        }
        Ok(())
    }

    fn matting(&self, sizes: &[f64]) -> Result<(), Box<dyn Error>> {
        let session = self.adapter.session()?;
        println!("\n{:44} {:>6} {:>10} {:>10} {:>16}", "matting, ms", "MP", "upload", "matting", "with 4 in flight");
        for &megapixels in sizes {
            let frame = picture(side(megapixels));
            let mask = mask();
            let row = |device: &str, upload: Duration, alone: Duration, together: Duration| {
                let ms = |time: Duration| time.as_secs_f64() * 1e3;
                println!("{device:44} {megapixels:>6} {:>10.1} {:>10.1} {:>16.1}", ms(upload), ms(alone), ms(together));
            };
            if self.has_time() {
                row("CPU", Duration::ZERO, alone(&frame, &mask, None), together(&frame, &mask, None));
            }
            if self.has_time() {
                // Reading one pixel waits until the device has all of them.
                let first = |copy: DeviceCopy| download(copy.words().slice([0..1_usize, 0..1]));
                let upload = least(|| drop(first(frame.copied_to(&session)).expect("the device computes")));
                let alone = alone(&frame, &mask, Some(&session));
                row(&self.adapter.to_string(), upload, alone, together(&frame, &mask, Some(&session)));
            }
        }
        Ok(())
    }

    /// The options that load the network on the CPU and on the GPU.
    fn devices(&self) -> [(String, SegmenterFactory); 2] {
        let (weights, most) = (Arc::clone(&self.weights), EngineConfig::default().max_batch);
        let on_cpu: SegmenterFactory =
            Arc::new(move || Ok(Box::new(CpuSegmenter::new(&weights, Isa::detect()).expect("the embedded weights"))));
        let (weights, adapter) = (Arc::clone(&self.weights), self.adapter.clone());
        let on_gpu: SegmenterFactory = Arc::new(move || Ok(Box::new(GpuSegmenter::start(&adapter, &weights, most)?)));
        [("CPU".to_owned(), on_cpu), (self.adapter.to_string(), on_gpu)]
    }

    fn clips(&self) -> Result<(), Box<dyn Error>> {
        let Ok(tools) = Tools::find(&VideoConfig::default()) else { return Ok(()) };
        println!("\n{:44} {:20} {:>8} {:>12}", "clips of 1920×1080", "result", "frames", "frames/s");
        let folder = tempfile::tempdir()?;
        let frames = if self.adapter.kind == AdapterKind::Software { SOFTWARE_FRAMES } else { FRAMES };
        let clip = support::panned(folder.path(), frames);
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let defaults = VideoRecipe::of(&Fields::default())?;
        let recipe = |format, background| VideoRecipe { format, background, ..defaults.clone() };
        let recipes = [
            ("mp4 on a colour", recipe(VideoFormat::Mp4, Some(Color([20, 160, 40, 255])))),
            ("webm with alpha", recipe(VideoFormat::Webm, None)),
        ];
        for (device, factory) in self.devices() {
            let engine = Engine::start(&EngineConfig::default(), factory);
            runtime.block_on(engine.ready())?;
            for (what, recipe) in &recipes {
                if !self.has_time() {
                    return Ok(());
                }
                let job = tempfile::tempdir()?;
                let done = runtime.block_on(video::remove(
                    &engine,
                    Tenant::default(),
                    &tools,
                    &clip,
                    job.path(),
                    recipe,
                    &|_| {},
                ))?;
                let rate = done.frames as f64 / done.took.total.as_secs_f64();
                println!("{device:44} {what:20} {:>8} {rate:>12.2}", done.frames);
            }
            runtime.block_on(engine.shutdown());
        }
        Ok(())
    }

    fn pictures(&self, sizes: &[f64]) -> Result<(), Box<dyn Error>> {
        println!(
            "\n{:44} {:12} {:>6} {:>8} {:>12} {:>12} {:>12}",
            "whole pictures", "endpoint", "MP", "clients", "pictures/s", "MB up", "MB down"
        );
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let recipes = ["remove", "studio-shot"].map(|endpoint| (endpoint, support::recipe(endpoint, &[])));
        for (device, factory) in self.devices() {
            let engine = Engine::start(&EngineConfig::default(), factory);
            runtime.block_on(engine.ready())?;
            for (endpoint, recipe) in &recipes {
                for &megapixels in sizes {
                    let photo = support::photo(Size::new(side(megapixels), side(megapixels)));
                    for clients in CLIENTS {
                        if !self.has_time() {
                            return Ok(());
                        }
                        let (took, Transferred { up, down }) = in_flight(&runtime, &engine, recipe, &photo, clients);
                        let (rate, mb) = (clients as f64 / took.as_secs_f64(), |bytes: u64| bytes as f64 / 1e6);
                        let (up, down) = (mb(up), mb(down));
                        println!(
                            "{device:44} {endpoint:12} {megapixels:>6} {clients:>8} {rate:>12.2} {up:>12.2} {down:>12.2}"
                        );
                    }
                }
            }
            runtime.block_on(engine.shutdown());
        }
        Ok(())
    }
}

/// Time of one request by each of `clients` at once, and the bytes uploaded and downloaded for the last one.
fn in_flight(
    runtime: &Runtime,
    engine: &Engine,
    recipe: &Recipe,
    photo: &Bytes,
    clients: usize,
) -> (Duration, Transferred) {
    let one = || {
        let deadline = Instant::now() + Duration::from_secs(600);
        let call = Call { lane: Lane::Interactive, tenant: Tenant::default(), deadline, limits: Limits::default() };
        async move { pipeline::run(engine, photo.clone(), recipe, &call).await }
    };
    let mut moved = None;
    let took = least(|| {
        let outputs = runtime.block_on(join_all((0..clients).map(|_| one())));
        for output in outputs {
            moved = output.expect("a picture").timings.transferred;
        }
    });
    (took, moved.unwrap_or_default())
}

/// Side of a square picture.
fn side(megapixels: f64) -> u32 {
    (megapixels * 1e6).sqrt().min(4096.0) as u32
}

/// A copy of `frame`, also on `device` if it is present.
fn prepared(frame: &Frame, device: Option<&DeviceSession>) -> Frame {
    let frame = Frame::new(frame.size(), frame.pixels().to_vec().into());
    if let Some(device) = device {
        frame.keep_on_device(frame.copied_to(device));
    }
    frame
}

fn alone(frame: &Frame, mask: &RawMask, device: Option<&DeviceSession>) -> Duration {
    let mut frames: Vec<Frame> = (0..RUNS).map(|_| prepared(frame, device)).collect();
    least(|| cut_out(frames.pop().expect("one for each run"), mask))
}

/// Time of one of several pictures in flight: the time of all, divided by their number.
fn together(frame: &Frame, mask: &RawMask, device: Option<&DeviceSession>) -> Duration {
    let mut runs: Vec<Vec<Frame>> =
        (0..RUNS).map(|_| (0..TOGETHER).map(|_| prepared(frame, device)).collect()).collect();
    let all = least(|| {
        let frames = runs.pop().expect("some for each run");
        std::thread::scope(|scope| {
            for frame in frames {
                scope.spawn(move || cut_out(frame, mask));
            }
        });
    });
    all / TOGETHER as u32
}

fn cut_out(frame: Frame, mask: &RawMask) {
    // Runs on the CPU unless the frame has a copy on a device.
    matting::gpu::cut_out(frame, mask, &Options::default()).expect("a subject");
}

/// The least time of several runs of `work`; of fewer if they are long.
fn least(mut work: impl FnMut()) -> Duration {
    let began = Instant::now();
    let mut least = Duration::MAX;
    for run in 0..RUNS {
        if run > 0 && began.elapsed() > ROW {
            break;
        }
        let began = Instant::now();
        work();
        least = least.min(began.elapsed());
    }
    least
}

/// Coverage (0 to 1) of a fringed disc at (`x`, `y`), with an edge `edge` wide.
fn covered(x: f32, y: f32, edge: f32) -> f32 {
    let (x, y) = (x - 0.5, y - 0.5);
    let fringe = 0.01 * (60.0 * y.atan2(x)).sin();
    ((0.3 + fringe - x.hypot(y)) / edge + 0.5).clamp(0.0, 1.0)
}

fn picture(side: u32) -> Frame {
    let at = |pixel: u32| (pixel as f32 + 0.5) / side as f32;
    let pixels = (0..side).flat_map(|y| (0..side).map(move |x| (x, y))).flat_map(|(x, y)| {
        let grain = (x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) >> 13) % 9;
        let alpha = covered(at(x), at(y), 0.004);
        let mixed = |front: f32, back: f32| (front * alpha + back * (1.0 - alpha)) as u8 + grain as u8;
        [mixed(210.0, 40.0), mixed(120.0, 70.0), mixed(60.0 + 40.0 * at(x), 150.0), 255]
    });
    Frame::new(Size::new(side, side), Buffer::from(pixels.collect::<Vec<u8>>()))
}

fn mask() -> RawMask {
    let at = |cell: u32| (cell as f32 + 0.5) / GRID as f32;
    let values = (0..GRID).flat_map(|y| (0..GRID).map(move |x| covered(at(x), at(y), 0.02)));
    RawMask::new(Size::new(GRID, GRID), values.collect::<Vec<f32>>()).expect("probabilities")
}
