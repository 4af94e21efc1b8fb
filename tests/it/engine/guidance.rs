//! What the caller says about the subject (masks, box, points), through the whole pipeline with a fake network.

use crate::engine::pipeline::{bright_factory, call, png};
use crate::engine::support::config;
use crate::support::segmenter;
use backdrop::engine::{Engine, SegmenterFactory};
use backdrop::image::Size;
use backdrop::pipeline::{self, AuxImage, Files, Output, PipelineError};
use backdrop::recipe::{ENDPOINTS, Fields, MASK_FILE, Recipe};
use bytes::Bytes;
use moxcms::ColorProfile;
use std::sync::atomic::Ordering;
use std::time::Duration;

const SIZE: Size = Size::new(240, 180);
const GROUND: [u8; 4] = [20, 24, 30, 255];
const BLOCK: [u8; 4] = [240, 200, 90, 255];

/// Two bright blocks on dark ground: 40..90 × 60..120, and 150..200 × 60..120.
fn is_block(x: u32, y: u32) -> bool {
    ((40..90).contains(&x) || (150..200).contains(&x)) && (60..120).contains(&y)
}

fn blocks() -> Bytes {
    png(SIZE, |x, y| if is_block(x, y) { BLOCK } else { GROUND })
}

/// A mask of one grey value for each pixel.
fn mask(value: impl Fn(u32, u32) -> u8) -> Bytes {
    png(SIZE, |x, y| {
        let value = value(x, y);
        [value, value, value, 255]
    })
}

fn recipe(endpoint: &str, fields: &[(&str, &str)], has_mask: bool) -> Recipe {
    let mut sent = Fields::default();
    fields.iter().for_each(|(name, value)| sent.push(name, value).expect("a field"));
    if has_mask {
        sent.attach(MASK_FILE);
    }
    let endpoint = ENDPOINTS.iter().find(|known| known.name == endpoint).expect("an endpoint");
    endpoint.recipe(&sent).expect("valid fields")
}

async fn run_with(
    factory: SegmenterFactory,
    source: Bytes,
    endpoint: &str,
    fields: &[(&str, &str)],
    mask: Option<Bytes>,
) -> Result<Output, PipelineError> {
    let engine = Engine::start(&config(4, 4), factory);
    let recipe = recipe(endpoint, fields, mask.is_some());
    let files = Files { source, background: None, mark: None, mask, fetch: Duration::ZERO };
    pipeline::run(&engine, files, &recipe, &call()).await
}

async fn run(endpoint: &str, fields: &[(&str, &str)], mask: Option<Bytes>) -> Result<Output, PipelineError> {
    run_with(bright_factory().0, blocks(), endpoint, fields, mask).await
}

/// The bytes of a PNG, and how many of them a pixel has.
fn decoded(output: &Output) -> (Vec<u8>, usize) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(&output.image.bytes)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("small")];
    let info = reader.next_frame(&mut pixels).expect("pixels");
    assert_eq!((info.width, info.height), (SIZE.width, SIZE.height));
    (pixels, info.color_type.samples())
}

fn alpha(output: &Output) -> impl Fn(u32, u32) -> u8 + use<> {
    let (pixels, samples) = decoded(output);
    move |x, y| pixels[(y * SIZE.width + x) as usize * samples + samples - 1]
}

fn everywhere() -> impl Iterator<Item = (u32, u32)> {
    (0..SIZE.height).flat_map(|y| (0..SIZE.width).map(move |x| (x, y)))
}

#[tokio::test]
async fn a_box_leaves_nothing_outside_to_the_pixel_and_all_of_the_subject_inside() {
    // Through the corner of a grid's cell, and in percent.
    for (area, left, right) in [("13,41,101,133", 13, 101), ("0%, 0%, 50%, 100%", 0, 120), ("30.2,0,60px,100%", 30, 60)]
    {
        let output = run("remove", &[("box", area)], None).await.expect("a subject");
        let (alpha, subject) = (alpha(&output), output.subject.expect("bounds"));
        for (x, y) in everywhere() {
            if !(left..right).contains(&x) {
                assert_eq!(alpha(x, y), 0, "{area} at {x},{y}");
            } else if (45..85.min(right - 4)).contains(&x) && (65..115).contains(&y) {
                assert!(alpha(x, y) > 235, "{area} at {x},{y}: {}", alpha(x, y));
            }
        }
        assert!(subject.left >= left && subject.left + subject.width <= right, "{area}: {subject}");
        assert_eq!(
            (subject.top.abs_diff(60) <= 2, subject.height.abs_diff(60) <= 4),
            (true, true),
            "{area}: {subject}"
        );
    }
}

