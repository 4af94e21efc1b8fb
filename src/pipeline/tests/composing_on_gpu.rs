//! Composing on a GPU, or on Mesa's lavapipe without one, gives the CPU's results: from equal cutouts, and end to end.
//!
//! Without an adapter the tests are skipped with a notice, or fail with `BACKDROP_TEST_DEVICE=gpu` in the environment.

use super::support::{LIMITS, assert_alike, before_green, device, masks, on, resident, session, small_picture};
use crate::compose::{
    self, Background, Fit, Framing, Grounding, Head, Layout, Light, Materials, Outline, SUBJECT_ALPHA, Scene,
};
use crate::image::color::Color;
use crate::image::{AlphaMatte, BufferPool, Frame, RawMask, Rect, Size, Subject, Transferred};
use crate::matting::{Options, cut_out};
use crate::pipeline::coverage::Coverage;
use crate::pipeline::executor::{Composition, FinishedPicture, Task, finish};
use crate::pipeline::portrait::PortraitFace;
use crate::pipeline::window;
use crate::recipe::{ENDPOINTS, Fields, Picture};
use burn::tensor::Device;
use std::sync::Arc;

/// Scenes by endpoint and fields: every layer, alone and combined, at scale 1 and resampled.
const SCENES: [(&str, &[(&str, &str)]); 14] = [
    ("remove", &[("max_dim", "150")]),
    ("remove", &[("width", "700"), ("height", "500")]),
    ("replace-bg", &[("bg_color", "#204060")]),
    ("replace-bg", &[("bg_color", "#20406080"), ("width", "333")]),
    ("studio-shot", &[("bg_blur", "40")]),
    ("studio-shot", &[("bg_blur", "5"), ("padding", "0"), ("max_dim", "300")]),
    ("studio-shot", &[]),
    ("studio-shot", &[("transparent", "true"), ("padding", "5"), ("anchor", "auto")]),
    ("studio-shot", &[("enhance", "true"), ("enhance_strength", "0.4"), ("aspect", "4:5"), ("max_dim", "400")]),
    ("shadow", &[]),
    ("shadow", &[("blur", "60"), ("angle", "30"), ("offset", "40"), ("bg_color", "#ffe0c0"), ("anchor", "auto")]),
    ("sticker", &[]),
    ("sticker", &[("stroke_width", "5"), ("stroke_color", "#ff8000"), ("width", "250")]),
    ("sticker", &[("watermark", "https://example.org/mark.png"), ("watermark_opacity", "0.5")]),
];

fn scene(endpoint: &str, pairs: &[(&str, &str)]) -> Scene {
    let mut fields = Fields::default();
    pairs.iter().for_each(|(name, value)| fields.push(name, value).expect("each once"));
    let endpoint = ENDPOINTS.iter().find(|one| one.name == endpoint).expect("it is there");
    endpoint.recipe(&fields).expect("valid fields").scene
}

fn subject() -> (Frame, RawMask) {
    let frame = small_picture("goods-camera.jpg");
    let mask = masks(std::slice::from_ref(&frame)).remove(0);
    (frame, mask)
}

fn coverage(cutout: &Frame) -> AlphaMatte {
    let alpha: Vec<u8> = cutout.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[3]).collect();
    AlphaMatte::new(cutout.size(), alpha)
}

