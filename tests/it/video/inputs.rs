//! Inputs: containers, codecs, rotation, rates, HDR, audio, damage, limits.

use crate::video::support::{
    RED, boxed, clip, cut, engine, engine_of_everything, frames, is_near, made, recipe, remade, shown, sound, stream,
    tools,
};
use backdrop::engine::Tenant;
use backdrop::image::Size;
use backdrop::recipe::{VideoFormat, VideoRecipe};
use backdrop::video::{self, Clip, MAX_BYTES, Rate, VideoError};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::timeout;

const TEN: Rate = Rate { frames: 10, seconds: 1 };

async fn probed(file: &Path) -> Result<Clip, VideoError> {
    video::probe(&engine(), Tenant::default(), &tools(), file).await
}

fn mp4() -> VideoRecipe {
    recipe(VideoFormat::Mp4)
}

/// Checks the number of frames of the result, and that its first frame has the box at `at`.
async fn assert_cut(source: &Path, size: Size, frames_expected: u64, at: (u32, u32)) {
    let (_kept, finished) = cut(&engine(), source, &mp4()).await.unwrap();
    assert_eq!(finished.warnings, [""; 0], "{}", source.display());
    assert_eq!(finished.frames, frames_expected, "{}", source.display());
    let frames = frames(&finished.file);
    assert_eq!(frames.len() as u64, frames_expected);
    assert_eq!(frames[0].size(), size);
    assert!(is_near(frames[0].pixel(at.0, at.1), RED, 12), "{}: {:?}", source.display(), frames[0].pixel(at.0, at.1));
}

#[tokio::test]
async fn every_container_and_codec_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let graph = boxed((160, 90), "10", 1);
    for (name, options) in [
        ("a.mp4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"),
        ("b.mov", "-c:v prores_ks -profile:v 0"),
        ("c.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8"),
        ("d.mkv", "-c:v ffv1"),
        ("e.gif", ""),
        ("f.mp4", "-c:v libx265 -preset ultrafast -pix_fmt yuv420p10le -x265-params log-level=none"),
        ("g.mkv", "-c:v mpeg4"),
        ("h.webm", "-c:v libvpx -pix_fmt yuv420p -deadline realtime -cpu-used 8"),
    ] {
        let source = made(folder.path(), name, &[&graph], options);
        let clip = probed(&source).await.unwrap();
        assert_eq!((clip.size, clip.rate, clip.has_audio), (Size::new(160, 90), TEN, false), "{name}");
        assert!((clip.seconds - 1.0).abs() < 0.11, "{name}: {} seconds", clip.seconds);
        assert_cut(&source, Size::new(160, 90), 10, (30, 45)).await;
    }
}

#[tokio::test]
async fn a_probe_waits_for_memory_as_pictures_do() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(folder.path(), "a.mp4", &[&boxed((160, 90), "10", 1)], "-c:v mpeg4");
    let (engine, tools) = (engine(), tools());
    let soon = Instant::now() + Duration::from_secs(60);
    let picture = engine.admit(Tenant::default(), 1_000_000_000, soon).await.expect("all is free");
    let mut probe = Box::pin(video::probe(&engine, Tenant::of("other"), &tools, &source));
    assert!(timeout(Duration::from_secs(1), &mut probe).await.is_err(), "a picture has all the memory");
    drop(picture);
    assert_eq!(probe.await.expect("a clip").rate, TEN);
}

