//! Throughput of a clip's pipeline and of each stage alone, and the pipeline's time relative to its slowest stage.
//!
//! `cargo bench --bench video -- [CLIP [RESULT]]`. The default clip is a pan of two seconds over a photo of a bright ball,
//! 1920×1080 at 30 frames per second. Needs ffmpeg. The network runs on the CPU and shares the cores with matting and both
//! codecs: a stage alone has more cores than in the pipeline, whose time is at least the CPU time of all stages divided by
//! the number of cores.

mod support;

use backdrop::engine::{Engine, Lane, Tenant};
use backdrop::image::{Frame, RawMask, Size};
use backdrop::matting;
use backdrop::recipe::{Fields, Network, VideoFormat, VideoRecipe};
use backdrop::video::temporal::TemporalFilter;
use backdrop::video::{self, Tools, VideoConfig};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::Harness;

/// Frames sampled for the stages alone.
const SAMPLE: usize = 16;
const SMOOTHING: u8 = 50;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let folder = tempfile::tempdir().expect("a folder");
    let clip = arguments.next().map_or_else(|| support::panned(folder.path(), 60), PathBuf::from);
    let keep = arguments.next();
    let tools = Tools::find(&VideoConfig::default()).expect("ffmpeg");
    let shop = Harness::open();
    let properties = shop.wait(video::probe(shop.engine(), Tenant::default(), &tools, &clip)).expect("a clip");
    println!("{} at {:.2} frames/s, {:.2} s", properties.size, properties.rate.per_second(), properties.seconds);

    for (name, format) in [("webm", VideoFormat::Webm), ("mov", VideoFormat::Mov), ("mp4", VideoFormat::Mp4)] {
        let recipe =
            VideoRecipe { format, smoothing: SMOOTHING, ..VideoRecipe::of(&Fields::default()).expect("the defaults") };
        let job = tempfile::tempdir().expect("a folder");
        let done = shop
            .wait(video::remove(shop.engine(), Tenant::default(), &tools, &clip, job.path(), &recipe, &|_| {}))
            .expect("a result");
        let total = done.took.total.as_secs_f64();
        println!("{name}: {} frames in {total:.2} s, {:.2} frames/s", done.frames, done.frames as f64 / total);
        let stages = [
            ("decode", done.took.decode),
            ("network", done.took.segment),
            ("matte", done.took.matte),
            ("encode", done.took.encode),
        ];
        for (stage, took) in stages {
            println!(
                "  {stage:8} busy {:6.2} s, {:3.0} % of the whole",
                took.as_secs_f64(),
                took.as_secs_f64() / total * 100.0
            );
        }
        let alone = alone(&shop, &clip, properties.size, &done.file, done.frames);
        let (slowest, took) = alone.into_iter().max_by_key(|(_, took)| *took).expect("four stages");
        for (stage, took) in alone {
            println!("  {stage:8} alone {:5.2} s", took.as_secs_f64());
        }
        let sum: f64 = alone.iter().map(|(_, took)| took.as_secs_f64()).sum();
        println!(
            "  whole / slowest alone ({slowest}): {:.2}; whole / all alone, one after the other: {:.2}",
            total / took.as_secs_f64(),
            total / sum
        );
        if let Some(keep) = &keep {
            let to = Path::new(keep).with_extension(name);
            std::fs::copy(&done.file, to).expect("a copy");
        }
    }
}

