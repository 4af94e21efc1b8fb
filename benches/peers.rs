//! Times single stages on request: our side of `benches/peers`, which alternates them with other programs.
//!
//! With `--requests` it reads one JSON request per line from standard input and answers each with one line of JSON, so
//! that the caller decides the order. Inputs are decoded before the clock starts and results are written after it stops.
//! Without the flag it does nothing: `make bench` runs every bench.

#[path = "support/machine_limits.rs"]
mod machine_limits;

use backdrop::codec::{self, Channels, EncodeOptions, Limits, PngEffort};
use backdrop::image::{AlphaMatte, Buffer, BufferPool, Composite, Frame, OutputFormat, Quality, Trimap};
use backdrop::matting::prior::Priors;
use backdrop::matting::{closed_form, foreground};
use backdrop::model::Segmenter;
use backdrop::model::device::{ActiveDevice, DeviceChoice};
use backdrop::model::weights::Weights;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LARGEST_BATCH: usize = 8;
/// Stays between requests, like the buffers of a daemon.
const KEPT_BYTES: usize = 256 << 20;

#[derive(Debug, Deserialize)]
#[serde(tag = "stage", rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    /// The network on a batch of copies of one picture. `output`: the mask, little-endian f32.
    Network { image: PathBuf, batch: usize, output: Option<PathBuf> },
    /// Alpha from a trimap (grey; 0, 128, 255). `output`: an 8-bit grey PNG.
    Alpha { image: PathBuf, trimap: PathBuf, output: Option<PathBuf> },
    /// Foreground colours from alpha (grey). `output`: a PNG.
    Foreground { image: PathBuf, alpha: PathBuf, output: Option<PathBuf> },
    /// A picture file to pixels.
    Decode { image: PathBuf },
    /// Pixels to a PNG.
    Encode { image: PathBuf, output: Option<PathBuf> },
    /// Bytes per second of `a[i] = b[i] + s · c[i]`.
    MemoryBandwidth {},
    /// f32 operations per second of fused multiply-adds in registers.
    PeakArithmetic {},
}

#[derive(Debug, Default, Serialize)]
struct Answer {
    seconds: f64,
    /// Bytes of the encoded file.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    /// Bytes or operations per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
}

struct Stages {
    segmenter: Box<dyn Segmenter>,
    pool: BufferPool,
}

fn main() -> Result<(), Box<dyn Error>> {
    if !std::env::args().any(|argument| argument == "--requests") {
        println!("peers: NOT RUN, see benches/peers/README.md");
        return Ok(());
    }
    let mut stages = Stages::open()?;
    for line in stdin().lines() {
        let answer = stages.answer(serde_json::from_str(&line?)?)?;
        writeln!(stdout(), "{}", serde_json::to_string(&answer)?)?;
    }
    Ok(())
}

impl Stages {
    fn open() -> Result<Self, Box<dyn Error>> {
        let device = ActiveDevice::select(&DeviceChoice::Cpu)?;
        let segmenter = device.segmenter(&Weights::embedded(), LARGEST_BATCH)?;
        Ok(Self { segmenter, pool: BufferPool::new(KEPT_BYTES) })
    }

    fn answer(&mut self, request: Request) -> Result<Answer, Box<dyn Error>> {
        match request {
            Request::Network { image, batch, output } => {
                let frame = self.picture(&image)?;
                let frames = vec![&frame; batch];
                let (seconds, masks) = timed(|| self.segmenter.segment(&frames));
                let mask = masks?.swap_remove(0);
                let bytes: Vec<u8> = mask.values().iter().flat_map(|value| value.to_le_bytes()).collect();
                written(seconds, &bytes, output.as_deref())
            }
            Request::Alpha { image, trimap, output } => {
                let frame = self.picture(&image)?;
                let trimap = Trimap::new(frame.size(), self.grey(&trimap)?);
                let (seconds, matte) = timed(|| closed_form::estimate_alpha(&frame, &trimap, &Priors::default()));
                let grey = matte.coverage().iter().flat_map(|&value| [value, value, value, 255]).collect::<Vec<u8>>();
                let file = output.is_some().then(|| png(Frame::new(frame.size(), Buffer::from(grey))));
                written(seconds, &file.transpose()?.unwrap_or_default(), output.as_deref())
            }
            Request::Foreground { image, alpha, output } => {
                let mut frame = self.picture(&image)?;
                let matte = AlphaMatte::new(frame.size(), self.grey(&alpha)?);
                let (seconds, _) = timed(|| foreground::estimate(&mut frame, &matte));
                let file = output.is_some().then(|| png(frame));
                written(seconds, &file.transpose()?.unwrap_or_default(), output.as_deref())
            }
            Request::Decode { image } => {
                let bytes = fs::read(image)?;
                let (seconds, frame) = timed(|| decoded(&bytes, &self.pool));
                drop(frame?);
                Ok(Answer { seconds, ..Answer::default() })
            }
            Request::Encode { image, output } => {
                let frame = self.picture(&image)?;
                let (seconds, file) = timed(|| png(frame));
                let file = file?;
                let answer = written(seconds, &file, output.as_deref())?;
                Ok(Answer { bytes: Some(file.len()), ..answer })
            }
            Request::MemoryBandwidth {} => Ok(rate(machine_limits::memory_bandwidth)),
            Request::PeakArithmetic {} => Ok(rate(machine_limits::peak_f32)),
        }
    }

    fn picture(&self, path: &Path) -> Result<Frame, Box<dyn Error>> {
        decoded(&fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?, &self.pool)
    }

    fn grey(&self, path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
        let frame = self.picture(path)?;
        let (pixels, _) = frame.pixels().as_chunks::<4>();
        Ok(pixels.iter().map(|pixel| pixel[0]).collect())
    }
}

fn decoded(bytes: &[u8], pool: &BufferPool) -> Result<Frame, Box<dyn Error>> {
    let limits = Limits { max_bytes: usize::MAX, ..Limits::default() };
    let header = codec::probe(bytes, &limits)?;
    Ok(codec::decode(bytes, &header, pool)?)
}

fn png(frame: Frame) -> Result<Vec<u8>, Box<dyn Error>> {
    let options = EncodeOptions {
        format: OutputFormat::Png,
        quality: Quality::DEFAULT,
        png: PngEffort::default(),
        channels: Channels::Rgba,
    };
    Ok(codec::encode(Composite::unchanged(frame), &options)?.bytes.to_vec())
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let result = black_box(work());
    (started.elapsed().as_secs_f64(), result)
}

fn written(seconds: f64, bytes: &[u8], output: Option<&Path>) -> Result<Answer, Box<dyn Error>> {
    if let Some(path) = output {
        fs::write(path, bytes)?;
    }
    Ok(Answer { seconds, ..Answer::default() })
}

fn rate(measure: fn() -> f64) -> Answer {
    let (seconds, rate) = timed(measure);
    Answer { seconds, rate: Some(rate), ..Answer::default() }
}