#[tokio::test]
async fn a_clips_own_alpha_is_kept_and_what_it_hides_stays_hidden() {
    let folder = tempfile::tempdir().unwrap();
    // A blue box on the right is hidden: there alpha is 0.
    let graph = format!(
        "{},format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='if(gt(X,120),255,b(X,Y))':a='if(gt(X,120),0,255)'",
        boxed((160, 90), "10", 1)
    );
    for (name, options) in [
        ("a.mov", "-c:v qtrle -pix_fmt argb"),
        ("b.webm", "-c:v libvpx-vp9 -pix_fmt yuva420p -deadline realtime -cpu-used 8"),
        ("c.webm", "-c:v libvpx -pix_fmt yuva420p -auto-alt-ref 0 -deadline realtime -cpu-used 8"),
        ("d.mov", "-c:v prores_ks -profile:v 4 -pix_fmt yuva444p10le"),
    ] {
        let source = made(folder.path(), name, &[&graph], options);
        let (_kept, finished) = cut(&engine(), &source, &recipe(VideoFormat::Mov)).await.unwrap();
        assert_eq!(finished.warnings.len(), 1, "{name}: {:?}", finished.warnings);
        for frame in frames(&finished.file) {
            assert_eq!(frame.pixel(140, 72)[3], 0, "{name}");
            assert_eq!(frame.pixel(100, 72)[3], 255, "{name}: its own matte, not the network's");
        }
        let anew = VideoRecipe { keep_alpha: false, ..recipe(VideoFormat::Mov) };
        let (_kept, finished) = cut(&engine(), &source, &anew).await.unwrap();
        assert_eq!(finished.warnings, [""; 0], "{name}");
        let first = &frames(&finished.file)[0];
        assert_eq!((first.pixel(140, 72)[3], first.pixel(100, 72)[3], first.pixel(30, 45)[3]), (0, 0, 255), "{name}");
    }
}

#[tokio::test]
async fn odd_sizes_are_kept_where_the_format_allows_them() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(
        folder.path(),
        "odd.mkv",
        &[&format!("{},format=gbrp,scale=97:61,setsar=1", boxed((96, 60), "10", 1))],
        "-c:v ffv1 -pix_fmt bgr0",
    );
    assert_eq!(probed(&source).await.unwrap().size, Size::new(97, 61));
    // For H.264 the last row and column are repeated.
    for (format, size) in [
        (VideoFormat::Webm, Size::new(97, 61)),
        (VideoFormat::Mov, Size::new(97, 61)),
        (VideoFormat::Gif, Size::new(97, 61)),
        (VideoFormat::Mp4, Size::new(98, 62)),
    ] {
        let (_kept, finished) = cut(&engine(), &source, &recipe(format)).await.unwrap();
        let frames = frames(&finished.file);
        assert_eq!((frames.len(), frames[0].size()), (10, size), "{format:?}");
        assert!(is_near(frames[0].pixel(22, 30), RED, 12), "{format:?}");
    }
}

#[tokio::test]
async fn clips_of_one_frame_and_of_few_pixels_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let one = made(folder.path(), "one.gif", &[&boxed((64, 36), "10", 1)], "-frames:v 1");
    let tiny = made(folder.path(), "tiny.mkv", &["color=c=red:s=2x2:r=5:d=1"], "-c:v ffv1 -pix_fmt bgr0");
    for format in [VideoFormat::Webm, VideoFormat::Mov, VideoFormat::Mp4, VideoFormat::Gif, VideoFormat::Webp] {
        let (_kept, finished) = cut(&engine(), &one, &recipe(format)).await.unwrap();
        assert_eq!(finished.frames, 1, "{format:?}");
        let (_kept, finished) = cut(&engine_of_everything(), &tiny, &recipe(format)).await.unwrap();
        assert_eq!(finished.frames, 5, "{format:?}");
    }
}

#[tokio::test]
async fn a_rotated_clip_becomes_upright() {
    let folder = tempfile::tempdir().unwrap();
    let flat = made(
        folder.path(),
        "flat.mp4",
        &[&boxed((160, 90), "10", 1)],
        "-c:v libx264 -preset ultrafast -pix_fmt yuv420p",
    );
    let rotated = remade(&flat, "rotated.mp4", "-c copy -metadata:s:v:0 rotate=90");
    assert_eq!(probed(&rotated).await.unwrap().size, Size::new(90, 160));
    let (_kept, finished) = cut(&engine(), &rotated, &mp4()).await.unwrap();
    let frames = frames(&finished.file);
    assert_eq!(frames[0].size(), Size::new(90, 160));
    // The box at the left is above or below after a quarter turn.
    let ends = [frames[0].pixel(45, 30), frames[0].pixel(45, 130)];
    assert_eq!(ends.iter().filter(|pixel| is_near(**pixel, RED, 12)).count(), 1, "{ends:?}");
}

