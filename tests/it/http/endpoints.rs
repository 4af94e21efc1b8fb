//! Every endpoint of the binary with the real network, on pictures whose result is known exactly.
//!
//! The pictures are cutouts already (a disc on transparency), so that the result follows from the parameters alone.

#![cfg(unix)]

use crate::cli::serve::Running;
use crate::http::daemon::texts;
use crate::source::origin::{Answer, Origin};
use crate::support::command::{backdrop, stderr};
use crate::support::pictures::{decoded, png};
use backdrop::image::{Frame, Size};
use bytes::Bytes;
use reqwest::Response;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::fs;

const SIZE: Size = Size::new(200, 120);
/// The disc's bounds are 60×60 at 50,30.
const RADIUS: f32 = 30.0;
const BLUE: [u8; 4] = [30, 60, 220, 255];

/// A daemon in a temporary folder.
struct TestDaemon {
    running: Running,
    _folder: tempfile::TempDir,
}

impl TestDaemon {
    fn start(more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = [&[("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000")], more].concat();
        Self { running: Running::start(folder.path(), &settings), _folder: folder }
    }

    async fn post(&self, path: &str, form: Form) -> Response {
        self.running.post(path).multipart(form).send().await.expect("an answer")
    }

    async fn json(&self, path: &str, body: &Value) -> Response {
        self.running.post(path).json(body).send().await.expect("an answer")
    }

    /// The result for the disc.
    async fn disc(&self, path: &str, fields: &[(&str, &str)]) -> Finished {
        Finished::of(self.post(path, form(disc(), fields)).await).await
    }
}

/// A picture as a caller gets it.
struct Finished {
    frame: Frame,
    media_type: String,
    foreground: Vec<u32>,
}

impl Finished {
    async fn of(response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await.expect("a body");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
        let header = |name: &str| headers[name].to_str().expect("text").to_owned();
        let frame = decoded(&bytes);
        let announced =
            [header("x-service-width"), header("x-service-height")].map(|side| side.parse::<u32>().unwrap());
        assert_eq!(announced, [frame.size().width, frame.size().height]);
        let foreground = header("x-service-foreground").split(',').map(|side| side.parse().unwrap()).collect();
        Self { frame, media_type: header("content-type"), foreground }
    }

    fn size(&self) -> (u32, u32) {
        (self.frame.size().width, self.frame.size().height)
    }

    /// Checks the pixel at `x`, `y` within `off` in each channel.
    #[track_caller]
    fn shows(&self, x: u32, y: u32, expected: [u8; 4], off: u8) {
        let pixel = self.frame.pixel(x, y);
        let largest = pixel.iter().zip(expected).map(|(a, b)| a.abs_diff(b)).max().unwrap();
        assert!(largest <= off, "{pixel:?} at {x},{y} instead of {expected:?}");
    }
}

/// A blue disc around 80,60 with a soft edge, on transparency.
fn disc() -> Bytes {
    png(SIZE, |x, y| {
        let distance = (x as f32 + 0.5 - 80.0).hypot(y as f32 + 0.5 - 60.0);
        let coverage = (RADIUS + 0.5 - distance).clamp(0.0, 1.0);
        let [red, green, blue, _] = BLUE;
        if coverage > 0.0 { [red, green, blue, (coverage * 255.0 + 0.5) as u8] } else { [0; 4] }
    })
}

fn flat(width: u32, height: u32, color: [u8; 4]) -> Bytes {
    png(Size::new(width, height), |_, _| color)
}

fn form(file: Bytes, fields: &[(&str, &str)]) -> Form {
    texts(fields).part("file", Part::stream(file).file_name("disc.png"))
}

