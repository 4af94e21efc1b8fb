//! The pipeline with a fake network: results, refusals, deadlines.

use crate::engine::support::{begun, config, soon};
use crate::support::pictures::decoded;
use crate::support::segmenter;
use backdrop::codec::{DecodeError, Limits};
use backdrop::compose::{Resize, Scene};
use backdrop::engine::{Engine, EngineConfig, EngineError, Lane, SegmenterFactory, Tenant};
use backdrop::image::{EdgeKinds, Frame, Size};
use backdrop::matting::{Edge, Method};
use backdrop::pipeline::{self, Call, Output, PipelineError, Warning};
use backdrop::recipe::{Cut, CutEngine, Detect, ENDPOINTS, Fields, InferenceMode, Recipe};
use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const GRID: Size = Size::new(64, 64);

/// A network that segments what is bright, and the number of pictures that it has segmented.
pub(crate) fn bright_factory() -> (SegmenterFactory, Arc<AtomicUsize>) {
    let seen = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&seen);
    let factory = segmenter::factory_by_frame("bright-1", move |frame| {
        count.fetch_add(1, Ordering::SeqCst);
        let Size { width, height } = frame.size();
        segmenter::mask(GRID, |x, y| {
            let [red, ..] = frame.pixel(x * width / GRID.width, y * height / GRID.height);
            if red > 128 { 1.0 } else { 0.0 }
        })
    });
    (factory, seen)
}

fn bright(config: &EngineConfig) -> (Engine, Arc<AtomicUsize>) {
    let (factory, seen) = bright_factory();
    (Engine::start(config, factory), seen)
}

pub(crate) fn png(size: Size, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Bytes {
    let pixel = &pixel;
    let pixels: Vec<u8> = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| pixel(x, y))).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size.width, size.height);
    encoder.set_color(png::ColorType::Rgba);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&pixels).unwrap();
    writer.finish().unwrap();
    file.into()
}

/// A bright block, 80..160 × 60..120, on dark ground of 240×180.
fn block() -> Bytes {
    png(Size::new(240, 180), |x, y| {
        if (80..160).contains(&x) && (60..120).contains(&y) { [240, 200, 90, 255] } else { [20, 24, 30, 255] }
    })
}

fn recipe(resize: Resize) -> Recipe {
    Recipe { scene: Scene { resize, ..Scene::default() }, ..Recipe::default() }
}

pub(crate) fn call() -> Call {
    Call { lane: Lane::Interactive, tenant: Tenant::default(), deadline: soon(), limits: Limits::default() }
}

#[tokio::test]
async fn a_picture_passes_every_stage() {
    let (engine, _) = bright(&config(4, 4));
    let output = pipeline::run(&engine, block(), &recipe(Resize::default()), &call()).await.unwrap();
    assert_eq!(output.image.size, Size::new(240, 180));
    assert_eq!(output.model, "bright-1");
    assert!((0.0..=1.0).contains(&output.uncertainty.unwrap()));
    assert_eq!(output.warnings, []);
    let result = decoded(&output.image.bytes);
    assert_eq!(result.size(), output.image.size);
    assert_eq!(result.pixel(120, 90), [240, 200, 90, 255], "the subject is kept bit for bit");
    assert_eq!(result.pixel(5, 5), [0; 4], "the background is transparent");
    let subject = output.subject.unwrap();
    let (left, top) = (subject.left.abs_diff(80), subject.top.abs_diff(60));
    let (width, height) = (subject.width.abs_diff(80), subject.height.abs_diff(60));
    assert!(left.max(top) <= 8 && width.max(height) <= 16, "{subject}");
    for (stage, took) in output.timings.stages() {
        assert_eq!(took.is_zero(), ["fetch", "retouch"].contains(&stage.name()), "{}: {took:?}", stage.name());
    }

    // 240×180 in 120×120: half the size, 15 pixels lower.
    let resize = Resize { width: Some(120), height: Some(120), max_dim: None };
    let resized = pipeline::run(&engine, block(), &recipe(resize), &call()).await.unwrap();
    let subject = resized.subject.unwrap();
    assert_eq!(resized.image.size, Size::new(120, 120));
    assert!(subject.left.abs_diff(40) <= 4 && subject.top.abs_diff(45) <= 4, "{subject}");
}