/// Composes `cutout` on both devices and compares the pictures.
fn compare(cutout: &Frame, scene: &Scene, background: Option<&Frame>, device: &Device, what: &str) {
    let mark = scene.watermark.as_ref().map(|_| small_picture("hair-curls.jpg"));
    let source = subject().0;
    let materials = || Materials { background: background.cloned(), mark: mark.clone(), plate: scene.plate(&source) };
    let bounds = cutout.covered(SUBJECT_ALPHA).expect("a subject");
    let scene = scene.anchored(cutout);
    let layout = scene.layout(cutout.size(), bounds).expect("a canvas");
    assert!(compose::gpu::does(&scene, cutout.size()), "{what}");
    let expected = compose::flatten(Subject::Source(cutout.clone()), bounds, &layout, &scene, materials());
    let (session, pixels) = (session(device, LIMITS), on(device, cutout).words());
    assert!(compose::gpu::has_room(&session, cutout.size(), &layout, &scene, &materials()), "{what}");
    let take = |len| vec![0; len].into();
    let materials = materials();
    let composed = compose::gpu::flatten(&session, (pixels, &coverage(cutout)), &layout, &scene, &materials, take);
    let composed = composed.expect("the device composes").expect("a subject");
    let (picture, expected_picture) = (composed.composite.frame(), expected.composite.frame());
    assert_eq!(picture.size(), expected_picture.size(), "{what}");
    assert_alike(expected_picture.pixels(), picture.pixels(), what);
    let sides = |Rect { left, top, width, height }: Rect| [left, top, left + width, top + height];
    let apart = sides(composed.subject).into_iter().zip(sides(expected.subject.expect("a subject")));
    assert!(apart.clone().all(|(one, other)| one.abs_diff(other) <= 1), "{what}: {:?}", apart.collect::<Vec<_>>());
    let up = background.map_or(0, |background| background.pixels().len());
    let up = (up + materials.plate.map_or(0, |plate| 16 * plate.cells())) as u64;
    let down = (picture.pixels().len() + 8 * picture.size().height as usize) as u64;
    // Downloaded: the silhouette of at most 224 cells a side and a row of the canvas. Uploaded: the shadow.
    let most = if scene.grounding.is_some() { 9 * 4 * 224 * 224 } else { 0 };
    let Transferred { up: actual_up, down: actual_down } = composed.transferred;
    assert!((up..=up + most).contains(&actual_up), "{what}: {actual_up} up");
    assert!((down..=down + most).contains(&actual_down), "{what}: {actual_down} down");
}

#[test]
fn every_scene_agrees_with_the_cpu_from_the_same_cutout() {
    let Some(device) = device() else { return };
    let (frame, mask) = subject();
    let cutout = cut_out(frame, &mask, &Options::default()).expect("a subject").into_frame();
    for (endpoint, fields) in SCENES {
        compare(&cutout, &scene(endpoint, fields), None, &device, &format!("{endpoint} {fields:?}"));
    }
}

#[test]
fn a_shadow_on_the_ground_and_the_light_of_a_scene_agree_with_the_cpu() {
    let Some(device) = device() else { return };
    let (frame, mask) = subject();
    let cutout = cut_out(frame, &mask, &Options::default()).expect("a subject").into_frame();
    let picture = small_picture("scene-figure.jpg");
    let light =
        |angle| Light { shadow_angle: angle, shadow_length: 0.6, softness: 0.4, strength: 0.7, tint: [1.6, 1.0, 0.5] };
    let background = Background::Picture { fit: Fit::Cover, behind: Color::WHITE };
    for (angle, horizon) in [(20.0, Some(0.3)), (200.0, Some(0.6)), (90.0, None)] {
        let grounding = Some(Grounding { light: light(angle), horizon });
        let what = format!("at {angle}, {horizon:?}");
        compare(&cutout, &Scene { background, grounding, ..scene("studio-shot", &[]) }, Some(&picture), &device, &what);
        let scene = Scene { grounding, ..scene("sticker", &[("width", "250")]) };
        compare(&cutout, &scene, None, &device, &format!("a sticker {what}"));
    }
    // A border that crops the subject hides the ground.
    let grounding = Some(Grounding { light: light(40.0), horizon: Some(0.1) });
    let size = cutout.size();
    let upper = Rect { height: size.height / 2, ..Rect::whole(size) };
    let cropped = cutout.cropped(upper, 1, |len| vec![0; len].into());
    compare(&cropped, &Scene { background, grounding, ..Scene::default() }, Some(&picture), &device, "cropped");
}

