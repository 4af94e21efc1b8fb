//! The fields that say where the subject is, over HTTP: every endpoint, every form of a request, batches, presets, clips.

use crate::http::daemon::{Daemon, Exchange, Work, file, form, required_fields, texts};
use backdrop::codec::DecodeError;
use backdrop::image::{Rect, Size};
use backdrop::pipeline::{AuxImage, PipelineError};
use backdrop::recipe::{ENDPOINTS, Endpoint, FieldError, Located, MaskMode, MaskSource, Recipe};
use reqwest::RequestBuilder;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

const MASK: &[u8] = b"the mask";
const PHOTO: &str = "https://example.org/11";

fn mask() -> Part {
    Part::bytes(MASK).file_name("m.png")
}

fn cutting() -> impl Iterator<Item = &'static Endpoint> {
    ENDPOINTS.iter().filter(|endpoint| !["/upscale", "/face-restore"].contains(&endpoint.path))
}

impl Daemon {
    /// The recipe of a request that is answered 200, and the mask that came with it.
    async fn guided(&self, request: RequestBuilder) -> (Recipe, Option<Vec<u8>>) {
        let response = request.answer().await;
        let status = response.status();
        // A batch has finished when its body ends.
        let body = response.bytes().await.expect("a body");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        (self.engine.last_recipe(), self.engine.last_files().mask.map(|mask| mask.to_vec()))
    }

    /// A small picture with a mask.
    fn masked(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.post(path).multipart(form(fields).part("mask_file", mask()))
    }
}

fn mode(recipe: &Recipe) -> Option<MaskMode> {
    recipe.cut().expect("it cuts").guidance.mask
}

/// `body` with the fields that an endpoint requires.
fn with_required(path: &str, mut body: Value) -> Value {
    required_fields(path).iter().for_each(|(name, value)| body[*name] = json!(value));
    body
}

/// Box and points of a recipe in a picture of 100×100.
#[track_caller]
fn located(recipe: &Recipe) -> Located {
    recipe.cut().expect("it cuts").guidance.located(Size::new(100, 100)).expect("inside")
}

fn expected() -> Located {
    let area = Some(Rect { left: 10, top: 20, width: 80, height: 70 });
    Located { area, subject: vec![[30, 40], [50, 60]], background: vec![[89, 89]] }
}

#[tokio::test]
async fn box_and_points_reach_the_recipe_at_every_endpoint_in_every_form() {
    let daemon = Daemon::start().await;
    let members = json!({ "box": "10,20,90,90", "point": ["30,40", "50%,60%"], "not_point": "89,89" });
    for endpoint in cutting() {
        let path = endpoint.path;
        let fields = [("box", "10, 20, 90, 90"), ("point", "30,40"), ("not_point", "89px,89px"), ("point", "50,60")];
        let fields = [&fields[..], required_fields(path)].concat();
        let json = |name: &str, value: Value| {
            let mut body = with_required(path, members.clone());
            body[name] = value;
            daemon.post(path).json(&body)
        };
        let requests = if endpoint.input.is_single() {
            let query = "box=10,20px,90%25,90%25&point=30,40&point=50,60&not_point=89.5,89.5";
            let more: String = required_fields(path).iter().map(|(name, value)| format!("&{name}={value}")).collect();
            let raw = daemon.post(&format!("{path}?{query}{more}")).header("content-type", "image/png");
            vec![daemon.upload(path, &fields), json("url", json!(PHOTO)), raw.body("picture")]
        } else if endpoint.input.is_url() {
            vec![json("urls", json!([PHOTO]))]
        } else {
            vec![daemon.post(path).multipart(texts(&fields).part("files", file(b"picture".to_vec())))]
        };
        for request in requests {
            assert_eq!(located(&daemon.guided(request).await.0), expected(), "{path}");
        }
    }
}

#[tokio::test]
async fn a_mask_comes_as_a_file_or_from_an_address_with_its_mode() {
    let daemon = Daemon::start().await;
    for endpoint in cutting().filter(|endpoint| endpoint.input.is_single()) {
        let path = endpoint.path;
        for (sent, expected) in
            [(None, MaskMode::Replace), (Some("Trimap"), MaskMode::Trimap), (Some("hint"), MaskMode::Hint)]
        {
            let fields: Vec<_> = sent.map(|sent| ("mask_mode", sent)).into_iter().collect();
            let fields = [&fields[..], required_fields(path)].concat();
            let (recipe, file) = daemon.guided(daemon.masked(path, &fields)).await;
            assert_eq!((file.as_deref(), mode(&recipe)), (Some(MASK), Some(expected)), "{path}");
            assert_eq!(recipe.inputs.mask, Some(MaskSource::Attached), "{path}");
            let body = json!({ "url": PHOTO, "mask_url": "https://example.org/7", "mask_mode": sent });
            let (recipe, file) = daemon.guided(daemon.post(path).json(&with_required(path, body))).await;
            assert_eq!((file.as_deref(), mode(&recipe)), (Some(&[5; 7][..]), Some(expected)), "{path}");
        }
    }
}

