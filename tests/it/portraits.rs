//! Portraits, face restoration and enlargement through the pipeline, with fake networks.

use crate::engine::pipeline::{bright_factory, call, png};
use crate::engine::support::config;
use crate::support::pictures;
use backdrop::compose::OutputTooLarge;
use backdrop::engine::{Engine, EngineError};
use backdrop::image::{Face, Frame, OutputFormat, Rect, Size};
use backdrop::model::{Band, Enlargement, FaceCrop, FaceSearch, Factor, Retoucher, SegmentError};
use backdrop::pipeline::{self, FaceFound, Output, PipelineError, Warning};
use backdrop::recipe::{ENDPOINTS, Fields, Recipe};
use bytes::Bytes;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Detects the given faces, restores by adding a tenth, and enlarges by repeating pixels.
#[derive(Debug, Default)]
struct FakeRetoucher {
    faces: Vec<Face>,
    /// Whether the device fails.
    fails: bool,
    restored: AtomicUsize,
    /// Bands that were begun.
    enlarged: AtomicUsize,
    /// Sends when the first band may end.
    gate: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Retoucher for FakeRetoucher {
    fn faces(&self, _: &Frame, _: FaceSearch) -> Result<Vec<Face>, SegmentError> {
        self.checked().map(|()| self.faces.clone())
    }

    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        self.checked()?;
        self.restored.fetch_add(1, Ordering::SeqCst);
        Ok(FaceCrop(vec![[0.1; 3]; face.0.len()]))
    }

    fn enlarge_band(&self, picture: &mut Enlargement) -> Result<(), SegmentError> {
        self.checked()?;
        self.enlarged.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = self.gate.lock().expect("no panic").take() {
            gate.recv().expect("the band may end");
        }
        let rows = picture.frame().size().height.div_ceil(4);
        picture.compute(rows, |Band { frame, factor, rows, pixels }| {
            let by = factor.get();
            let pixel = |x: u32, y: u32| frame.pixel(x / by, y / by);
            let (rows, columns) = (rows.start * by..rows.end * by, 0..frame.size().width * by);
            let found = rows.flat_map(|y| columns.clone().map(move |x| pixel(x, y)));
            pixels.as_chunks_mut::<4>().0.iter_mut().zip(found).for_each(|(to, pixel)| *to = pixel);
            Ok(())
        })
    }

    fn restores_with(&self) -> String {
        "restore-fake/3".to_owned()
    }

    fn enlarges_with(&self, by: Factor) -> String {
        format!("upscale-fake-{}/3", by.get())
    }
}

impl FakeRetoucher {
    fn checked(&self) -> Result<(), SegmentError> {
        if self.fails { Err(SegmentError::Device("lost".to_owned())) } else { Ok(()) }
    }
}

/// An engine with fake networks, and the number of pictures that were segmented.
struct FakeEngine {
    engine: Engine,
    retoucher: Arc<FakeRetoucher>,
    seen: Arc<AtomicUsize>,
}

impl FakeEngine {
    async fn with(faces: &[Face]) -> Self {
        Self::of(FakeRetoucher { faces: faces.to_vec(), ..FakeRetoucher::default() }).await
    }

    /// With the face of [`person`].
    async fn with_person() -> Self {
        Self::with(&[face_of_person()]).await
    }

    async fn of(retoucher: FakeRetoucher) -> Self {
        let retoucher = Arc::new(retoucher);
        let (factory, seen) = bright_factory();
        let engine = Engine::start_with(&config(4, 4), factory, retoucher.clone());
        engine.ready().await.expect("the network loads");
        seen.store(0, Ordering::SeqCst);
        Self { engine, retoucher, seen }
    }

    async fn run(&self, endpoint: &str, file: &Bytes, fields: &[(&str, &str)]) -> Result<Output, PipelineError> {
        pipeline::run(&self.engine, file.clone(), &recipe(endpoint, fields), &call()).await
    }

    async fn done(&self, endpoint: &str, file: &Bytes, fields: &[(&str, &str)]) -> Output {
        self.run(endpoint, file, fields).await.unwrap_or_else(|error| panic!("{endpoint} {fields:?}: {error}"))
    }
}

