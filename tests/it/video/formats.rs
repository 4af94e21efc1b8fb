//! Every output format: its streams according to ffprobe, and its decoded frames.

use crate::video::support::{
    RED, clip, cut, engine, engine_of_everything, frames, is_near, made, middle, recipe, shown, stream,
};
use backdrop::codec::{self, Channels, Limits};
use backdrop::image::color::Color;
use backdrop::image::{BufferPool, Frame};
use backdrop::recipe::{VideoFormat, VideoRecipe};
use backdrop::video::Rate;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Checks that in every frame the box is opaque and the background transparent.
fn assert_cut_out(frames: &[Frame]) {
    assert_eq!(frames.len(), 30);
    for (index, frame) in frames.iter().enumerate() {
        let (x, y) = middle(index);
        let inside = frame.pixel(x, y);
        assert!(inside[3] >= 250 && is_near(inside, RED, 6), "frame {index}: {inside:?} in the box");
        for (x, y) in [(1, 1), (158, 1), (158, 88), (1, 88), (x + 34, 45)] {
            assert!(frame.pixel(x, y)[3] <= 6, "frame {index}: {:?} at {x},{y}", frame.pixel(x, y));
        }
    }
}

/// Checks size, frames and duration of the video stream.
fn assert_picture(file: &Path, codec: &str) -> serde_json::Value {
    let shown = shown(file);
    let video = stream(&shown, "video").expect("a picture");
    assert_eq!(video["codec_name"], codec, "{video}");
    assert_eq!((video["width"].as_u64(), video["height"].as_u64()), (Some(160), Some(90)));
    assert_eq!(video["nb_read_frames"], "30");
    assert_eq!(video["avg_frame_rate"], "10/1");
    let length: f64 = shown["format"]["duration"].as_str().unwrap().parse().unwrap();
    assert!((length - 3.0).abs() < 0.02, "{length} seconds");
    shown
}

fn assert_tagged(video: &serde_json::Value) {
    for (name, tag) in
        [("color_range", "tv"), ("color_space", "bt709"), ("color_transfer", "bt709"), ("color_primaries", "bt709")]
    {
        assert_eq!(video[name], tag, "{name}");
    }
}

#[tokio::test]
async fn webm_is_vp9_with_opus_and_mov_is_prores_4444_with_aac_both_with_alpha() {
    let folder = tempfile::tempdir().unwrap();
    let source = clip(folder.path());
    for (format, codec, sound) in [(VideoFormat::Webm, "vp9", "opus"), (VideoFormat::Mov, "prores", "aac")] {
        let (_kept, finished) = cut(&engine(), &source, &recipe(format)).await.unwrap();
        assert_eq!((finished.frames, finished.rate), (30, Rate { frames: 10, seconds: 1 }));
        assert_eq!(finished.warnings, [""; 0]);
        assert!(finished.took.total > finished.took.matte && !finished.took.decode.is_zero());
        let shown = assert_picture(&finished.file, codec);
        let video = stream(&shown, "video").unwrap();
        let has_alpha = if format == VideoFormat::Webm {
            let tags = video["tags"].as_object().unwrap();
            tags.iter().any(|(name, value)| name.eq_ignore_ascii_case("alpha_mode") && value == "1")
        } else {
            video["pix_fmt"].as_str().unwrap().starts_with("yuva444p") && video["codec_tag_string"] == "ap4h"
        };
        assert!(has_alpha, "{video}");
        assert_tagged(video);
        assert_eq!(stream(&shown, "audio").unwrap()["codec_name"], sound);
        assert_cut_out(&frames(&finished.file));
    }
}