#[tokio::test]
async fn a_variable_rate_becomes_a_constant_one_of_the_same_length() {
    let folder = tempfile::tempdir().unwrap();
    // Ten frames in the first second, then five in each.
    let graph = format!("{},select='lt(t,1)+not(mod(n,2))'", boxed((160, 90), "10", 3));
    let source = made(
        folder.path(),
        "vfr.mp4",
        &[&graph],
        "-fps_mode vfr -c:v libx264 -preset ultrafast -pix_fmt yuv420p -video_track_timescale 1000",
    );
    let clip = probed(&source).await.unwrap();
    assert!((clip.seconds - 3.0).abs() < 0.2, "{clip:?}");
    let (_kept, finished) = cut(&engine(), &source, &mp4()).await.unwrap();
    let length = finished.frames as f64 / clip.rate.per_second();
    assert!((length - clip.seconds).abs() < 0.11, "{length} of {}", clip.seconds);
    // The position of the box gives the time of a frame.
    let frames = frames(&finished.file);
    for (index, frame) in frames.iter().enumerate() {
        let row = (0..160).filter(|&x| is_near(frame.pixel(x, 45), RED, 40));
        let left = row.min().unwrap();
        let time = index as f64 / clip.rate.per_second();
        let expected = 8.0 + 20.0 * time;
        assert!(
            (f64::from(left) - expected).abs() < 20.0 * 0.31,
            "frame {index} at {time:.2}: {left} for {expected:.1}"
        );
    }
}

#[tokio::test]
async fn each_picture_of_a_slide_show_is_shown_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    // Red for a second, blue for ten; the last packet lasts 40 ms.
    let slides = "color=c=0x465A78:s=64x36:r=25:d=11.04[blue];color=c=0xD22832:s=64x36:r=25:d=11.04[red];\
         [blue][red]overlay=enable='lt(t,0.99)',select='eq(n,0)+eq(n,25)+eq(n,275)'";
    // The header of mkv says 25 frames a second.
    for (name, rate, count) in
        [("slides.mp4", TEN, 110..=111), ("slides.mkv", Rate { frames: 25, seconds: 1 }, 276..=276)]
    {
        let options = "-fps_mode vfr -c:v libx264 -preset ultrafast -pix_fmt yuv420p";
        let source = made(folder.path(), name, &[slides], options);
        let clip = probed(&source).await.unwrap();
        assert!(clip.rate == rate && (clip.seconds - 11.04).abs() < 0.06, "{name}: {clip:?}");
        let (_kept, finished) = cut(&engine_of_everything(), &source, &mp4()).await.unwrap();
        assert!(count.contains(&finished.frames), "{name}: {} frames", finished.frames);
        assert_eq!(finished.warnings, [""; 0], "{name}");
        let reds = frames(&finished.file).iter().filter(|frame| frame.pixel(32, 18)[0] > 140).count();
        assert_eq!(reds, rate.frames as usize, "{name}");
    }
}

#[tokio::test]
async fn each_picture_of_a_slide_show_of_several_sizes_is_shown_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut list = "ffconcat version 1.0\n".to_owned();
    for (color, width) in [("0xD22832", 80), ("0x28D232", 96), ("0x3228D2", 112)] {
        let options = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p";
        made(folder.path(), &format!("{width}.ts"), &[&format!("color=c={color}:s={width}x36:r=25:d=0.04")], options);
        list += &format!("file {width}.ts\nduration 2\n");
    }
    let slides = folder.path().join("list.ffconcat");
    fs::write(&slides, list).unwrap();
    let source = remade(&slides, "sizes.mkv", "-c copy");
    let (_kept, finished) = cut(&engine_of_everything(), &source, &mp4()).await.unwrap();
    let pictures = frames(&finished.file);
    // The last packet lasts 40 ms.
    assert!((pictures.len() as f64 / 25.0 - 4.04).abs() < 0.06, "{} frames", pictures.len());
    let strongest = |at: usize| {
        let [red, green, blue, _] = pictures[at].pixel(10, 10);
        if red > green.max(blue) {
            "red"
        } else if green > blue {
            "green"
        } else {
            "blue"
        }
    };
    assert_eq!([1, 48, 52, 98, pictures.len() - 1].map(strongest), ["red", "red", "green", "green", "blue"]);
}