/// A network that finds nothing in the whole picture and what is bright in any other.
fn short_sighted() -> SegmenterFactory {
    segmenter::factory_by_frame("short-sighted-1", |frame| {
        let (size, grid) = (frame.size(), Size::new(64, 64));
        segmenter::mask(grid, |x, y| {
            let bright = frame.pixel(x * size.width / grid.width, y * size.height / grid.height)[0] > 128;
            if bright && size != SIZE { 1.0 } else { 0.0 }
        })
    })
}

#[tokio::test]
async fn the_network_looks_at_the_box_alone() {
    let all = run_with(short_sighted(), blocks(), "remove", &[], None).await;
    assert!(matches!(all, Err(PipelineError::NoSubject(_))), "{all:?}");
    for endpoint in ["remove", "mask", "smart-crop"] {
        let inside = run_with(short_sighted(), blocks(), endpoint, &[("box", "20,40,110,140")], None).await;
        let inside = inside.expect(endpoint);
        let subject = inside.subject.expect("bounds");
        let size = inside.image.size;
        match endpoint {
            // A crop of 8 pixels around the block, whose bounds are those of the mask and a cell more.
            "smart-crop" => assert!(size.width.abs_diff(70) <= 4 && size.height.abs_diff(80) <= 4, "{size}"),
            _ => assert!(subject.left.abs_diff(40) <= 2 && subject.width.abs_diff(50) <= 4, "{endpoint}: {subject}"),
        }
    }
}

/// A network that finds the left block, and with hints everything that is bright.
fn guided() -> SegmenterFactory {
    segmenter::factory_by_frame("guided-1", |frame| {
        let (size, grid) = (frame.size(), Size::new(64, 64));
        let is_guided = frame.hints().is_some();
        segmenter::mask(grid, |x, y| {
            let bright = frame.pixel(x * size.width / grid.width, y * size.height / grid.height)[0] > 128;
            if bright && (is_guided || x < grid.width / 2) { 1.0 } else { 0.0 }
        })
    })
}

#[tokio::test]
async fn points_and_strokes_are_seen_by_the_guided_network_and_only_what_they_touch_changes() {
    let stroke = |x: u32, y: u32| if (170..180).contains(&x) && (85..95).contains(&y) { 255 } else { 128 };
    let hint = [("mask_mode", "hint")];
    type Case<'a> = (&'a [(&'a str, &'a str)], Option<Bytes>, u8);
    let cases: [Case<'_>; 4] = [
        (&[], None, 0),
        (&[("point", "175,90")], None, 255),
        (&hint, Some(mask(stroke)), 255),
        // The right block is not touched.
        (&[("not_point", "10,10")], None, 0),
    ];
    for (fields, strokes, right) in cases {
        let output = run_with(guided(), blocks(), "mask", fields, strokes).await.expect("a subject");
        let alpha = alpha(&output);
        assert_eq!([alpha(65, 90), alpha(160, 70)], [255, right], "{fields:?}");
    }
}

#[tokio::test]
async fn a_picture_with_a_point_has_a_subject_even_where_the_networks_find_none() {
    for at in ["65,90", "0,0", "239,179"] {
        let output = run_with(short_sighted(), blocks(), "remove", &[("point", at)], None).await;
        let subject = output.expect(at).subject.expect("bounds");
        assert!((1..40).contains(&subject.width) && (1..40).contains(&subject.height), "{at}: {subject}");
    }
}