#[tokio::test]
async fn mp4_is_h264_on_the_background_colour() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = VideoRecipe { background: Some(Color([20, 200, 90, 255])), ..recipe(VideoFormat::Mp4) };
    let (_kept, finished) = cut(&engine(), &clip(folder.path()), &recipe).await.unwrap();
    let shown = assert_picture(&finished.file, "h264");
    assert_eq!(stream(&shown, "video").unwrap()["pix_fmt"], "yuv420p");
    assert_tagged(stream(&shown, "video").unwrap());
    assert_eq!(stream(&shown, "audio").unwrap()["codec_name"], "aac");
    for (index, frame) in frames(&finished.file).iter().enumerate() {
        let (x, y) = middle(index);
        assert!(is_near(frame.pixel(x, y), RED, 6) && is_near(frame.pixel(158, 1), [20, 200, 90], 3), "frame {index}");
    }
}

#[tokio::test]
async fn the_matte_is_grey_in_every_container() {
    let folder = tempfile::tempdir().unwrap();
    let source = clip(folder.path());
    for (format, codec) in [(VideoFormat::Mp4, "h264"), (VideoFormat::Webm, "vp9"), (VideoFormat::Mov, "prores")] {
        let recipe = VideoRecipe { channels: Channels::Alpha, audio: false, ..recipe(format) };
        let (_kept, finished) = cut(&engine(), &source, &recipe).await.unwrap();
        let shown = assert_picture(&finished.file, codec);
        assert!(stream(&shown, "audio").is_none(), "audio was disabled");
        for (index, frame) in frames(&finished.file).iter().enumerate() {
            let (x, y) = middle(index);
            assert!(
                is_near(frame.pixel(x, y), [255; 3], 4) && is_near(frame.pixel(158, 1), [0; 3], 4),
                "{codec} {index}"
            );
            assert_eq!(frame.pixel(158, 1)[3], 255);
        }
    }
}

#[tokio::test]
async fn png_sequence_is_an_archive_of_exact_frames() {
    let folder = tempfile::tempdir().unwrap();
    let (_kept, finished) = cut(&engine(), &clip(folder.path()), &recipe(VideoFormat::PngSequence)).await.unwrap();
    let mut archive = zip::ZipArchive::new(File::open(&finished.file).unwrap()).unwrap();
    let names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    assert_eq!((names.len(), &names[0][..], &names[29][..]), (30, "frame-000001.png", "frame-000030.png"));
    let mut pictures = Vec::new();
    for name in names {
        let mut bytes = Vec::new();
        archive.by_name(&name).unwrap().read_to_end(&mut bytes).unwrap();
        let header = codec::probe(&bytes, &Limits::default()).unwrap();
        pictures.push(codec::decode(&bytes, &header, &BufferPool::new(0)).unwrap());
    }
    assert_cut_out(&pictures);
    let hidden = |pixel: &&[u8; 4]| pixel[3] == 0 && **pixel != [0; 4];
    assert_eq!(pictures[7].pixels().as_chunks::<4>().0.iter().find(hidden), None, "colour under zero alpha");
}

#[tokio::test]
async fn gif_clears_each_frame_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let (_kept, finished) = cut(&engine(), &clip(folder.path()), &recipe(VideoFormat::Gif)).await.unwrap();
    let shown = assert_picture(&finished.file, "gif");
    assert!(stream(&shown, "audio").is_none());
    let frames = frames(&finished.file);
    for (index, frame) in frames.iter().enumerate() {
        assert!(frame.pixels().as_chunks::<4>().0.iter().all(|pixel| [0, 255].contains(&pixel[3])));
        let (x, y) = middle(index);
        assert!(is_near(frame.pixel(x, y), RED, 8), "{:?}", frame.pixel(x, y));
        if index > 15 {
            assert_eq!(frame.pixel(12, 45)[3], 0, "frame {index} still shows frame 0");
        }
    }
}