#[tokio::test]
async fn an_uncertain_mask_has_a_warning_with_its_uncertainty() {
    let factory = segmenter::factory_by_frame("unsure-1", |_| {
        segmenter::mask(GRID, |x, y| if (20..44).contains(&x) && (20..44).contains(&y) { 0.7 } else { 0.3 })
    });
    let engine = Engine::start(&config(4, 4), factory);
    let output = pipeline::run(&engine, block(), &recipe(Resize::default()), &call()).await.unwrap();
    let uncertainty = output.uncertainty.unwrap();
    assert!(uncertainty > 0.5);
    assert_eq!(output.warnings, [Warning::UncertainMask(uncertainty)]);
}

#[tokio::test]
async fn a_picture_with_its_own_alpha_keeps_it_without_the_network() {
    let (engine, seen) = bright(&config(4, 4));
    engine.ready().await.unwrap();
    let before = seen.load(Ordering::SeqCst);
    let own = |x: u32, _: u32| [9, 99, 199, if x < 10 { 0 } else { x as u8 }];
    let file = png(Size::new(64, 32), own);
    let output = pipeline::run(&engine, file.clone(), &recipe(Resize::default()), &call()).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), before);
    assert!(output.uncertainty.unwrap().abs() < f32::EPSILON);
    assert_eq!(output.warnings, [Warning::OwnAlphaKept]);
    assert_eq!((output.subject.unwrap().left, output.subject.unwrap().width), (10, 54));
    let result = decoded(&output.image.bytes);
    for (x, pixel) in (0..64).zip(result.pixels().as_chunks::<4>().0) {
        assert_eq!(*pixel, if x < 10 { [0; 4] } else { own(x, 0) });
    }

    // A stray pixel is no alpha of its own.
    let stray =
        png(Size::new(64, 32), |x, y| [if x < 32 { 20 } else { 240 }, 99, 9, if (x, y) == (0, 0) { 254 } else { 255 }]);
    let output = pipeline::run(&engine, stray, &recipe(Resize::default()), &call()).await.unwrap();
    assert_eq!((seen.load(Ordering::SeqCst), output.warnings.as_slice()), (before + 1, &[][..]));
    assert_eq!(output.subject.unwrap().left.abs_diff(32), 0);

    // On white its transparent half is bright, whatever colour the file has there.
    let half = png(Size::new(64, 32), |x, _| if x < 32 { [9, 9, 9, 0] } else { [20, 24, 30, 255] });
    let mut anew = recipe(Resize::default());
    anew.cut_mut().unwrap().keep_alpha = false;
    let output = pipeline::run(&engine, half, &anew, &call()).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), before + 2);
    let result = decoded(&output.image.bytes);
    assert_eq!((result.pixel(0, 0), result.pixel(60, 0)), ([255; 4], [0; 4]));
}

