//! Clips made by ffmpeg, engines with a fake network that segments red pixels, and inspection of results.

use crate::support::segmenter;
use backdrop::engine::{Engine, EngineConfig, SegmenterFactory};
use backdrop::image::{Frame, Size};
use backdrop::model::SegmentError;
use backdrop::recipe::{Fields, VideoFormat, VideoRecipe};
use backdrop::video::{self, Finished, Tools, VideoConfig, VideoError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Side of the masks.
const GRID: u32 = 48;

/// The subject of [`boxed`], and its ground.
pub(crate) const RED: [u8; 3] = [0xD2, 0x28, 0x32];

pub(crate) fn tools() -> Tools {
    Tools::find(&VideoConfig::default()).expect("these tests need ffmpeg and ffprobe: `apt-get install ffmpeg`")
}

/// A network that computes the probability of a cell from the pixel in its middle.
fn network_of(probability: fn([u8; 4]) -> f32) -> SegmenterFactory {
    segmenter::factory_by_frame("fake-1", move |frame| {
        let Size { width, height } = frame.size();
        segmenter::mask(Size::new(GRID, GRID), |x, y| {
            probability(frame.pixel((x * 2 + 1) * width / (2 * GRID), (y * 2 + 1) * height / (2 * GRID)))
        })
    })
}

fn engine_of(network: SegmenterFactory) -> Engine {
    Engine::start(&EngineConfig { cpu_workers: 2, ..EngineConfig::default() }, network)
}

/// The subject is what is red.
fn network_of_red() -> SegmenterFactory {
    network_of(|[red, green, blue, _]| {
        ((f32::from(red) - (f32::from(green) + f32::from(blue)) / 2.0) / 120.0).clamp(0.0, 1.0)
    })
}

/// The subject is what is red.
pub(crate) fn engine() -> Engine {
    engine_of(network_of_red())
}

/// As [`engine()`], with a network that cannot be loaded the first `failures` times.
pub(crate) fn engine_after_failures(failures: usize) -> Engine {
    let (network, left) = (network_of_red(), AtomicUsize::new(failures));
    engine_of(Arc::new(move || {
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(SegmentError::Unusable("its memory is taken".to_owned())),
            Err(_) => network(),
        }
    }))
}

/// The subject is everything, except in the picture of the self-test.
pub(crate) fn engine_of_everything() -> Engine {
    engine_of(network_of(|pixel| if pixel == [24, 28, 36, 255] { 0.0 } else { 1.0 }))
}

pub(crate) fn recipe(format: VideoFormat) -> VideoRecipe {
    VideoRecipe { format, smoothing: 0, ..VideoRecipe::of(&Fields::default()).expect("the defaults") }
}