#[tokio::test]
async fn animated_webp_shows_every_frame_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let (_kept, finished) = cut(&engine(), &clip(folder.path()), &recipe(VideoFormat::Webp)).await.unwrap();
    let mut decoder = image_webp::WebPDecoder::new(BufReader::new(File::open(&finished.file).unwrap())).unwrap();
    assert_eq!((decoder.num_frames(), decoder.dimensions(), decoder.has_alpha()), (30, (160, 90), true));
    let (mut shown, mut total) = (Vec::new(), 0);
    for _ in 0..30 {
        let mut pixels = vec![0; 160 * 90 * 4];
        total += decoder.read_frame(&mut pixels).unwrap();
        shown.push(Frame::new(backdrop::image::Size::new(160, 90), pixels.into()));
    }
    assert_eq!(total, 3000);
    assert_cut_out(&shown);
}

#[tokio::test]
async fn a_sandbox_result_is_stamped_in_every_frame() {
    let folder = tempfile::tempdir().unwrap();
    let source = clip(folder.path());
    let plain = VideoRecipe { background: Some(Color::WHITE), ..recipe(VideoFormat::Mp4) };
    let (_kept, without) = cut(&engine(), &source, &plain).await.unwrap();
    let stamped = VideoRecipe { stamp: Some("TEST"), ..plain };
    let (_also_kept, with) = cut(&engine(), &source, &stamped).await.unwrap();
    for (without, with) in frames(&without.file).iter().zip(frames(&with.file)) {
        let differs = |&(x, y): &(u32, u32)| without.pixel(x, y)[0].abs_diff(with.pixel(x, y)[0]) > 40;
        let corner = (60..90).flat_map(|y| (0..60).map(move |x| (x, y)));
        assert!(corner.filter(differs).count() > 10);
    }
}

/// Eight patches of known colours, each 20 columns wide.
const PATCHES: [[u8; 3]; 8] =
    [[255, 255, 255], [0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255], [128, 128, 128], [200, 150, 120], [30, 60, 90]];

#[tokio::test]
async fn colours_are_kept_within_3_of_255() {
    let folder = tempfile::tempdir().unwrap();
    let patches = PATCHES.map(|[red, green, blue]| format!("color=c=0x{red:02X}{green:02X}{blue:02X}:s=20x32:r=5:d=1"));
    let inputs: String = (0..8).map(|at| format!("[p{at}]")).collect();
    let graph: String = patches.iter().enumerate().map(|(at, patch)| format!("{patch}[p{at}];")).collect();
    let graph = format!("{graph}{inputs}hstack=inputs=8,format=gbrp");
    let sources = [
        ("exact.mkv", "-c:v ffv1 -pix_fmt bgr0"),
        (
            "new.mp4",
            "-vf scale=out_color_matrix=bt709:out_range=tv:flags=accurate_rnd+full_chroma_int+full_chroma_inp \
             -c:v libx264 -crf 1 -pix_fmt yuv444p -colorspace bt709",
        ),
        // Small pictures without tags are BT.601.
        (
            "old.mp4",
            "-vf scale=out_color_matrix=bt601:out_range=tv:flags=accurate_rnd+full_chroma_int+full_chroma_inp \
             -c:v libx264 -crf 1 -pix_fmt yuv444p",
        ),
        (
            "full.mp4",
            "-vf scale=out_color_matrix=bt709:out_range=pc:flags=accurate_rnd+full_chroma_int+full_chroma_inp \
             -c:v libx264 -crf 1 -pix_fmt yuv444p -colorspace bt709 -color_range pc",
        ),
    ];
    let engine = engine_of_everything();
    for (at, (name, options)) in sources.into_iter().enumerate() {
        let source = made(folder.path(), name, &[&graph], options);
        let formats = [VideoFormat::Mp4, VideoFormat::Webm, VideoFormat::Mov];
        // The first source through every encoder, the others through one.
        for format in formats.into_iter().take(if at == 0 { 3 } else { 1 }) {
            let (_kept, finished) = cut(&engine, &source, &recipe(format)).await.unwrap();
            for frame in frames(&finished.file) {
                for (at, patch) in (0..).zip(PATCHES) {
                    let pixel = frame.pixel(at * 20 + 10, 16);
                    assert!(is_near(pixel, patch, 3), "{name} as {format:?}: {pixel:?} for {patch:?}");
                }
            }
        }
    }
}