fn recipe(endpoint: &str, pairs: &[(&str, &str)]) -> Recipe {
    let endpoint = ENDPOINTS.iter().find(|known| known.name == endpoint).expect("an endpoint");
    let mut fields = Fields::default();
    pairs.iter().for_each(|(name, value)| fields.push(name, value).expect("each once"));
    endpoint.recipe(&fields).expect("valid")
}

/// An upright face of this width around `x`, `y`, 1.2 times as high.
fn face(x: f32, y: f32, width: f32) -> Face {
    let (left, top, height) = (x - width / 2.0, y - 0.6 * width, 1.2 * width);
    let at = |across: f32, down: f32| [left + across * width, top + down * height];
    Face {
        left,
        top,
        right: left + width,
        bottom: top + height,
        landmarks: [at(0.3, 0.4), at(0.7, 0.4), at(0.5, 0.58), at(0.34, 0.78), at(0.66, 0.78)],
        score: 0.9,
    }
}

/// `face`, rotated by 180°.
fn upside_down(face: Face) -> Face {
    let (x, y) = (face.left + face.right, face.top + face.bottom);
    Face { landmarks: face.landmarks.map(|[across, down]| [x - across, y - down]), ..face }
}

const GROUND: [u8; 4] = [20, 24, 30, 255];
const SKIN: [u8; 4] = [210, 170, 150, 255];
const SIZE: Size = Size::new(400, 500);

/// The face of [`person`].
fn face_of_person() -> Face {
    face(200.0, 180.0, 80.0)
}

/// Head with hair, 140..260 × 100..260; shoulders below, to the lower border and 60..340 across.
fn person() -> Bytes {
    person_on(GROUND)
}

fn person_on(ground: [u8; 4]) -> Bytes {
    png(SIZE, |x, y| {
        let head = (140..260).contains(&x) && (100..260).contains(&y);
        let shoulders = (60..340).contains(&x) && y >= 260;
        if head || shoulders { SKIN } else { ground }
    })
}

fn decoded(output: &Output) -> Frame {
    let frame = pictures::decoded(&output.image.bytes);
    assert_eq!(frame.size(), output.image.size);
    frame
}