#[tokio::test]
async fn replace_bg_composes_the_subject_onto_a_colour_or_a_picture() {
    let running = TestDaemon::start(&[]);
    let white = running.disc("/replace-bg", &[]).await;
    assert_eq!((white.size(), white.media_type.as_str()), ((200, 120), "image/png"));
    white.shows(0, 0, [255; 4], 0);
    white.shows(80, 60, BLUE, 0);
    assert_eq!(white.foreground, [50, 30, 60, 60]);
    let red = running.disc("/replace-bg", &[("bg_color", "red"), ("width", "100")]).await;
    assert_eq!(red.size(), (100, 60));
    red.shows(99, 59, [255, 0, 0, 255], 0);
    let clear = running.disc("/replace-bg", &[("bg_color", "transparent"), ("format", "webp")]).await;
    assert_eq!(clear.media_type, "image/webp");
    clear.shows(0, 0, [0; 4], 0);
    // A box of another aspect is filled by the background, the picture in the middle of it.
    let boxed = running.disc("/replace-bg", &[("bg_color", "#0a0"), ("width", "100"), ("height", "100")]).await;
    boxed.shows(50, 2, [0, 170, 0, 255], 0);

    // Left half green, right half yellow, 100×100: covering 200×120 it is cut above and below, contained it has bars.
    let two = png(Size::new(100, 100), |x, _| if x < 50 { [0, 255, 0, 255] } else { [255, 255, 0, 255] });
    let with = |fields: &[(&str, &str)]| form(disc(), fields).part("bg_file", Part::stream(two.clone()));
    let cover = Finished::of(running.post("/replace-bg", with(&[])).await).await;
    assert_eq!((cover.size(), cover.media_type.as_str()), ((200, 120), "image/jpeg"));
    cover.shows(10, 5, [0, 255, 0, 255], 6);
    cover.shows(190, 110, [255, 255, 0, 255], 6);
    let contain = with(&[("fit", "contain"), ("format", "png"), ("bg_color", "#102030")]);
    let contain = Finished::of(running.post("/replace-bg", contain).await).await;
    contain.shows(5, 60, [16, 32, 48, 255], 0);
    contain.shows(195, 60, [16, 32, 48, 255], 0);
    contain.shows(150, 5, [255, 255, 0, 255], 0);
}

#[tokio::test]
async fn studio_shots_have_the_documented_size_padding_and_shadow() {
    let running = TestDaemon::start(&[]);
    let usual = running.disc("/studio-shot", &[]).await;
    // 60 pixels are 80 % of 75.
    assert_eq!((usual.size(), usual.media_type.as_str()), ((75, 75), "image/jpeg"));
    usual.shows(0, 0, [255; 4], 2);
    usual.shows(37, 37, BLUE, 12);
    for (fields, size) in [
        (&[("aspect", "4:5"), ("width", "400")][..], (400, 500)),
        (&[("aspect", "16:9"), ("height", "90")], (160, 90)),
        (&[("width", "300"), ("height", "200")], (300, 200)),
        (&[("max_dim", "50")], (50, 50)),
        (&[("padding", "20")], (100, 100)),
        (&[("padding", "20px"), ("aspect", "2:1")], (200, 100)),
        (&[("padding", "0%")], (60, 60)),
    ] {
        assert_eq!(running.disc("/studio-shot", fields).await.size(), size, "{fields:?}");
    }
    let plain = [("shadow", "false"), ("format", "png"), ("padding", "70")];
    let plain = running.disc("/studio-shot", &plain).await;
    let shaded = running.disc("/studio-shot", &[("format", "png"), ("padding", "70")]).await;
    // Below the disc: shadow, or none. The disc's middle is at 100,100, that of its shadow at 108,112.
    plain.shows(108, 140, [255; 4], 0);
    let dark = shaded.frame.pixel(108, 134)[0];
    assert!((150..235).contains(&dark), "{dark}");
    let [lower, upper] = [shaded.frame.pixel(108, 136)[0], shaded.frame.pixel(92, 64)[0]];
    assert!(lower < upper, "the shadow falls the wrong way: {lower} below, {upper} above");
    let clear = running.disc("/studio-shot", &[("transparent", "true"), ("format", "jpg")]).await;
    assert_eq!(clear.media_type, "image/png");
    clear.shows(0, 0, [0; 4], 0);
}

