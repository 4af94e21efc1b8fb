//! Fixtures of benches of the pipeline: a photo, an engine, a recipe.

#![allow(dead_code, reason = "not every bench uses all of it")]

use backdrop::codec::{self, Channels, EncodeOptions, Limits, PngEffort};
use backdrop::engine::{Engine, EngineConfig, Lane, Tenant};
use backdrop::image::{Buffer, BufferPool, Composite, Frame, OutputFormat, Quality, RawMask, Size};
use backdrop::model::device::{ActiveDevice, DeviceChoice};
use backdrop::model::weights::Weights;
use backdrop::pipeline::{self, Call};
use backdrop::recipe::{ENDPOINTS, Fields, Network, Recipe};
use bytes::Bytes;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A bright ball with a ragged edge on a shaded ground: a subject with an unknown band around it.
pub(crate) fn photo(size: Size) -> Bytes {
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
    let options = EncodeOptions {
        format: OutputFormat::Jpeg,
        quality: Quality::DEFAULT,
        png: PngEffort::Fast,
        channels: Channels::Rgba,
    };
    codec::encode(Composite::unchanged(Frame::new(size, Buffer::from(pixels))), &options).expect("a JPEG").bytes
}

/// A clip in `folder`: `frames` of a pan over a photo, 1920×1080 at 30 frames per second. Needs ffmpeg.
pub(crate) fn panned(folder: &Path, frames: u32) -> PathBuf {
    let (picture, clip) = (folder.join("photo.jpg"), folder.join("clip.mp4"));
    std::fs::write(&picture, photo(Size::new(2400, 1350))).expect("a photo");
    let ran = Command::new("ffmpeg")
        .args(["-v", "error", "-loop", "1", "-framerate", "30", "-i"])
        .arg(&picture)
        .args(["-vf", "crop=1920:1080:x='480*t/2':y='270*t/2',noise=alls=6:allf=t"])
        .args(["-frames:v", &frames.to_string()])
        .args(["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p"])
        .arg(&clip)
        .status()
        .expect("ffmpeg");
    assert!(ran.success(), "no clip was made");
    clip
}

/// The entries of a folder, by name.
pub(crate) fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// A decoded picture.
pub(crate) fn picture(path: &Path) -> Result<Frame, Box<dyn Error>> {
    let at = |error: &dyn Error| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| at(&error))?;
    let header = codec::probe(&bytes, &Limits::default()).map_err(|error| at(&error))?;
    codec::decode(&bytes, &header, &BufferPool::new(0)).map_err(|error| at(&error).into())
}

/// The network's mask of a frame.
pub(crate) async fn mask(engine: &Engine, frame: Frame) -> Result<RawMask, Box<dyn Error>> {
    let deadline = Instant::now() + Duration::from_secs(600);
    let slot = engine.admit(Tenant::default(), frame.size().area(), deadline).await?;
    let seen = engine.segment(&Network::default(), &slot, vec![frame], Lane::Bulk, deadline).await?;
    Ok(seen.masks.into_iter().next().ok_or("no mask")?)
}

/// The recipe of an endpoint with the fields `pairs`.
pub(crate) fn recipe(endpoint: &str, pairs: &[(&str, &str)]) -> Recipe {
    let mut fields = Fields::default();
    for (name, value) in pairs {
        fields.push(name, value).expect("each once");
    }
    let endpoint = ENDPOINTS.iter().find(|one| one.name == endpoint).expect("it is there");
    endpoint.recipe(&fields).expect("valid fields")
}

/// An engine with the embedded network, on the CPU.
pub(crate) fn engine() -> Engine {
    let (weights, config) = (Weights::embedded(), EngineConfig::default());
    let device = ActiveDevice::select(&DeviceChoice::Cpu).expect("the CPU is always there");
    Engine::start(&config, Arc::new(move || device.segmenter(&weights, config.max_batch)))
}

/// An engine with the embedded network, on the CPU, and a runtime.
pub(crate) struct Harness {
    runtime: Runtime,
    engine: Engine,
}

impl Harness {
    pub(crate) fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let engine = engine();
        runtime.block_on(engine.ready()).expect("the embedded weights");
        Self { runtime, engine }
    }

    /// The engine itself.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Waits for a future.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Processes one JPEG file into the file of the result.
    pub(crate) fn run(&self, file: &Bytes, recipe: &Recipe) {
        let call = Call {
            lane: Lane::Interactive,
            tenant: Tenant::default(),
            deadline: Instant::now() + Duration::from_secs(60),
            limits: Limits::default(),
        };
        self.runtime.block_on(pipeline::run(&self.engine, file.clone(), recipe, &call)).expect("a picture");
    }
}