#[tokio::test]
async fn a_mask_in_place_of_the_networks_decides_what_stays_without_the_network() {
    let (factory, seen) = bright_factory();
    let engine = Engine::start(&config(4, 4), factory);
    engine.ready().await.expect("it starts");
    let tested = seen.load(Ordering::SeqCst);
    // Three pixels off the edge of the left block: matting finds the edge.
    let rough = mask(|x, y| if (43..93).contains(&x) && (63..123).contains(&y) { 255 } else { 0 });
    let files = Files { source: blocks(), background: None, mark: None, mask: Some(rough), fetch: Duration::ZERO };
    let output = pipeline::run(&engine, files, &recipe("remove", &[], true), &call()).await.expect("a subject");
    assert_eq!(seen.load(Ordering::SeqCst), tested, "the network did not run");
    assert_eq!((output.uncertainty, output.model.as_str()), (Some(0.0), "bright-1"));
    let alpha_of = alpha(&output);
    assert!((50..80).all(|x| alpha_of(x, 90) == 255) && (100..240).all(|x| alpha_of(x, 90) == 0));
}

#[tokio::test]
async fn a_mask_without_matting_is_the_coverage_as_it_was_sent() {
    // A ramp, and a dot and a hole that would be specks of the network's mask.
    let value = |x: u32, y: u32| match (x, y) {
        (10..12, 20..23) => 255,
        (220..222, 90) => 0,
        _ => ((x.saturating_sub(40) * 255 + 80) / 160).min(255) as u8,
    };
    let fields = [("matting", "none"), ("mask_mode", "Replace")];
    let output = run("mask", &fields, Some(mask(value))).await.expect("a subject");
    let same = alpha(&output);
    for (x, y) in everywhere() {
        assert_eq!(same(x, y), value(x, y), "at {x},{y}");
    }
    let hard = run("mask", &[("matting", "none"), ("edge", "hard")], Some(mask(value))).await.expect("a subject");
    let hard = alpha(&hard);
    assert_eq!([hard(60, 60), hard(180, 60)], [0, 255]);
}

#[tokio::test]
async fn a_colour_profile_does_not_change_a_mask() {
    let ramp = |profile: Option<Vec<u8>>| {
        let mut info = png::Info::with_size(SIZE.width, SIZE.height);
        info.icc_profile = profile.map(Into::into);
        let mut file = Vec::new();
        let mut writer = png::Encoder::with_info(&mut file, info).expect("a picture").write_header().expect("a header");
        let row: Vec<u8> = (0..SIZE.width).map(|x| x as u8).collect();
        writer.write_image_data(&row.repeat(SIZE.height as usize)).expect("grey pixels");
        writer.finish().expect("an end");
        Bytes::from(file)
    };
    let linear = ColorProfile::new_gray_with_gamma(1.0).encode().expect("a profile");
    for fields in [&[("matting", "none")][..], &[("matting", "closed-form")]] {
        let [plain, tagged] = [None, Some(linear.clone())].map(|profile| run("mask", fields, Some(ramp(profile))));
        let (plain, tagged) = (plain.await.expect("a subject"), tagged.await.expect("a subject"));
        assert!(plain.image.bytes == tagged.image.bytes, "{fields:?}: the masks differ");
    }
}

#[tokio::test]
async fn only_the_unknown_pixels_of_a_trimap_are_solved() {
    // The right block, a band around its edge, and a known spot of two pixels that cleaning would take for a speck.
    let label = |x: u32, y: u32| {
        let inside = (155..195).contains(&x) && (65..115).contains(&y) || (10..12).contains(&x) && y == 10;
        let near = (145..205).contains(&x) && (55..125).contains(&y);
        if inside {
            255
        } else if near {
            128
        } else {
            0
        }
    };
    for fields in [&[][..], &[("edge", "hard")], &[("engine", "product-v1")]] {
        let fields: Vec<_> = fields.iter().chain(&[("mask_mode", "trimap")]).copied().collect();
        let output = run("remove", &fields, Some(mask(label))).await.expect("a subject");
        let alpha = alpha(&output);
        for (x, y) in everywhere() {
            match label(x, y) {
                128 if is_block(x, y) => assert!(alpha(x, y) > 120, "{fields:?} at {x},{y}: {}", alpha(x, y)),
                128 => assert!(alpha(x, y) < 120, "{fields:?} at {x},{y}: {}", alpha(x, y)),
                known => assert_eq!(alpha(x, y), known, "{fields:?} at {x},{y}"),
            }
        }
    }
}