#[tokio::test]
async fn what_contradicts_itself_is_refused_before_any_work() {
    let daemon = Daemon::start().await;
    let url = ("mask_url", "https://example.org/7");
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool, &'a str, &'a str);
    let cases: [Case<'_>; 12] = [
        ("/remove", &[("mask_mode", "hint")], false, "mask_mode", "there is no mask"),
        ("/remove", &[url], true, "mask_url", "there is a `mask_file`"),
        ("/mask", &[("point", "5,5")], true, "point", "mask_mode=hint takes both"),
        (
            "/mask",
            &[("not_point", "5,5"), ("mask_mode", "trimap"), url],
            false,
            "not_point",
            "mask_mode=hint takes both",
        ),
        ("/mask", &[("stage", "mask")], true, "stage", "in place of the network's"),
        ("/remove", &[("mask_mode", "paint")], true, "mask_mode", "expected replace, trimap or hint"),
        ("/remove", &[("box", "1,2,3")], false, "box", "x1,y1,x2,y2"),
        ("/remove", &[("point", "1,2,3")], false, "point", "x,y in pixels or percent"),
        ("/remove", &[("point", "1,2"), ("point", "-3,4")], false, "point", "\"1,2;-3,4\""),
        ("/remove", &[("box", "0,0,9,9"), ("box", "0,0,9,9")], false, "box", "more than once"),
        ("/upscale", &[("box", "0,0,9,9")], false, "box", "because this endpoint keeps the whole picture"),
        ("/face-restore", &[], true, "mask_file", "this endpoint keeps the whole picture"),
    ];
    for (path, fields, has_mask, param, why) in cases {
        let request = if has_mask { daemon.masked(path, fields) } else { daemon.upload(path, fields) };
        let refused = request.invalid(param).await;
        assert!(refused.message.contains(why), "{path} {fields:?}: {}", refused.message);
    }
    let many = vec![("point", "1,2"); 101];
    daemon.upload("/remove", &many).invalid("point").await;
    daemon.guided(daemon.upload("/remove", &many[1..])).await;
    let empty = daemon.post("/remove").multipart(form(&[]).part("mask_file", file(Vec::new())));
    empty.refused(400, "invalid_image", Some("mask_file")).await;
    assert_eq!((daemon.engine.started(), daemon.fetcher.fetches()), (1, 0));
}

#[tokio::test]
async fn a_batch_takes_no_mask_and_says_why() {
    let daemon = Daemon::start().await;
    let batch = || Form::new().part("files", file(b"picture".to_vec()));
    let body = json!({ "urls": [PHOTO], "mask_url": "https://example.org/7" });
    for (request, param) in [
        (daemon.post("/remove-batch").multipart(batch().part("mask_file", mask())), "mask_file"),
        (daemon.post("/remove-batch").multipart(batch().text("mask_url", "https://example.org/7")), "mask_url"),
        (daemon.post("/remove-batch-url").json(&body), "mask_url"),
    ] {
        let refused = request.invalid(param).await;
        assert!(refused.message.contains("not to a batch"), "{}", refused.message);
    }
}

#[tokio::test]
async fn a_preset_holds_box_points_and_mode_but_no_mask() {
    let daemon = Daemon::start().await;
    let save = |params: Value| daemon.post("/presets").json(&json!({ "name": "booth", "params": params }));
    let refused = save(json!({ "mask_url": "https://example.org/7" })).invalid("mask_url").await;
    assert!(refused.message.contains("a preset is of many"), "{}", refused.message);
    let params =
        json!({ "box": "10,20,90%,90%", "point": ["30,40", "50,60"], "not_point": "89,89", "mask_mode": "hint" });
    assert_eq!(save(params).answer().await.status(), 200);
    let (recipe, file) = daemon.guided(daemon.upload("/remove", &[("preset", "booth")])).await;
    assert_eq!((located(&recipe), file, mode(&recipe)), (expected(), None, None));
    let sent = daemon.masked("/sticker", &[("preset", "booth"), ("point", "31,41")]);
    let (recipe, file) = daemon.guided(sent).await;
    assert_eq!((located(&recipe).subject, file.as_deref()), (vec![[31, 41]], Some(MASK)), "what is sent wins");
    assert_eq!(mode(&recipe), Some(MaskMode::Hint));
}

#[tokio::test]
async fn a_clip_takes_none_of_them_and_says_why() {
    let daemon = Daemon::start().await;
    for name in ["mask_file", "mask_url", "mask_mode", "box", "point", "not_point"] {
        let by_url = daemon.post("/video/remove").json(&json!({ "url": "https://example.org/clip-3", name: "1,2" }));
        for request in [daemon.upload("/video/remove", &[(name, "1,2")]), by_url] {
            let refused = request.invalid(name).await;
            assert!(refused.message.contains("the subject of a clip moves"), "{}", refused.message);
        }
    }
}

#[tokio::test]
async fn what_does_not_fit_the_picture_names_the_field_that_was_sent() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| FieldError::invalid("box", "0,0,9,999", "corners inside the picture").into()));
    daemon.upload("/remove", &[("box", "0,0,9,999")]).invalid("box").await;
    daemon.engine.set(Work::Fail(|| PipelineError::AuxImage {
        which: AuxImage::Mask,
        error: DecodeError::Corrupt("it ends early".into()),
    }));
    daemon.masked("/remove", &[]).refused(400, "invalid_image", Some("mask_file")).await;
    let by_url = |url| daemon.upload("/remove", &[("mask_url", url)]);
    let invalid = by_url("https://example.org/7").refused(400, "invalid_image", Some("mask_url")).await;
    assert!(invalid.message.starts_with("the mask: "), "{}", invalid.message);
    by_url("https://example.org/gone").refused(424, "fetch_failed", Some("mask_url")).await;
}

#[tokio::test]
async fn another_mask_under_the_same_idempotency_key_is_a_conflict() {
    let daemon = Daemon::start().await;
    let with = |bytes: &[u8]| {
        let form = form(&[]).part("mask_file", file(bytes.to_vec()));
        daemon.post("/remove").header("idempotency-key", "k1").multipart(form)
    };
    for _ in 0..2 {
        daemon.guided(with(b"one")).await;
    }
    with(b"two").refused(409, "idempotency_conflict", None).await;
}