#[tokio::test]
async fn crops_shadows_and_stickers_have_their_exact_sizes() {
    let running = TestDaemon::start(&[]);
    let crop = running.disc("/smart-crop", &[]).await;
    assert_eq!((crop.size(), crop.foreground.as_slice()), ((76, 76), &[8, 8, 60, 60][..]));
    crop.shows(0, 0, [0; 4], 0);
    assert_eq!(running.disc("/smart-crop", &[("padding", "500")]).await.size(), (200, 120));
    assert_eq!(running.disc("/smart-crop", &[("aspect", "4:3"), ("padding", "0")]).await.size(), (80, 60));
    // Beyond the picture's left border, and still in the middle.
    let wide = running.disc("/smart-crop", &[("aspect", "16:9"), ("padding", "70")]).await;
    assert_eq!((wide.size(), wide.foreground.as_slice()), ((213, 120), &[77, 30, 60, 60][..]));
    wide.shows(2, 90, [0; 4], 0);

    let down = [("angle", "90"), ("blur", "0"), ("offset", "70"), ("opacity", "1"), ("color", "#ff0000")];
    let shadow = running.disc("/shadow", &down).await;
    // The disc ends at 90, its shadow at 160: the canvas grows downwards only.
    assert_eq!((shadow.size(), shadow.foreground.as_slice()), ((200, 160), &[50, 30, 60, 60][..]));
    shadow.shows(80, 60, BLUE, 0);
    shadow.shows(80, 130, [255, 0, 0, 255], 0);
    shadow.shows(5, 5, [0; 4], 0);
    let on_white = [("angle", "90"), ("blur", "0"), ("offset", "70"), ("opacity", "0.4"), ("bg_color", "white")];
    running.disc("/shadow", &on_white).await.shows(80, 130, [153, 153, 153, 255], 0);
    let grey = running.disc("/shadow", &[("bg_color", "#808080"), ("format", "jpg")]).await;
    grey.shows(2, 2, [128, 128, 128, 255], 2);

    let sticker = running.disc("/sticker", &[]).await;
    assert_eq!((sticker.size(), sticker.media_type.as_str()), ((156, 156), "image/png"));
    sticker.shows(78, 78, BLUE, 0);
    sticker.shows(78, 40, [255; 4], 0);
    sticker.shows(78, 30, [0; 4], 0);
    sticker.shows(0, 0, [0; 4], 0);
    let red = running.disc("/sticker", &[("stroke_width", "100"), ("stroke_color", "red"), ("padding", "0")]).await;
    assert_eq!(red.size(), (260, 260));
    red.shows(130, 2, [255, 0, 0, 255], 0);
    let none = running.disc("/sticker", &[("stroke_width", "0")]).await;
    let remove = running.disc("/remove", &[]).await;
    assert_eq!(none.frame.pixels(), remove.frame.pixels(), "no outline is the same as /remove");
}