#[test]
fn every_fit_of_a_background_agrees_with_the_cpu() {
    let Some(device) = device() else { return };
    let (frame, mask) = subject();
    let cutout = cut_out(frame, &mask, &Options::default()).expect("a subject").into_frame();
    let mut picture = small_picture("scene-figure.jpg");
    // Partly translucent, so that the colour behind it shows.
    picture.pixels_mut().as_chunks_mut::<4>().0.iter_mut().step_by(3).for_each(|pixel| pixel[3] = 120);
    for fit in [Fit::Cover, Fit::Contain, Fit::Stretch] {
        let background = Background::Picture { fit, behind: Color([90, 20, 160, 200]) };
        let scene = Scene { background, ..scene("studio-shot", &[]) };
        compare(&cutout, &scene, Some(&picture), &device, &format!("{fit:?}"));
    }
    // At scale 1 the picture is copied.
    let background = Background::Picture { fit: Fit::Cover, behind: Color::WHITE };
    let picture = picture.cropped(Rect::whole(cutout.size()), 1, |len| vec![0; len].into());
    compare(&cutout, &Scene { background, ..Scene::default() }, Some(&picture), &device, "a copy");
}

fn task(frame: Frame, mask: &RawMask, scene: Scene) -> Task {
    let window = Rect::whole(frame.size());
    let coverage = Coverage::Network { mask: mask.clone(), standard: None, seeds: Arc::default(), window, crop: None };
    let (scene, face) = (Arc::new(scene), PortraitFace::default());
    let composition = Composition { scene, materials: Materials::default(), face };
    let (picture, options) = (Picture::Cutout, Options::default());
    Task { frame, coverage, picture, options, region: None, composition }
}

/// Finishes a task with its frames on the CPU and then on `device`, and compares the pictures.
fn on_both(
    device: &Device,
    what: &str,
    task: impl Fn(&dyn Fn(&Frame) -> Frame) -> Task,
) -> (FinishedPicture, FinishedPicture) {
    let expected = finish(task(&Frame::clone)).expect("a picture");
    let actual = finish(task(&|frame: &Frame| resident(frame, device))).expect("a picture");
    assert_eq!(expected.transferred, None, "{what}");
    let [expected_picture, picture] = [&expected, &actual].map(|finished| finished.composite.frame());
    assert_eq!(expected_picture.size(), picture.size(), "{what}");
    assert_alike(expected_picture.pixels(), picture.pixels(), what);
    (expected, actual)
}

/// Bytes of the downloaded coverage of a picture of `size`.
fn coverage_bytes(Size { width, height }: Size) -> u64 {
    u64::from(width.next_multiple_of(4) * height)
}

/// Bytes of a downloaded result, with the extents of its rows.
fn result_bytes(finished: &FinishedPicture) -> u64 {
    let picture = finished.composite.frame();
    picture.pixels().len() as u64 + 8 * u64::from(picture.size().height)
}

#[test]
fn a_composed_picture_crosses_the_border_once_each_way() {
    let Some(device) = device() else { return };
    let (frame, mask) = subject();
    for (endpoint, fields) in [SCENES[0], SCENES[2], SCENES[4], SCENES[7], SCENES[9]] {
        let what = format!("{endpoint} {fields:?}");
        let (_, actual) = on_both(&device, &what, |place| task(place(&frame), &mask, scene(endpoint, fields)));
        // Up: the picture, two grids, and the few pixels of specks. Down: coverage and result.
        let Transferred { up, down } = actual.transferred.expect("it was on the device");
        let certain = (frame.pixels().len() + 2 * size_of::<f32>() * mask.values().len()) as u64;
        assert!((certain..certain + 4 * 1000).contains(&up), "{what}: {up} up, of which {certain} are certain");
        assert_eq!(down, coverage_bytes(frame.size()) + result_bytes(&actual), "{what}");
    }
}

#[test]
fn a_box_and_a_region_of_a_picture_are_composed_on_the_device_that_has_its_part() {
    let Some(device) = device() else { return };
    let (whole, _) = subject();
    let Size { width, height } = whole.size();
    let window = Rect { left: width / 10, top: height / 8, width: width * 3 / 4, height: height * 3 / 4 };
    let part = window::cropped(&whole, window, &BufferPool::new(0));
    let mask = masks(std::slice::from_ref(&part)).remove(0);
    let region = Some(Rect { left: width / 4, top: height / 4, width: width / 2, height: height / 3 });
    let scene = || scene("studio-shot", &[("bg_blur", "30")]);
    for (window, part, region) in
        [(window, Some(&part), None), (window, Some(&part), region), (Rect::whole(whole.size()), None, region)]
    {
        let what = format!("{window} {region:?}");
        let (expected, actual) = on_both(&device, &what, |place| {
            let crop = part.map(place);
            let frame = if crop.is_some() { whole.clone() } else { place(&whole) };
            let mut task = task(frame, &mask, scene());
            task.composition.materials.plate = scene().plate(&whole);
            task.coverage =
                Coverage::Network { mask: mask.clone(), standard: None, seeds: Arc::default(), window, crop };
            Task { region, ..task }
        });
        assert_eq!(expected.subject, actual.subject, "{what}");
        // The part is uploaded; its coverage and the finished picture are downloaded, and no cutout.
        let matted = part.unwrap_or(&whole);
        let Transferred { up, down } = actual.transferred.expect("it was on the device");
        assert_eq!(down, coverage_bytes(matted.size()) + result_bytes(&actual), "{what}");
        assert!(up >= matted.pixels().len() as u64, "{what}");
    }
}

