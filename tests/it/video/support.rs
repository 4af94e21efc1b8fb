//! Clips made by ffmpeg, engines with a fake network that segments red pixels, and inspection of results.

use crate::support::segmenter;
use backdrop::engine::{Engine, EngineConfig, SegmenterFactory, Tenant};
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

/// A network that segments red pixels.
fn network_of_red() -> SegmenterFactory {
    network_of(|[red, green, blue, _]| {
        ((f32::from(red) - (f32::from(green) + f32::from(blue)) / 2.0) / 120.0).clamp(0.0, 1.0)
    })
}

/// An engine that segments red pixels.
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

/// An engine that segments every pixel, except in the picture of the self-test.
pub(crate) fn engine_of_everything() -> Engine {
    engine_of(network_of(|pixel| if pixel == [24, 28, 36, 255] { 0.0 } else { 1.0 }))
}

pub(crate) fn recipe(format: VideoFormat) -> VideoRecipe {
    VideoRecipe { format, smoothing: 0, ..VideoRecipe::of(&Fields::default()).expect("the defaults") }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Runs a tool and returns its standard output.
fn ran(program: &str, arguments: &[&str]) -> Vec<u8> {
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
    let inputs = graphs.iter().flat_map(|graph| ["-f", "lavfi", "-i", graph]);
    let arguments =
        ["-v", "error", "-y"].into_iter().chain(inputs).chain(options.split_whitespace()).chain([text(&file)]);
    ran("ffmpeg", &arguments.collect::<Vec<_>>());
    file
}

/// A file made by ffmpeg from another.
pub(crate) fn remade(source: &Path, name: &str, options: &str) -> PathBuf {
    let file = source.with_file_name(name);
    let arguments = ["-v", "error", "-y", "-i", text(source)].into_iter().chain(options.split_whitespace());
    ran("ffmpeg", &arguments.chain([text(&file)]).collect::<Vec<_>>());
    file
}

/// A red box that moves to the right over blue ground.
pub(crate) fn boxed(size: (u32, u32), rate: &str, seconds: u32) -> String {
    let (width, height) = size;
    let side = height / 2;
    format!(
        "color=c=0x465A78:s={width}x{height}:r={rate}:d={seconds}[ground];\
         color=c=0xD22832:s={side}x{side}:r={rate}:d={seconds}[box];\
         [ground][box]overlay=x='8+{speed}*t':y={top}:shortest=1",
        speed = width / 8,
        top = height / 4
    )
}

/// Three seconds of [`boxed`] at ten frames a second, with a tone.
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
    let finished = video::remove(engine, Tenant::default(), &tools(), source, folder.path(), recipe, &|_| {}).await?;
    Ok((folder, finished))
}

/// The report of ffprobe, with counted frames.
pub(crate) fn shown(file: &Path) -> serde_json::Value {
    let arguments = ["-v", "error", "-of", "json", "-show_streams", "-show_format", "-count_frames", text(file)];
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
    let mut arguments = vec!["-v", "error"];
    if video["codec_name"] == "vp9" {
        // ffmpeg's decoder of VP9 ignores alpha.
        arguments.extend(["-c:v", "libvpx-vp9"]);
    }
    let exact = "scale=flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp";
    arguments.extend(["-i", text(file), "-vf", exact]);
    arguments.extend(["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgba", "-"]);
    let bytes = ran("ffmpeg", &arguments);
    bytes.chunks_exact(size.area() * 4).map(|pixels| Frame::new(size, pixels.to_vec().into())).collect()
}

/// The sound, one channel, 48000 samples a second.
pub(crate) fn sound(file: &Path) -> Vec<f32> {
    let arguments = ["-v", "error", "-i", text(file), "-vn", "-ac", "1", "-ar", "48000", "-f", "f32le", "-"];
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