#[tokio::test]
async fn with_anchor_auto_a_subject_cut_off_by_the_photo_is_anchored_to_that_border() {
    let running = TestDaemon::start(&[]);
    // 60 columns from 50 on, and the lower 60 of 120 rows.
    let bust = || png(SIZE, |x, y| if (50..110).contains(&x) && y >= 60 { BLUE } else { [0; 4] });
    for (path, fields, anchor, size, foreground) in [
        ("/studio-shot", &[("aspect", "1:1")][..], "center", (75, 75), [7, 7, 60, 60]),
        ("/studio-shot", &[("aspect", "1:1")], "auto", (75, 75), [7, 15, 60, 60]),
        ("/studio-shot", &[("padding", "20px")], "auto", (100, 100), [20, 40, 60, 60]),
        ("/shadow", &[("angle", "90"), ("blur", "0")], "center", (200, 132), [50, 60, 60, 60]),
        ("/shadow", &[("angle", "90"), ("blur", "0")], "auto", (200, 120), [50, 60, 60, 60]),
        ("/sticker", &[], "center", (156, 156), [48, 48, 60, 60]),
        ("/sticker", &[], "auto", (156, 108), [48, 48, 60, 60]),
    ] {
        let fields = [fields, &[("anchor", anchor)]].concat();
        let finished = Finished::of(running.post(path, form(bust(), &fields)).await).await;
        assert_eq!((finished.size(), finished.foreground.as_slice()), (size, &foreground[..]), "{path} {fields:?}");
    }
    // A subject within the photo is unaffected.
    let usual = running.disc("/sticker", &[]).await;
    assert_eq!(running.disc("/sticker", &[("anchor", "auto")]).await.frame.pixels(), usual.frame.pixels());
    let refused = running.post("/sticker", form(disc(), &[("anchor", "left")])).await;
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn urls_are_fetched_from_a_configured_private_origin_and_no_other() {
    let origin = Origin::start([
        ("/disc.png", Answer::Bytes(disc())),
        ("/red.png", Answer::Bytes(flat(40, 20, [255, 0, 0, 255]))),
        ("/moved", Answer::Redirect(302, "/disc.png".into())),
        ("/gone", Answer::Status(404)),
    ]);
    let authorities = origin.authorities_file();
    let authority = origin.authority();
    let settings = [
        ("BACKDROP_FETCH_PRIVATE_ORIGINS", authority.as_str()),
        ("BACKDROP_FETCH_EXTRA_CA", authorities.to_str().unwrap()),
    ];
    let running = TestDaemon::start(&settings);

    let url = json!({ "url": origin.url("/moved"), "width": 100 });
    let cutout = Finished::of(running.json("/remove-url", &url).await).await;
    assert_eq!(cutout.size(), (100, 60));
    // Half of 50,30,60,60; the filter spreads the edge by less than a pixel.
    let off = cutout.foreground.iter().zip([25, 15, 30, 30]).map(|(is, should)| is.abs_diff(should)).max().unwrap();
    assert!(off <= 2, "{:?}", cutout.foreground);
    let marked = json!({ "url": origin.url("/disc.png"), "watermark": "مرحبا Backdrop", "watermark_opacity": 1.0 });
    let marked = Finished::of(running.json("/remove-url", &marked).await).await;
    let corner = (100..200).flat_map(|x| (90..120).map(move |y| (x, y)));
    assert!(corner.into_iter().any(|(x, y)| marked.frame.pixel(x, y)[3] > 200), "no text in the corner");

    let failed = running.json("/remove-url", &json!({ "url": origin.url("/gone") })).await;
    assert_eq!(failed.status(), 424);
    let body: Value = failed.json().await.unwrap();
    assert_eq!(body["error"]["code"], "fetch_failed");

    let bg = running.disc("/replace-bg", &[("bg_url", &origin.url("/red.png")), ("format", "png")]).await;
    bg.shows(3, 3, [255, 0, 0, 255], 0);
    let mark = running.disc("/replace-bg", &[("watermark", &origin.url("/red.png"))]).await;
    // A fifth of 200 wide, half as high, 2 % from the corner.
    mark.shows(195, 115, [255, 0, 0, 255], 0);
    mark.shows(157, 97, [255, 0, 0, 255], 0);
    mark.shows(155, 97, [255; 4], 0);
    mark.shows(197, 115, [255; 4], 0);

    let urls =
        json!({ "urls": [origin.url("/disc.png"), origin.url("/gone"), "https://127.0.0.1/"], "format": "webp" });
    let batch: Value = running.json("/remove-batch-url", &urls).await.json().await.unwrap();
    let statuses: Vec<_> = batch["results"].as_array().unwrap().iter().map(|row| row["status"].clone()).collect();
    assert_eq!(statuses, [200, 424, 424]);

    let strict = TestDaemon::start(&settings[1..]);
    let refused = strict.json("/remove-url", &url).await;
    assert_eq!(refused.status(), 424, "the origin is on the loopback");
}

#[test]
fn the_command_line_runs_every_endpoint_with_the_same_field_names() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("disc.png");
    fs::write(&input, disc()).unwrap();
    let background = folder.path().join("green.png");
    fs::write(&background, flat(10, 10, [0, 255, 0, 255])).unwrap();
    let file = format!("bg_file={}", background.display());
    for (endpoint, set, name, size) in [
        ("remove-url", vec!["width=50"], "a.png", (50, 30)),
        ("remove-batch", vec!["height=60"], "b.webp", (100, 60)),
        ("replace-bg", vec![&file, "fit=stretch"], "c.jpg", (200, 120)),
        ("studio-shot", vec!["padding=20", "aspect=2:1"], "d.jpg", (200, 100)),
        ("smart-crop", vec!["padding=0"], "e.png", (60, 60)),
        ("shadow", vec!["offset=0", "blur=0"], "f.png", (200, 120)),
        ("sticker", vec!["padding=0", "stroke_width=10"], "g.png", (80, 80)),
    ] {
        let output = folder.path().join(name);
        let mut command = backdrop();
        command.arg("remove").arg(&input).arg("-o").arg(&output).args(["--endpoint", endpoint]);
        set.iter().for_each(|pair| {
            command.args(["--set", pair]);
        });
        let ran = command.output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{endpoint}: {}", stderr(&ran));
        let size_of = decoded(&fs::read(&output).unwrap()).size();
        assert_eq!((size_of.width, size_of.height), size, "{endpoint}");
    }
    let mut command = backdrop();
    command.arg("remove").arg(&input).arg("-o").arg(folder.path().join("x.png"));
    let ran = command.args(["--endpoint", "replace-bg", "--set", "bg_file=nowhere.png"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(stderr(&ran).contains("cannot read bg_file"), "{}", stderr(&ran));
}