/// Runs a tool and returns its standard output.
fn ran(program: &str, arguments: &[String]) -> Vec<u8> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("these tests need {program} (`apt-get install ffmpeg`): {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A file made by ffmpeg from the filter graphs in `graphs`, with `options` split at blanks.
pub(crate) fn made(folder: &Path, name: &str, graphs: &[&str], options: &str) -> PathBuf {
    let file = folder.join(name);
    let mut arguments: Vec<String> = ["-v", "error", "-y"].map(str::to_owned).into();
    for graph in graphs {
        arguments.extend(["-f", "lavfi", "-i", graph].map(str::to_owned));
    }
    arguments.extend(options.split_whitespace().map(str::to_owned));
    arguments.push(file.display().to_string());
    ran("ffmpeg", &arguments);
    file
}

/// A file made by ffmpeg from another.
pub(crate) fn remade(source: &Path, name: &str, options: &str) -> PathBuf {
    let file = source.with_file_name(name);
    let mut arguments: Vec<String> = ["-v", "error", "-y", "-i"].map(str::to_owned).into();
    arguments.push(source.display().to_string());
    arguments.extend(options.split_whitespace().map(str::to_owned));
    arguments.push(file.display().to_string());
    ran("ffmpeg", &arguments);
    file
}

/// A red box that moves to the right over blue ground.
pub(crate) fn boxed(size: (u32, u32), rate: &str, seconds: u32) -> String {
    let (width, height) = size;
    let side = height / 2;
    format!(
        "color=c=0x46_5A_78:s={width}x{height}:r={rate}:d={seconds}[ground];\
         color=c=0xD22832:s={side}x{side}:r={rate}:d={seconds}[box];\
         [ground][box]overlay=x='8+{speed}*t':y={top}:shortest=1",
        speed = width / 8,
        top = height / 4
    )
    .replace("46_5A_78", "465A78")
}

/// Three seconds of it at ten frames a second, with a tone.
pub(crate) fn clip(folder: &Path) -> PathBuf {
    made(
        folder,
        "clip.mp4",
        &[&boxed((160, 90), "10", 3), "sine=frequency=440:duration=3"],
        "-c:v libx264 -preset ultrafast -crf 6 -pix_fmt yuv420p -colorspace bt709 -vf scale=out_color_matrix=bt709 -c:a aac",
    )
}

pub(crate) async fn cut(
    engine: &Engine,
    source: &Path,
    recipe: &VideoRecipe,
) -> Result<(TempDir, Finished), VideoError> {
    let folder = tempfile::tempdir().unwrap();
    let finished = video::remove(engine, &tools(), source, folder.path(), recipe, &|_| {}).await?;
    Ok((folder, finished))
}

/// The report of ffprobe, with counted frames.
pub(crate) fn shown(file: &Path) -> serde_json::Value {
    let arguments =
        ["-v", "error", "-of", "json", "-show_streams", "-show_format", "-count_frames", &file.display().to_string()]
            .map(str::to_owned);
    serde_json::from_slice(&ran("ffprobe", &arguments)).unwrap()
}

/// The stream of a kind.
pub(crate) fn stream<'a>(shown: &'a serde_json::Value, kind: &str) -> Option<&'a serde_json::Value> {
    shown["streams"].as_array().unwrap().iter().find(|stream| stream["codec_type"] == kind)
}

/// All frames, with their alpha.
pub(crate) fn frames(file: &Path) -> Vec<Frame> {
    let shown = shown(file);
    let video = stream(&shown, "video").expect("a picture");
    let side = |name: &str| u32::try_from(video[name].as_u64().unwrap()).unwrap();
    let size = Size::new(side("width"), side("height"));
    let mut arguments: Vec<String> = ["-v", "error"].map(str::to_owned).into();
    if video["codec_name"] == "vp9" {
        // ffmpeg's own decoder ignores alpha.
        arguments.extend(["-c:v", "libvpx-vp9"].map(str::to_owned));
    }
    arguments.extend(["-i".to_owned(), file.display().to_string()]);
    let exact = "scale=flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp";
    arguments.extend(
        ["-vf", exact, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgba", "-"].map(str::to_owned),
    );
    let bytes = ran("ffmpeg", &arguments);
    bytes.chunks_exact(size.area() * 4).map(|pixels| Frame::new(size, pixels.to_vec().into())).collect()
}

/// The sound, one channel, 48000 samples a second.
pub(crate) fn sound(file: &Path) -> Vec<f32> {
    let mut arguments: Vec<String> = ["-v", "error", "-i"].map(str::to_owned).into();
    arguments.push(file.display().to_string());
    arguments.extend(["-vn", "-ac", "1", "-ar", "48000", "-f", "f32le", "-"].map(str::to_owned));
    ran("ffmpeg", &arguments).as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Whether each channel of a pixel is within `by` of the expected colour.
pub(crate) fn is_near(pixel: [u8; 4], colour: [u8; 3], by: u8) -> bool {
    pixel.iter().zip(colour).all(|(value, wanted)| value.abs_diff(wanted) <= by)
}

/// The middle of the box in frame `index` of [`clip`].
pub(crate) fn middle(index: usize) -> (u32, u32) {
    (8 + 22 + 2 * index as u32, 45)
}