#[test]
fn despill_is_composed_on_the_device_unless_there_is_spill_to_remove() {
    let Some(device) = device() else { return };
    let (frame, mask) = subject();
    let green = before_green(&cut_out(frame.clone(), &mask, &Options::default()).expect("a subject").into_frame());
    for (what, frame, spills) in [("no spill", frame, false), ("a green screen", green, true)] {
        let options = Options { despill: 1.0, ..Options::default() };
        let (_, actual) =
            on_both(&device, what, |place| Task { options, ..task(place(&frame), &mask, scene("studio-shot", &[])) });
        // The coverage, and the finished picture or the cutout.
        let rest = if spills { frame.pixels().len() as u64 } else { result_bytes(&actual) };
        let down = actual.transferred.map(|transferred| transferred.down);
        assert_eq!(down, Some(coverage_bytes(frame.size()) + rest), "{what}");
    }
}

#[test]
fn a_picture_that_is_only_cut_out_is_downloaded_unchanged() {
    let Some(device) = device() else { return };
    let (frame, mask) = subject();
    let (_, actual) = on_both(&device, "the cutout", |place| task(place(&frame), &mask, Scene::default()));
    let down = actual.transferred.map(|transferred| transferred.down);
    assert_eq!(down, Some(frame.pixels().len() as u64));
}

#[test]
fn a_device_that_fails_while_it_composes_costs_no_picture() {
    let (frame, mask) = subject();
    let finished = |frame| finish(task(frame, &mask, scene("studio-shot", &[]))).expect("a picture");
    let expected = finished(frame.clone());
    frame.keep_on_device(on(&Device::flex(), &Frame::new(Size::new(3, 2), vec![9; 24].into())));
    let actual = finished(frame);
    let [expected, actual] = [&expected, &actual].map(|finished| finished.composite.frame().pixels());
    assert!(expected == actual, "not what the CPU makes of it");
}

#[test]
fn the_cpu_handles_an_outline_without_a_half_covered_pixel() {
    let Some(device) = device() else { return };
    let size = Size::new(40, 30);
    let faint = Frame::new(size, [200, 100, 50, 100].repeat(size.area()).into());
    let copy = faint.copied_to(&session(&device, LIMITS));
    let outline = Some(Outline { color: Color::WHITE, width: 3.0 });
    let (scene, take) = (Scene { outline, ..Scene::default() }, |len| vec![0; len].into());
    let (layout, materials) = (Layout::unchanged(size), Materials::default());
    let cutout = (copy.words(), &coverage(&faint));
    let composed = compose::gpu::flatten(copy.session(), cutout, &layout, &scene, &materials, take);
    assert!(composed.expect("the device works").is_none());
}

#[test]
fn the_cpu_handles_unsupported_layers_and_bare_cutouts() {
    let size = Size::new(400, 300);
    let does = |scene: Scene| compose::gpu::does(&scene, size);
    let colored = || scene("replace-bg", &[("bg_color", "red")]);
    assert!(does(Scene { framing: Framing::Portrait { aspect: None, head: Head::anywhere(size) }, ..colored() }));
    assert!(!does(Scene::default()), "nothing is composed");
    assert!(!does(scene("remove", &[("max_dim", "400")])), "nothing is composed");
    assert!(does(scene("remove", &[("max_dim", "399")])));
    assert!(!does(Scene { framing: Framing::Cropped { aspect: None, padding: 0 }, ..colored() }));
}