#[tokio::test]
async fn non_square_pixels_become_square_and_half_a_frame_a_second_keeps_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let wide = "-vf setsar=2/1 -c:v libx264 -preset ultrafast -pix_fmt yuv420p";
    for (name, graph, options, seconds, middle) in [
        ("wide.mp4", boxed((80, 90), "10", 1), wide, 1_u32, (60, 45)),
        ("slow.mkv", boxed((160, 90), "1/2", 8), "-c:v ffv1", 8, (30, 45)),
    ] {
        let source = made(folder.path(), name, &[&graph], options);
        let clip = probed(&source).await.unwrap();
        assert_eq!((clip.size, clip.rate), (Size::new(160, 90), TEN), "{name}");
        assert!((clip.seconds - f64::from(seconds)).abs() < 0.11, "{name}: {} seconds", clip.seconds);
        assert_cut(&source, Size::new(160, 90), 10 * u64::from(seconds), middle).await;
    }
}

#[tokio::test]
async fn a_header_of_a_frame_in_years_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("years.mov");
    // Two frames of 100,000,000 seconds each, in a clip of one.
    let mut bytes = mov_of_samples(2);
    let at = bytes.windows(4).position(|bytes| bytes == b"stts").unwrap() + 16;
    bytes[at..at + 4].copy_from_slice(&200_000_000_u32.to_be_bytes());
    fs::write(&source, bytes).unwrap();
    let probed = probed(&source).await;
    assert!(matches!(probed, Err(VideoError::TooLarge(_))), "{probed:?}");
}

#[tokio::test]
async fn hdr_is_tone_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(
        folder.path(),
        "bright.mp4",
        &["color=c=white:s=64x36:r=10:d=0.5[a];color=c=0xC8C8C8:s=64x36:r=10:d=0.5[b];[a][b]hstack"],
        "-vf scale=out_color_matrix=bt2020,format=yuv420p10le -c:v libx265 -preset ultrafast \
         -x265-params log-level=none:colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc",
    );
    let (_kept, finished) = cut(&engine_of_everything(), &source, &mp4()).await.unwrap();
    assert_eq!((finished.frames, finished.warnings.len()), (5, 0));
    let frame = &frames(&finished.file)[2];
    let (light, less) = (frame.pixel(20, 18), frame.pixel(100, 18));
    // The brightest stays white, diffuse white (75 % of the signal) is near it, and grey stays grey.
    assert!(light[0] > 235 && less[0] > 150 && less[0] < light[0] - 10, "{light:?} and {less:?}");
    assert!(less[0].abs_diff(less[1]) < 6 && less[1].abs_diff(less[2]) < 6, "{less:?}");
}

#[tokio::test]
async fn a_recording_without_a_duration_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let graph = boxed((160, 90), "10", 2);
    let whole = made(
        folder.path(),
        "live.webm",
        &[&graph],
        "-c:v libvpx -pix_fmt yuv420p -deadline realtime -cpu-used 8 -live 1",
    );
    assert!(shown(&whole)["format"]["duration"].is_null());
    let clip = probed(&whole).await.unwrap();
    assert_eq!((clip.rate, clip.seconds), (TEN, 2.0));
}