#[tokio::test]
async fn the_crop_of_a_picture_with_a_translucent_pixel_is_that_of_an_opaque_one() {
    let (engine, _) = bright(&config(4, 4));
    let smart_crop = ENDPOINTS.iter().find(|known| known.name == "smart-crop").expect("an endpoint");
    // One pixel of the block is white, which it stays on white.
    let file = |ground: u8, stray: u8| {
        png(Size::new(240, 180), move |x, y| match (x, y) {
            (100, 90) => [255, 255, 255, stray],
            (80..160, 60..120) => [240, 200, 90, 255],
            _ => [20, 24, 30, ground],
        })
    };
    // Within the picture, and higher than it.
    for fields in [&[][..], &[("aspect", "1:2")]] {
        let mut sent = Fields::default();
        fields.iter().for_each(|(name, value)| sent.push(name, value).expect("a field"));
        let recipe = smart_crop.recipe(&sent).expect("valid fields");
        let run = async |file: Bytes| pipeline::run(&engine, file, &recipe, &call()).await.unwrap();
        let (opaque, stray, cutout) = (run(file(255, 255)).await, run(file(255, 254)).await, run(file(0, 255)).await);
        assert_eq!(stray.subject, opaque.subject, "{fields:?}");
        assert!(stray.image.bytes == opaque.image.bytes, "{fields:?}: the files differ");
        let corner = decoded(&cutout.image.bytes).pixel(0, 0);
        assert_eq!(corner, [0; 4], "{fields:?}: the crop of a cutout keeps its transparency");
    }
}

/// A network that segments the left half of the first picture of a batch and the right half of the second; reports the
/// sizes of its batches.
fn two_halves(report: mpsc::Sender<usize>) -> SegmenterFactory {
    segmenter::factory("two-halves", move |frames| {
        report.send(frames.len()).expect("the receiver is open");
        let mask = |(index, _): (usize, &&Frame)| {
            segmenter::mask(GRID, |x, _| if (x < GRID.width / 2) == (index == 0) { 0.999 } else { 0.001 })
        };
        Ok(frames.iter().enumerate().map(mask).collect())
    })
}

#[tokio::test]
async fn high_recall_segments_a_copy_in_the_same_batch_and_only_adds() {
    let (report, batches) = mpsc::channel();
    let engine = Engine::start(&config(4, 4), two_halves(report));
    engine.ready().await.unwrap();
    batches.try_iter().for_each(drop);
    let mut recipe = recipe(Resize::default());
    recipe.cut_mut().unwrap().matting.method = Method::None;
    let once = pipeline::run(&engine, block(), &recipe, &call()).await.unwrap();
    assert_eq!(batches.try_iter().collect::<Vec<_>>(), [1]);
    let half = once.subject.unwrap();
    assert!(half.left == 0 && half.width.abs_diff(120) <= 4, "{half}");

    recipe.cut_mut().unwrap().detect = Detect::HighRecall;
    let both = pipeline::run(&engine, block(), &recipe, &call()).await.unwrap();
    assert_eq!(batches.try_iter().collect::<Vec<_>>(), [2]);
    assert_eq!((both.subject.unwrap().left, both.subject.unwrap().width), (0, 240));
    assert_eq!(both.image.size, Size::new(240, 180), "the result is the picture and not its copy");
}

/// What `change` of the default recipe makes of the block, whose outline the network classifies as `outline`.
async fn with_outline(outline: Option<EdgeKinds>, change: impl FnOnce(&mut Cut)) -> Output {
    let factory = segmenter::factory_by_frame("classifies-1", move |_| {
        let far = |at: u32, first: u32, last: u32| first.saturating_sub(at).max(at.saturating_sub(last));
        segmenter::mask(GRID, |x, y| 1.0 - 0.25 * far(x, 22, 41).max(far(y, 22, 41)).min(4) as f32).with_edge(outline)
    });
    let engine = Engine::start(&config(4, 4), factory);
    let mut recipe = recipe(Resize::default());
    change(recipe.cut_mut().expect("it cuts"));
    pipeline::run(&engine, block(), &recipe, &call()).await.unwrap()
}