#[tokio::test]
async fn a_transparent_picture_keeps_its_alpha_unless_the_subject_is_shown_anew() {
    let source = png(SIZE, |x, y| if is_block(x, y) { [240, 200, 90, if x < 90 { 255 } else { 0 }] } else { [0; 4] });
    let kept = run_with(bright_factory().0, source.clone(), "mask", &[("box", "0,0,60,180")], None).await;
    let kept = alpha(&kept.expect("a subject"));
    assert!(
        everywhere().all(|(x, y)| kept(x, y) == if is_block(x, y) && x < 60 { 255 } else { 0 }),
        "its own, in the box"
    );
    let anew = mask(|x, _| if x < 120 { 255 } else { 0 });
    let anew = run_with(bright_factory().0, source, "mask", &[("matting", "none")], Some(anew)).await;
    assert_eq!(alpha(&anew.expect("a subject"))(5, 5), 255, "the mask's");
}

#[tokio::test]
async fn the_clean_mask_is_answered_before_matting_and_can_be_sent_back() {
    let clean = run("mask", &[("stage", "mask")], None).await.expect("a subject");
    let (pixels, samples) = decoded(&clean);
    assert_eq!(samples, 1, "grey");
    assert!(is_block(60, 90) && pixels[90 * 240 + 60] == 255 && pixels[5 * 240 + 5] == 0);
    // An edge of the network's grid is a ramp over its cells, of 3.75 × 2.8 pixels; matting makes it one of a pixel.
    let ramp = |pixels: &[u8]| (20..60).filter(|x| (1..255).contains(&pixels[90 * 240 + x])).count();
    let matte = decoded(&run("mask", &[], None).await.expect("a subject")).0;
    assert!(ramp(&pixels) > ramp(&matte) + 1, "{} {}", ramp(&pixels), ramp(&matte));
    let back = run("mask", &[], Some(clean.image.bytes.clone())).await.expect("a subject");
    let back = decoded(&back).0;
    let off = matte.iter().zip(&back).filter(|(matte, back)| matte.abs_diff(**back) > 8).count();
    assert!(off < 300, "{off} pixels differ");
}

#[tokio::test]
async fn what_does_not_fit_the_picture_is_refused_with_field_and_rule() {
    let small = png(Size::new(100, 50), |_, _| [255; 4]);
    type Case<'a> = (&'a [(&'a str, &'a str)], Option<Bytes>, &'a str, &'a str);
    let cases: Vec<Case<'_>> = vec![
        (
            &[],
            Some(small),
            "mask_file",
            "\"a mask of 100×50\" (expected one of 240×180, the size of the upright picture)",
        ),
        (&[("mask_mode", "trimap")], Some(mask(|_, _| 128)), "mask_file", "a trimap without foreground"),
        (&[("box", "10,10,241,20")], None, "box", "corners inside the picture of 240×180"),
        (&[("box", "10,10,10,20")], None, "box", "a pixel or more between them"),
        (&[("box", "50%,10,20%,20")], None, "box", "a pixel or more between them"),
        (&[("point", "240,10")], None, "point", "\"240,10\" (expected a pixel inside the picture of 240×180)"),
        (&[("not_point", "10,180")], None, "not_point", "a pixel inside the picture of 240×180"),
        (&[("point", "60,90;7,7"), ("not_point", "7.9,7")], None, "not_point", "another pixel than that of a `point`"),
        (&[("box", "10,10,50,50"), ("point", "50,20")], None, "point", "a pixel inside of `box`"),
    ];
    for (fields, mask, param, why) in cases {
        match run("remove", fields, mask).await {
            Err(PipelineError::Guidance(error)) => {
                assert_eq!(error.param(), param, "{fields:?}: {error}");
                assert!(error.to_string().contains(why), "{fields:?}: {error}");
            }
            other => panic!("{fields:?}: {other:?}"),
        }
    }
    // Not wrong: a background point outside of the box says what is known; a share of all is the last pixel.
    for fields in [&[("box", "20,40,110,140"), ("not_point", "200,90")][..], &[("not_point", "100%,100%")]] {
        assert!(run("remove", fields, None).await.is_ok(), "{fields:?}");
    }
    let broken = run("remove", &[], Some(Bytes::from_static(b"\x89PNG\r\n\x1a\n"))).await;
    assert!(matches!(broken, Err(PipelineError::AuxImage { which: AuxImage::Mask, .. })), "{broken:?}");
}