#[tokio::test]
async fn the_first_of_two_audio_tracks_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(
        folder.path(),
        "two.mkv",
        &[&boxed((160, 90), "10", 1), "sine=frequency=480:duration=1", "anullsrc=d=1"],
        "-map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a flac -t 1",
    );
    let (_kept, finished) = cut(&engine(), &source, &mp4()).await.unwrap();
    let shown = shown(&finished.file);
    assert_eq!(shown["streams"].as_array().unwrap().len(), 2);
    let samples = sound(&finished.file);
    let loud = samples.iter().map(|sample| sample.abs()).fold(0.0, f32::max);
    assert!(loud > 0.05, "silence");
}

#[tokio::test]
async fn a_truncated_clip_is_processed_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let graph = boxed((160, 90), "10", 4);
    for (name, options) in [
        ("cut.mp4", "-c:v libx264 -preset ultrafast -g 5 -pix_fmt yuv420p -movflags +faststart"),
        ("cut.mkv", "-c:v libx264 -preset ultrafast -g 5 -pix_fmt yuv420p"),
    ] {
        let source = made(folder.path(), name, &[&format!("{graph},noise=alls=20")], options);
        let bytes = fs::read(&source).unwrap();
        fs::write(&source, &bytes[..bytes.len() * 6 / 10]).unwrap();
        let (_kept, finished) = cut(&engine(), &source, &mp4()).await.unwrap();
        assert!((12..=32).contains(&finished.frames), "{name}: {} frames", finished.frames);
        assert_eq!(finished.warnings.len(), 1, "{name}: {:?}", finished.warnings);
        assert!(finished.warnings[0].contains("cut off"), "{name}: {:?}", finished.warnings);
        assert_eq!(frames(&finished.file).len() as u64, finished.frames);
    }
}

#[tokio::test]
async fn unreadable_audio_is_dropped_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(
        folder.path(),
        "odd.mkv",
        &[&boxed((160, 90), "10", 1), "sine=frequency=480:duration=1"],
        "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a flac",
    );
    let mut bytes = fs::read(&source).unwrap();
    let at = bytes.windows(6).position(|bytes| bytes == b"A_FLAC").unwrap();
    bytes[at..at + 6].copy_from_slice(b"A_XXXX");
    fs::write(&source, bytes).unwrap();
    let (_kept, finished) = cut(&engine(), &source, &mp4()).await.unwrap();
    assert!(stream(&shown(&finished.file), "audio").is_none());
    assert!(finished.warnings.iter().any(|warning| warning.contains("sound")), "{:?}", finished.warnings);
}

#[tokio::test]
async fn an_unsupported_codec_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(folder.path(), "snow.mkv", &["testsrc2=s=64x36:r=5:d=1"], "-c:v snow -pix_fmt yuv420p");
    let refused = probed(&source).await;
    assert!(matches!(&refused, Err(VideoError::Unsupported(name)) if name == "snow"), "{refused:?}");
}

#[tokio::test]
async fn audio_without_video_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(folder.path(), "sound.mp4", &["sine=duration=1"], "-c:a aac");
    assert!(matches!(probed(&source).await, Err(VideoError::NoPicture)));
    assert!(matches!(cut(&engine(), &source, &mp4()).await, Err(VideoError::NoPicture)));
}