#[tokio::test]
async fn edge_auto_is_that_of_products_where_the_outline_is_opaque_and_soft_elsewhere() {
    let outline = |at: usize| {
        let mut logits = [0.0; EdgeKinds::COUNT];
        logits[at] = 9.0;
        Some(EdgeKinds::of_logits(logits))
    };
    let auto = |cut: &mut Cut| cut.edge_by_kind = true;
    let opaque = with_outline(outline(0), |cut| cut.matting.opaque = true).await;
    let soft = with_outline(outline(0), |_| ()).await;
    assert_ne!(opaque.image.bytes, soft.image.bytes, "the edges are the same, and this test shows nothing");
    assert_eq!([opaque.edge, soft.edge], [None; 2], "the recipe says which");

    let chosen = with_outline(outline(0), auto).await;
    assert_eq!((chosen.edge, chosen.image.bytes == opaque.image.bytes), (Some(Edge::Hard), true));
    for unsure in [outline(1), outline(2), outline(3), Some(EdgeKinds::of_logits([0.0; EdgeKinds::COUNT])), None] {
        let chosen = with_outline(unsure, auto).await;
        let expected = (unsure.map(|_| Edge::Soft), true);
        assert_eq!((chosen.edge, chosen.image.bytes == soft.image.bytes), expected, "{unsure:?}");
    }
}

#[tokio::test]
async fn product_v1_also_segments_tiles_along_the_edge() {
    let (engine, seen) = bright(&config(4, 4));
    engine.ready().await.unwrap();
    let mut recipe = recipe(Resize::default());
    let tested = seen.load(Ordering::SeqCst);
    recipe.cut_mut().unwrap().engine = Some(CutEngine::ProductV1);
    recipe.cut_mut().unwrap().matting.opaque = true;
    let output = pipeline::run(&engine, block(), &recipe, &call()).await.unwrap();
    let crops = seen.load(Ordering::SeqCst) - tested;
    // The picture, its subject and at least a tile.
    assert!((3..=18).contains(&crops), "{crops}");
    let result = decoded(&output.image.bytes);
    assert_eq!((result.pixel(120, 90), result.pixel(5, 5)), ([240, 200, 90, 255], [0; 4]));
}

/// A network that segments what is bright: exactly in crops; in the whole picture 7 pixels too wide, with a spot in its
/// corner.
fn imprecise() -> SegmenterFactory {
    segmenter::factory_by_frame("imprecise", |frame| {
        let size = frame.size();
        let is_whole = size == Size::new(240, 180);
        let reach = if is_whole { 7 } else { 0 };
        let bright = |x: u32, y: u32| {
            let near = |at: u32, side: u32| [at.saturating_sub(reach), at, (at + reach).min(side - 1)];
            let near = near(x, size.width).map(|x| near(y, size.height).map(|y| frame.pixel(x, y)[0] > 128));
            near.as_flattened().contains(&true)
        };
        segmenter::mask(GRID, |x, y| {
            if bright(x * size.width / GRID.width, y * size.height / GRID.height) {
                1.0
            } else if is_whole && x < 2 && y < 2 {
                0.6
            } else {
                0.0
            }
        })
    })
}

/// Coverage 4 pixels to the right of the block and 4 below it, cut out with [`imprecise`] masks and no matting; and the
/// name of the model.
async fn coverage_beside_the_block(engine: Option<CutEngine>, model: InferenceMode) -> ([u8; 2], String) {
    let imprecise = Engine::start(&config(4, 4), imprecise());
    let mut recipe = recipe(Resize::default());
    let cut = recipe.cut_mut().unwrap();
    cut.matting.method = Method::None;
    cut.engine = engine;
    cut.network = model.into();
    let output = pipeline::run(&imprecise, block(), &recipe, &call()).await.unwrap();
    let result = decoded(&output.image.bytes);
    let coverage = |x, y| result.pixel(x, y)[3];
    assert_eq!((coverage(120, 90), coverage(220, 20)), (255, 0), "{engine:?}, {model:?}");
    ([coverage(164, 90), coverage(120, 124)], output.model)
}