fn at(output: &Output) -> Rect {
    match output.face {
        Some(FaceFound::At(at)) => at,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_headshot_shows_head_and_shoulders_with_the_eyes_on_the_third() {
    let fake = FakeEngine::with_person().await;
    for (fields, aspect) in [(&[][..], 1.0), (&[("aspect", "4:5")], 0.8), (&[("width", "300"), ("height", "200")], 1.5)]
    {
        let fields: Vec<_> = fields.iter().copied().chain([("format", "png"), ("restore_face", "0")]).collect();
        let output = fake.done("headshot", &person(), &fields).await;
        let size = output.image.size;
        assert!((f64::from(size.width) / f64::from(size.height) - aspect).abs() < 0.02, "{size}");
        let face = at(&output);
        // The face is as high as 1.2 of its width; its eyes are at 0.4 of that.
        let eyes = f64::from(face.top) + 0.4 * f64::from(face.height);
        assert!((eyes / f64::from(size.height) - 1.0 / 3.0).abs() < 0.02, "{face} in {size}");
        let middle = f64::from(face.left) + f64::from(face.width) / 2.0;
        assert!((middle / f64::from(size.width) - 0.5).abs() < 0.02, "{face} in {size}");
        let frame = decoded(&output);
        assert_eq!(frame.pixel(1, 1), [0xF4, 0xF4, 0xF5, 255], "room above the hair");
        let shown = frame.pixel(face.left + face.width / 2, face.top + face.height / 2);
        assert_eq!(shown, SKIN, "the subject's colour");
        assert_eq!(frame.pixel(size.width / 2, size.height - 1), SKIN, "the body reaches the lower edge");
    }
    assert_eq!(fake.retoucher.restored.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_face_of_a_headshot_is_restored_before_the_cutout() {
    let fake = FakeEngine::with_person().await;
    let plain = fake.done("headshot", &person(), &[("format", "png"), ("restore_face", "false")]).await;
    let output = fake.done("headshot", &person(), &[("format", "png")]).await;
    assert_eq!(fake.retoucher.restored.load(Ordering::SeqCst), 1);
    assert_eq!((output.image.size, at(&output)), (plain.image.size, at(&plain)));
    let (face, before, after) = (at(&output), decoded(&plain), decoded(&output));
    let middle = (face.left + face.width / 2, face.top + face.height / 2);
    // A tenth times the usual strength: 20 levels.
    assert_eq!(after.pixel(middle.0, middle.1), [SKIN[0] + 20, SKIN[1] + 20, SKIN[2] + 20, 255]);
    assert_eq!(before.pixel(2, 2), after.pixel(2, 2));
    // Also in the copy of a box, from which the cutout is made.
    let boxed = fake.done("headshot", &person(), &[("format", "png"), ("box", "110,80,290,300")]).await;
    let face = at(&boxed);
    let middle = decoded(&boxed).pixel(face.left + face.width / 2, face.top + face.height / 2);
    assert_eq!(middle, [SKIN[0] + 20, SKIN[1] + 20, SKIN[2] + 20, 255]);
    assert!(output.timings.retouch > plain.timings.retouch / 1000, "the time of retouching is reported");
}

#[tokio::test]
async fn without_a_face_a_headshot_is_the_studio_shot_byte_for_byte() {
    let studio_shot = |fields: &[(&'static str, &'static str)]| {
        let fields: Vec<_> = fields.iter().copied().chain([("bg_color", "#F4F4F5")]).collect();
        async move { FakeEngine::with(&[]).await.done("studio-shot", &person(), &fields).await }
    };
    let mut broken = face_of_person();
    broken.landmarks[0][0] = f32::NAN;
    let poster = face(40.0, 60.0, 60.0);
    for faces in [&[][..], &[face(200.0, 180.0, 12.0)], &[poster], &[broken]] {
        for fields in [&[][..], &[("aspect", "4:5"), ("format", "webp")], &[("width", "120"), ("height", "90")]] {
            let output = FakeEngine::with(faces).await.done("headshot", &person(), fields).await;
            let studio = studio_shot(fields).await;
            assert_eq!(output.image.bytes, studio.image.bytes, "{faces:?} {fields:?}");
            assert_eq!((output.face, studio.face), (Some(FaceFound::None), None));
            assert_eq!((&output.warnings[..], &studio.warnings[..]), (&[Warning::NoFace][..], &[][..]));
            assert_eq!(output.subject, studio.subject);
        }
    }
}

#[tokio::test]
async fn the_larger_face_is_the_portraits_and_one_outside_the_subject_is_ignored() {
    let two = png(Size::new(600, 400), |x, y| {
        let heads = y >= 120 && (100..200).contains(&x) || y >= 60 && (350..530).contains(&x);
        if heads { SKIN } else { GROUND }
    });
    let (small, large) = (face(150.0, 180.0, 50.0), face(440.0, 160.0, 90.0));
    let poster = face(40.0, 60.0, 110.0);
    let fake = FakeEngine::with(&[poster, small, large]).await;
    let output = fake.done("headshot", &two, &[("format", "png")]).await;
    let alone = FakeEngine::with(&[large]).await.done("headshot", &two, &[("format", "png")]).await;
    assert_eq!(output.image.bytes, alone.image.bytes);
    assert!(at(&output).width.abs_diff(90) <= 2 && output.warnings.is_empty());
    assert_eq!(fake.retoucher.restored.load(Ordering::SeqCst), 1, "only the portrait's face");
}

#[tokio::test]
async fn faces_at_the_border_upside_down_and_huge_give_a_portrait() {
    let bright = png(Size::new(300, 240), |x, _| if x < 290 { SKIN } else { GROUND });
    let (x, y) = (150.0, 120.0);
    for one in [
        face(0.0, 0.0, 80.0),
        face(289.0, 239.0, 80.0),
        face(5.0, 230.0, 120.0),
        upside_down(face(x, y, 80.0)),
        face(x, y, 299.0),
        face(x, y, 5000.0),
        face(x, y, 16.0),
    ] {
        let output = FakeEngine::with(&[one]).await.done("headshot", &bright, &[("aspect", "3:4")]).await;
        let Size { width, height } = output.image.size;
        assert!((i64::from(width) * 4 - i64::from(height) * 3).abs() <= 4, "{one:?}: {width}×{height}");
        let face = at(&output);
        assert!(face.left + face.width <= width && face.top + face.height <= height, "{one:?}: {face}");
    }
}

#[tokio::test]
async fn a_face_without_a_subject_is_no_portrait() {
    let dark = png(Size::new(200, 200), |_, _| GROUND);
    let refused = FakeEngine::with(&[face(100.0, 100.0, 80.0)]).await.run("headshot", &dark, &[]).await;
    assert!(matches!(refused, Err(PipelineError::NoSubject(_))), "{refused:?}");
}

#[tokio::test]
async fn a_portrait_of_a_cutout_keeps_its_alpha() {
    let fake = FakeEngine::with_person().await;
    let output =
        fake.done("headshot", &person_on([9, 9, 9, 0]), &[("format", "png"), ("bg_color", "transparent")]).await;
    assert_eq!(fake.seen.load(Ordering::SeqCst), 0);
    assert_eq!(decoded(&output).pixel(0, 0), [0; 4]);
    assert!(at(&output).width.abs_diff(80) <= 1);
}

/// Noise of medium brightness, so that every change of a pixel is visible.
fn noise(size: Size, alpha: impl Fn(u32, u32) -> u8) -> Bytes {
    png(size, |x, y| {
        let hash = (x.wrapping_mul(0x9E37_79B9) ^ y.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0xC2B2_AE35);
        let [red, green, blue, _] = (hash ^ (hash >> 15)).to_le_bytes().map(|value| value / 2 + 30);
        [red, green, blue, alpha(x, y)]
    })
}

fn changed(before: &Frame, after: &Frame) -> Vec<(u32, u32)> {
    assert_eq!(before.size(), after.size());
    let Size { width, height } = before.size();
    let all = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    all.filter(|&(x, y)| before.pixel(x, y) != after.pixel(x, y)).collect()
}

#[tokio::test]
async fn all_faces_are_restored_and_nothing_but_faces_changes() {
    let (one, other, tiny) = (face(90.0, 100.0, 60.0), face(260.0, 120.0, 90.0), face(350.0, 30.0, 12.0));
    let fake = FakeEngine::with(&[other, one, tiny]).await;
    let file = noise(Size::new(400, 240), |_, _| 255);
    let before = decoded(&fake.done("face-restore", &file, &[("strength", "0")]).await);
    let output = fake.done("face-restore", &file, &[]).await;
    assert_eq!(fake.retoucher.restored.load(Ordering::SeqCst), 2, "at strength 0 nothing is restored");
    assert_eq!(fake.seen.load(Ordering::SeqCst), 0, "nothing is cut out");
    assert_eq!((output.subject, output.uncertainty, output.model.as_str()), (None, None, "restore-fake/3"));
    assert_eq!(at(&output), Rect { left: 215, top: 66, width: 90, height: 108 });
    let touched = changed(&before, &decoded(&output));
    let within = |face: &Face, (x, y): (u32, u32)| {
        let (width, height) = (face.right - face.left, face.bottom - face.top);
        let (x, y) = (x as f32, y as f32);
        x > face.left - 0.5 * width
            && x < face.right + 0.5 * width
            && y > face.top - 0.5 * height
            && y < face.bottom + 0.5 * height
    };
    assert!(touched.iter().all(|&spot| within(&one, spot) || within(&other, spot)));
    for face in [one, other] {
        assert!(touched.iter().filter(|&&spot| within(&face, spot)).count() > 2000, "{face:?}");
    }
    // Strength 0 is the source itself.
    assert!(changed(&pictures::decoded(&file), &before).is_empty());
}

#[tokio::test]
async fn overlapping_faces_are_restored_each_once() {
    let twice = FakeEngine::with(&[face(100.0, 100.0, 80.0), face(110.0, 100.0, 80.0)]).await;
    let grey = png(Size::new(220, 200), |_, _| [100, 100, 100, 255]);
    let both = decoded(&twice.done("face-restore", &grey, &[("strength", "1")]).await);
    assert_eq!(both.pixel(105, 100)[0], 152, "two tenths, 26 levels each");
    assert_eq!(twice.retoucher.restored.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_picture_without_a_face_cannot_be_restored() {
    let file = noise(Size::new(64, 64), |_, _| 255);
    for faces in [&[][..], &[face(30.0, 30.0, 13.0)], &[face(500.0, 30.0, 40.0)]] {
        let fake = FakeEngine::with(faces).await;
        let refused = fake.run("face-restore", &file, &[("scale", "4")]).await;
        assert!(matches!(refused, Err(PipelineError::NoFace)), "{refused:?}");
        assert_eq!(fake.retoucher.enlarged.load(Ordering::SeqCst), 0, "refused before it is enlarged");
    }
}

#[tokio::test]
async fn scales_give_their_sizes_and_faces_are_restored_after_enlarging() {
    let fake = FakeEngine::with(&[face(32.0, 30.0, 30.0)]).await;
    let file = noise(Size::new(64, 60), |_, _| 255);
    for (endpoint, fields, size, model) in [
        ("upscale", &[][..], (128, 120), "upscale-fake-2/3"),
        ("upscale", &[("scale", "4")], (256, 240), "upscale-fake-4/3"),
        ("upscale", &[("scale", "4"), ("width", "100")], (100, 94), "upscale-fake-4/3"),
        ("upscale", &[("max_dim", "50")], (50, 47), "upscale-fake-2/3"),
        ("face-restore", &[], (64, 60), "restore-fake/3"),
        ("face-restore", &[("scale", "2")], (128, 120), "restore-fake/3"),
        ("face-restore", &[("scale", "4")], (256, 240), "restore-fake/3"),
    ] {
        let output = fake.done(endpoint, &file, fields).await;
        assert_eq!((output.image.size.width, output.image.size.height), size, "{endpoint} {fields:?}");
        assert_eq!((output.model.as_str(), output.image.format), (model, OutputFormat::Png));
        let expected = (endpoint == "face-restore").then(|| (30 * size.0 / 64, 36 * size.1 / 60));
        let found = output.face.map(|_| (at(&output).width, at(&output).height));
        assert_eq!(found, expected, "{endpoint} {fields:?}");
    }
    let enlarged = decoded(&fake.done("upscale", &file, &[]).await);
    let restored = decoded(&fake.done("face-restore", &file, &[("scale", "2"), ("strength", "1")]).await);
    let touched = changed(&enlarged, &restored);
    assert!(touched.len() > 1000 && touched.contains(&(64, 60)) && !touched.contains(&(2, 2)));
    assert_eq!(fake.seen.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_picture_is_enlarged_band_by_band_until_its_request_is_dropped() {
    let fake = FakeEngine::with(&[]).await;
    let file = noise(Size::new(64, 60), |_, _| 255);
    let bands = || fake.retoucher.enlarged.load(Ordering::SeqCst);
    fake.done("upscale", &file, &[]).await;
    assert_eq!(bands(), 4);
    let (open, gate) = mpsc::channel();
    *fake.retoucher.gate.lock().expect("no panic") = Some(gate);
    {
        let mut dropped = pin!(fake.run("upscale", &file, &[]));
        while bands() == 4 {
            tokio::select! {
                _ = &mut dropped => panic!("its first band may not end"),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    }
    open.send(()).expect("the band waits");
    fake.done("upscale", &file, &[]).await;
    assert_eq!(bands(), 4 + 1 + 4, "the dropped request's bands go on");
}

#[tokio::test]
async fn a_result_that_would_be_too_large_is_refused_by_its_header() {
    let fake = FakeEngine::with(&[face(32.0, 30.0, 30.0)]).await;
    // The header is valid, the pixels are not: decoding would be another error.
    let whole = png(Size::new(2049, 3), |x, y| [(x * x * (y + 7) % 251) as u8, (x * 31 % 253) as u8, 9, 255]);
    let mut header = whole.to_vec();
    let middle = header.len() / 2;
    header[middle..middle + 16].fill(0xFF);
    let header = Bytes::from(header);
    for (endpoint, scale) in [("upscale", "4"), ("face-restore", "4")] {
        let refused = fake.run(endpoint, &header, &[("scale", scale)]).await;
        let expected = Size::new(8196, 12);
        assert!(
            matches!(refused, Err(PipelineError::OutputTooLarge(OutputTooLarge { size, limit: 8192 })) if size == expected),
            "{refused:?}"
        );
    }
    let damaged = fake.run("upscale", &header, &[("scale", "2")]).await;
    assert!(matches!(damaged, Err(PipelineError::Decode(_))), "{damaged:?}");
    let most = png(Size::new(2048, 3), |_, _| [9, 9, 9, 255]);
    assert_eq!(fake.done("upscale", &most, &[("scale", "4")]).await.image.size, Size::new(8192, 12));
}

#[tokio::test]
async fn transparency_is_kept_and_a_jpeg_of_it_refused() {
    let fake = FakeEngine::with(&[face(60.0, 60.0, 60.0)]).await;
    let clear = noise(Size::new(120, 120), |x, _| if x < 40 { 0 } else { 130 });
    for endpoint in ["upscale", "face-restore"] {
        let kept = decoded(&fake.done(endpoint, &clear, &[("scale", "2")]).await);
        assert_eq!((kept.pixel(10, 10), kept.pixel(100, 30)[3]), ([0; 4], 130), "{endpoint}");
        let refused = fake.run(endpoint, &clear, &[("format", "jpg")]).await;
        assert!(matches!(refused, Err(PipelineError::NoAlpha)), "{refused:?}");
        let opaque = noise(Size::new(120, 120), |_, _| 255);
        let jpeg = fake.done(endpoint, &opaque, &[("format", "jpg"), ("quality", "80")]).await;
        assert_eq!(jpeg.image.format, OutputFormat::Jpeg);
    }
}

#[tokio::test]
async fn what_an_exact_size_leaves_free_is_transparent_and_white_in_a_jpeg() {
    let fake = FakeEngine::with(&[face(60.0, 60.0, 60.0)]).await;
    let square = noise(Size::new(120, 120), |_, _| 255);
    for endpoint in ["upscale", "face-restore"] {
        let sized = |format| [("width", "300"), ("height", "100"), ("format", format)];
        let [png, jpeg] = [
            decoded(&fake.done(endpoint, &square, &sized("png")).await),
            decoded(&fake.done(endpoint, &square, &sized("jpg")).await),
        ];
        assert_eq!((png.size(), jpeg.size()), (Size::new(300, 100), Size::new(300, 100)), "{endpoint}");
        assert_eq!((png.pixel(20, 50), jpeg.pixel(20, 50)), ([0; 4], [255; 4]), "{endpoint}");
    }
}

#[tokio::test]
async fn a_sandbox_stamp_is_on_retouched_pictures_and_portraits_too() {
    let fake = FakeEngine::with_person().await;
    for endpoint in ["upscale", "face-restore", "headshot"] {
        let plain = recipe(endpoint, &[("format", "png")]);
        let mut stamped = plain.clone();
        stamped.scene.stamp = Some("TEST");
        let run = |recipe: Recipe| {
            let engine = fake.engine.clone();
            async move { decoded(&pipeline::run(&engine, person(), &recipe, &call()).await.expect(endpoint)) }
        };
        let (plain, stamped) = (run(plain).await, run(stamped).await);
        let touched = changed(&plain, &stamped);
        let Size { width, height } = plain.size();
        assert!(!touched.is_empty() && touched.iter().all(|&(x, y)| x < width / 2 && y > height / 2), "{endpoint}");
    }
}

#[tokio::test]
async fn a_failing_device_is_an_engine_error() {
    let fake = FakeEngine::of(FakeRetoucher { fails: true, ..FakeRetoucher::default() }).await;
    for endpoint in ["headshot", "face-restore", "upscale"] {
        let failed = fake.run(endpoint, &person(), &[]).await;
        assert!(matches!(failed, Err(PipelineError::Engine(EngineError::Device(_)))), "{endpoint}: {failed:?}");
    }
}