#[tokio::test]
async fn files_that_are_no_clips_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = clip(folder.path());
    let at = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        file
    };
    for (name, bytes) in [
        ("empty.mp4", &b""[..]),
        ("text.mp4", b"hello"),
        ("zeros.mp4", &[0; 4000]),
        ("box.mp4", b"\0\0\0\x18ftypisom\0\0\0\0isommp42"),
    ] {
        assert!(matches!(probed(&at(name, bytes)).await, Err(VideoError::Unreadable)), "{name}");
    }
    // Detected formats are named, whatever the file name.
    let elsewhere = good.display();
    for (kind, text) in [
        ("m3u8", format!("#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{elsewhere}\n#EXT-X-ENDLIST\n")),
        ("ffconcat", format!("ffconcat version 1.0\nfile '{elsewhere}'\n")),
        ("xml", format!("<?xml version=\"1.0\"?><MPD><BaseURL>{elsewhere}</BaseURL></MPD>")),
    ] {
        let refused = probed(&at("list.mp4", text.as_bytes())).await;
        assert!(matches!(&refused, Err(VideoError::Unsupported(name)) if name == kind), "{kind}: {refused:?}");
    }
    let plain = at("plain.mp4", format!("file '{elsewhere}'\n").as_bytes());
    assert!(matches!(probed(&plain).await, Err(VideoError::Unreadable)));
    let other = made(folder.path(), "other.avi", &["testsrc2=s=64x36:r=5:d=1"], "-c:v mpeg4");
    assert!(matches!(probed(&other).await, Err(VideoError::Unsupported(name)) if name == "avi"));
    let missing = probed(&folder.path().join("missing.mp4")).await;
    assert!(matches!(missing, Err(VideoError::Io { .. })), "{missing:?}");
}

#[tokio::test]
async fn clips_above_the_limits_are_refused_by_the_probe() {
    let folder = tempfile::tempdir().unwrap();
    for (name, graph) in [
        ("wide.mkv", "color=s=1922x64:r=5:d=1"),
        ("high.mkv", "color=s=1200x1090:r=5:d=1"),
        ("long.mkv", "color=s=32x32:r=1:d=62"),
        ("fast.mkv", "color=s=32x32:r=120:d=1"),
    ] {
        let source = made(folder.path(), name, &[graph], "-c:v ffv1");
        assert!(matches!(probed(&source).await, Err(VideoError::TooLarge(_))), "{name}");
    }
    let upright = made(folder.path(), "upright.mkv", &["color=s=1080x1920:r=5:d=0.2"], "-c:v ffv1");
    assert_eq!(probed(&upright).await.unwrap().size, Size::new(1080, 1920));
    let heavy = folder.path().join("heavy.mp4");
    fs::File::create(&heavy).unwrap().set_len(MAX_BYTES + 1).unwrap();
    assert!(matches!(probed(&heavy).await, Err(VideoError::TooLarge(_))));
}

#[tokio::test]
async fn an_index_that_would_need_gigabytes_ends_the_probe() {
    // 648 bytes; ffprobe makes an index entry for each of 70 million declared samples, which takes 1.7 GB.
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("index.mov");
    fs::write(&source, mov_of_samples(70_000_000)).unwrap();
    let probed = probed(&source).await;
    assert!(matches!(probed, Err(VideoError::Unreadable)), "{probed:?}");
}