#[tokio::test]
async fn the_mask_of_a_crop_corrects_the_edge() {
    let (first, name) = coverage_beside_the_block(None, InferenceMode::Fast).await;
    assert!(first.iter().all(|&coverage| coverage > 250), "{first:?}");
    assert_eq!(name, "imprecise-fast");
    let cases = [
        (Some(CutEngine::ProductV1), InferenceMode::Standard, "imprecise"),
        (None, InferenceMode::Standard, "imprecise"),
        (None, InferenceMode::Quality, "imprecise-quality"),
    ];
    for (engine, model, expected) in cases {
        let (refined, name) = coverage_beside_the_block(engine, model).await;
        assert!(refined.iter().all(|&coverage| coverage < 150), "{expected}: {refined:?}");
        assert_eq!(name, expected);
    }
}

#[tokio::test]
async fn the_crop_of_a_small_subject_is_segmented_too_unless_the_mode_is_fast() {
    let (engine, seen) = bright(&config(4, 4));
    engine.ready().await.unwrap();
    for (mode, times) in [(InferenceMode::Fast, 1), (InferenceMode::Standard, 2), (InferenceMode::Quality, 2)] {
        let mut recipe = recipe(Resize::default());
        recipe.cut_out_by(mode);
        let tested = seen.load(Ordering::SeqCst);
        pipeline::run(&engine, block(), &recipe, &call()).await.unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), tested + times, "{mode:?}");
    }
}

#[tokio::test]
async fn a_picture_without_a_subject_is_an_error() {
    let (engine, _) = bright(&config(4, 4));
    let dark = png(Size::new(100, 100), |_, _| [10, 10, 10, 255]);
    let clear = png(Size::new(100, 100), |_, _| [200, 10, 10, 0]);
    for file in [dark, clear] {
        let refused = pipeline::run(&engine, file, &recipe(Resize::default()), &call()).await;
        assert!(matches!(refused, Err(PipelineError::NoSubject(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn invalid_and_too_large_pictures_are_refused_before_the_network() {
    let (engine, seen) = bright(&config(4, 4));
    engine.ready().await.unwrap();
    let before = seen.load(Ordering::SeqCst);
    let text = pipeline::run(&engine, Bytes::from_static(b"hello"), &recipe(Resize::default()), &call()).await;
    assert!(matches!(text, Err(PipelineError::Decode(DecodeError::Unsupported { .. }))), "{text:?}");
    let wide = Resize { width: Some(8192), ..Resize::default() };
    let tall = png(Size::new(10, 11), |_, _| [255; 4]);
    let too_large = pipeline::run(&engine, tall, &recipe(wide), &call()).await;
    assert!(matches!(too_large, Err(PipelineError::OutputTooLarge(_))), "{too_large:?}");
    assert_eq!(seen.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn the_deadline_applies_to_every_stage() {
    for (stalled_after, stalled) in [(Duration::ZERO, true), (Duration::from_secs(60), false)] {
        // The only worker is busy: the request cannot even be probed.
        let (engine, _) = bright(&EngineConfig { cpu_workers: 1, stalled_after, ..config(4, 4) });
        let (open, gate) = mpsc::channel::<()>();
        let cpu = engine.clone();
        let both = async move {
            let blocker = cpu.cpu(Tenant::default(), move || gate.recv().unwrap());
            tokio::join!(blocker, cpu.cpu(Tenant::default(), || ()))
        };
        let both = begun(both).await;
        let deadline = || Instant::now() + Duration::from_millis(20);
        let call = Call { deadline: deadline(), ..call() };
        let late = pipeline::run(&engine, block(), &recipe(Resize::default()), &call).await;
        assert!(matches!(late, Err(PipelineError::Engine(EngineError::DeadlineExceeded))), "{late:?}");
        assert_eq!(engine.is_stalled(), stalled, "work waits for the worker");
        open.send(()).unwrap();
        assert_eq!(both.await, (Ok(()), Ok(())));
        assert!(!engine.is_stalled());
        // A picture in work has the whole budget.
        let _slot = engine.admit(Tenant::default(), usize::MAX, soon()).await.unwrap();
        let late = engine.admit(Tenant::default(), usize::MAX, deadline()).await;
        assert_eq!(late.unwrap_err(), EngineError::DeadlineExceeded);
    }
}