/// Time of each stage alone for the whole clip.
fn alone(shop: &Harness, clip: &Path, size: Size, result: &Path, frames: u64) -> [(&'static str, Duration); 4] {
    let scaled = |took: Duration, of: usize| took.mul_f64(frames as f64 / of as f64);
    let began = Instant::now();
    let decoded = decoded(clip, size);
    let decoding = scaled(began.elapsed(), decoded.len());

    let sample: Vec<Frame> = decoded.iter().take(SAMPLE).cloned().collect();
    let (mut seen, mut network) = (Vec::new(), Duration::ZERO);
    for batch in sample.chunks(4) {
        let (masks, took) = segmented(shop, shop.engine(), batch);
        network += took;
        seen.extend(batch.iter().cloned().zip(masks));
    }
    let of = seen.len();
    let began = Instant::now();
    let mut filter = TemporalFilter::new(SMOOTHING);
    for (frame, mask) in seen {
        // On the engine's workers, like the pipeline.
        let work = move || {
            let matte = filter.next(&frame, mask);
            std::hint::black_box(matting::cut_out_frame(frame, &matte));
            filter
        };
        filter = shop.wait(shop.engine().cpu(Tenant::default(), work)).expect("a matte");
    }
    let matting = began.elapsed();

    // The decoded result approximates the encoder's input.
    let took = encoded(result, &decoded, size);
    [
        ("decode", decoding),
        ("network", scaled(network, of)),
        ("matte", scaled(matting, of)),
        ("encode", scaled(took, decoded.len())),
    ]
}

fn segmented(shop: &Harness, engine: &Engine, frames: &[Frame]) -> (Vec<RawMask>, Duration) {
    let deadline = Instant::now() + Duration::from_secs(600);
    let slot = shop.wait(engine.admit(Tenant::default(), 1, deadline)).expect("a slot");
    let seen =
        shop.wait(engine.segment(&Network::default(), &slot, frames.to_vec(), Lane::Bulk, deadline)).expect("masks");
    (seen.masks, seen.took)
}

const EXACT: &str = "scale=flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp:threads=4";

/// Decodes like the pipeline, at most two seconds.
fn decoded(clip: &Path, size: Size) -> Vec<Frame> {
    let mut child = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(clip)
        .args(["-map", "0:v:0", "-vf", EXACT, "-frames:v", "60", "-f", "rawvideo", "-pix_fmt", "rgba", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ffmpeg");
    let mut output = child.stdout.take().expect("its output");
    let mut frames = Vec::new();
    loop {
        let mut pixels = vec![0; size.area() * 4];
        if output.read_exact(&mut pixels).is_err() {
            break;
        }
        frames.push(Frame::new(size, pixels.into()));
    }
    child.wait().expect("its end");
    frames
}

/// Encodes like the pipeline, with the options of its segments.
fn encoded(result: &Path, frames: &[Frame], size: Size) -> Duration {
    let codec: &[&str] = match result.extension().and_then(|extension| extension.to_str()) {
        Some("webm") => &[
            "-vf",
            "scale=out_color_matrix=bt709:out_range=tv:flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp:threads=4,format=yuva420p",
            "-c:v",
            "libvpx-vp9",
            "-crf",
            "24",
            "-b:v",
            "0",
            "-deadline",
            "realtime",
            "-cpu-used",
            "6",
            "-row-mt",
            "0",
            "-tile-columns",
            "2",
            "-threads",
            "4",
            "-auto-alt-ref",
            "0",
            "-lag-in-frames",
            "0",
            "-f",
            "webm",
        ],
        Some("mov") => &[
            "-vf",
            "scale=out_color_matrix=bt709:out_range=tv:flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp:threads=4,format=yuva444p10le",
            "-c:v",
            "prores_ks",
            "-profile:v",
            "4444",
            "-alpha_bits",
            "16",
            "-threads",
            "4",
            "-f",
            "mov",
        ],
        Some(_) | None => &[
            "-vf",
            "scale=out_color_matrix=bt709:out_range=tv:flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp:threads=4,format=yuv420p",
            "-c:v",
            "libx264",
            "-preset",
            "veryfast",
            "-crf",
            "18",
            "-threads",
            "4",
            "-f",
            "mp4",
        ],
    };
    let folder = tempfile::tempdir().expect("a folder");
    let dimensions = format!("{}x{}", size.width, size.height);
    // Composited frames are cheaper to encode than frames of the source.
    let composited = composited(result, size, frames.len());
    let began = Instant::now();
    let mut child = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "rawvideo", "-pix_fmt", "rgba", "-s", &dimensions, "-r", "30", "-i", "-"])
        .args(codec)
        .arg(folder.path().join("out"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("ffmpeg");
    let mut input = child.stdin.take().expect("its input");
    for frame in &composited {
        input.write_all(frame.pixels()).expect("room in the pipe");
    }
    drop(input);
    child.wait().expect("its end");
    began.elapsed()
}

/// The frames of a result, with their alpha.
fn composited(result: &Path, size: Size, most: usize) -> Vec<Frame> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error"]);
    if result.extension().is_some_and(|extension| extension == "webm") {
        command.args(["-c:v", "libvpx-vp9"]);
    }
    let output = command
        .arg("-i")
        .arg(result)
        .args(["-vf", &format!("scale={}:{}", size.width, size.height), "-frames:v", &most.to_string()])
        .args(["-f", "rawvideo", "-pix_fmt", "rgba", "-"])
        .output()
        .expect("ffmpeg");
    let frames = output.stdout.chunks_exact(size.area() * 4);
    frames.map(|pixels| Frame::new(size, pixels.to_vec().into())).collect()
}