/// A QuickTime file whose header declares `samples` samples of one byte.
fn mov_of_samples(samples: u32) -> Vec<u8> {
    let atom = |kind: &[u8; 4], parts: &[&[u8]]| {
        let body = parts.concat();
        [&(body.len() as u32 + 8).to_be_bytes()[..], kind, &body].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let matrix = words(&[1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30]);
    let mvhd =
        atom(b"mvhd", &[&words(&[0, 0, 0, 1000, 1000, 1 << 16]), &[1, 0], &[0; 10], &matrix, &[0; 24], &words(&[2])]);
    let tkhd = atom(b"tkhd", &[&words(&[7, 0, 0, 1, 0, 1000]), &[0; 16], &matrix, &words(&[64 << 16, 64 << 16])]);
    let mdhd = atom(b"mdhd", &[&words(&[0, 0, 0, samples, samples, 0])]);
    let hdlr = atom(b"hdlr", &[&[0; 8], b"vide", &[0; 12], b"v\0"]);
    let sizes = [0, 64, 0, 64, 0, 72, 0, 0, 0, 72, 0, 0, 0, 0, 0, 0, 0, 1];
    let raw = atom(b"raw ", &[&[0, 0, 0, 0, 0, 0, 0, 1], &[0; 16], &sizes, &[0; 32], &[0, 24, 0xff, 0xff]]);
    let stbl = atom(
        b"stbl",
        &[
            &atom(b"stsd", &[&words(&[0, 1]), &raw]),
            &atom(b"stts", &[&words(&[0, 1, samples, 1])]),
            &atom(b"stsc", &[&words(&[0, 1, 1, samples, 1])]),
            &atom(b"stsz", &[&words(&[0, 1, samples])]),
            &atom(b"stco", &[&words(&[0, 1, 40])]),
        ],
    );
    let dinf = atom(b"dinf", &[&atom(b"dref", &[&words(&[0, 1]), &atom(b"url ", &[&words(&[1])])])]);
    let minf = atom(b"minf", &[&atom(b"vmhd", &[&words(&[1, 0, 0])]), &dinf, &stbl]);
    let trak = atom(b"trak", &[&tkhd, &atom(b"mdia", &[&mdhd, &hdlr, &minf])]);
    [atom(b"ftyp", &[b"qt  \0\0\0\0qt  "]), atom(b"mdat", &[&[0; 64]]), atom(b"moov", &[&mvhd, &trak])].concat()
}

#[tokio::test]
async fn a_clip_longer_than_its_declared_duration_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let source = declared_as_2_seconds(folder.path(), 70);
    let probed = probed(&source).await;
    assert!(matches!(probed, Err(VideoError::TooLarge(_))), "{probed:?}");
    let stopped = cut(&engine_of_everything(), &source, &mp4()).await;
    assert!(matches!(stopped, Err(VideoError::TooLarge(_))), "{stopped:?}");
}

#[tokio::test]
async fn a_clip_has_the_length_that_is_decoded_whatever_its_header_declares() {
    let folder = tempfile::tempdir().unwrap();
    let source = declared_as_2_seconds(folder.path(), 7);
    assert_eq!(probed(&source).await.unwrap().seconds, 7.0);
    let (_kept, done) = cut(&engine_of_everything(), &source, &mp4()).await.unwrap();
    assert_eq!(done.frames, 35);
    // Also of an animation with a long last frame.
    let source = made(folder.path(), "long.gif", &["testsrc=s=32x32:r=10:d=0.3"], "");
    let mut bytes = fs::read(&source).unwrap();
    let last = bytes.windows(3).rposition(|bytes| bytes == [0x21, 0xf9, 0x04]).unwrap();
    bytes[last + 4..last + 6].copy_from_slice(&500_u16.to_le_bytes());
    fs::write(&source, bytes).unwrap();
    let seconds = probed(&source).await.unwrap().seconds;
    assert!((seconds - 5.2).abs() < 0.25, "{seconds}");
    cut(&engine_of_everything(), &source, &mp4()).await.unwrap();
}

/// A clip whose header says that it lasts two seconds.
fn declared_as_2_seconds(folder: &Path, seconds: u32) -> PathBuf {
    let source =
        made(folder, "lies.mkv", &[&format!("color=c=red:s=32x32:r=5:d={seconds}")], "-c:v ffv1 -pix_fmt bgr0");
    let mut bytes = fs::read(&source).unwrap();
    // The duration in the header (a double, in milliseconds) and in the tags.
    let at = bytes.windows(3).position(|bytes| bytes == [0x44, 0x89, 0x88]).unwrap();
    bytes[at + 3..at + 11].copy_from_slice(&2000.0_f64.to_be_bytes());
    while let Some(at) = bytes.windows(8).position(|bytes| bytes == b"DURATION") {
        bytes[at] = b'X';
    }
    fs::write(&source, bytes).unwrap();
    source
}

#[tokio::test]
async fn a_jump_in_the_timestamps_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = made(
        folder.path(),
        "jump.mkv",
        &["color=c=red:s=32x32:r=5:d=2,setpts='if(gt(N,5),PTS+86400/TB,PTS)'"],
        "-c:v ffv1 -pix_fmt bgr0 -fps_mode passthrough",
    );
    assert!(matches!(cut(&engine_of_everything(), &source, &mp4()).await, Err(VideoError::TooLarge(_))));
}
