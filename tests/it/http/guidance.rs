//! The fields that say where the subject is, over HTTP: every endpoint, every form of a request, batches, presets, clips.

use crate::http::daemon::{Daemon, Work, form, refusal, required_fields};
use backdrop::codec::DecodeError;
use backdrop::image::{Rect, Size};
use backdrop::pipeline::{AuxImage, PipelineError};
use backdrop::recipe::{ENDPOINTS, Endpoint, FieldError, Located, MaskMode, MaskSource, Recipe};
use reqwest::Response;
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
    /// The last recipe that was worked on, and the mask that came with it.
    fn last_guided(&self) -> (Recipe, Option<Vec<u8>>) {
        let recipe = self.engine.seen.lock().expect("no panic inside").last().expect("one").1.clone();
        let files = self.engine.files.lock().expect("no panic inside");
        (recipe, files.last().expect("one").mask.as_ref().map(|mask| mask.to_vec()))
    }
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

async fn ok(response: Response) {
    let status = response.status();
    // A batch has finished when its body ends.
    let body = response.bytes().await.expect("a body");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
}

#[tokio::test]
async fn box_and_points_reach_the_recipe_at_every_endpoint_in_every_form() {
    let daemon = Daemon::start().await;
    let query = "box=10,20px,90%25,90%25&point=30,40&point=50,60&not_point=89.5,89.5";
    let members = json!({ "box": "10,20,90,90", "point": ["30,40", "50%,60%"], "not_point": "89,89" });
    for endpoint in cutting() {
        let path = endpoint.path;
        let fields = [("box", "10, 20, 90, 90"), ("point", "30,40"), ("not_point", "89px,89px"), ("point", "50,60")];
        let fields: Vec<_> = fields.iter().chain(required_fields(path)).copied().collect();
        let texts = |form: Form| fields.iter().fold(form, |form, (name, value)| form.text(*name, *value));
        let with = |name: &str, value: Value| {
            let mut body = members.clone();
            body[name] = value;
            required_fields(path).iter().for_each(|(name, value)| body[*name] = json!(value));
            body
        };
        if endpoint.input.is_single() {
            ok(daemon.send(path, &fields).await).await;
            assert_eq!(located(&daemon.last_guided().0), expected(), "{path} as a form");
            ok(daemon.send_json(path, &with("url", json!(PHOTO))).await).await;
            assert_eq!(located(&daemon.last_guided().0), expected(), "{path} as JSON");
            let more: String = required_fields(path).iter().map(|(name, value)| format!("&{name}={value}")).collect();
            let raw = daemon.post(&format!("{path}?{query}{more}")).header("content-type", "image/png").body("picture");
            ok(raw.send().await.expect("an answer")).await;
        } else if endpoint.input.is_url() {
            ok(daemon.send_json(path, &with("urls", json!([PHOTO]))).await).await;
        } else {
            let batch = texts(Form::new()).part("files", Part::bytes(&b"picture"[..]).file_name("a.png"));
            ok(daemon.post(path).multipart(batch).send().await.expect("an answer")).await;
        }
        assert_eq!(located(&daemon.last_guided().0), expected(), "{path}");
    }
}

#[tokio::test]
async fn a_mask_comes_as_a_file_or_from_an_address_with_its_mode() {
    let daemon = Daemon::start().await;
    for endpoint in cutting().filter(|endpoint| endpoint.input.is_single()) {
        let path = endpoint.path;
        for (sent, mode) in
            [(None, MaskMode::Replace), (Some("Trimap"), MaskMode::Trimap), (Some("hint"), MaskMode::Hint)]
        {
            let fields: Vec<_> =
                sent.map(|sent| ("mask_mode", sent)).into_iter().chain(required_fields(path).iter().copied()).collect();
            ok(daemon.post(path).multipart(form(&fields).part("mask_file", mask())).send().await.expect("an answer"))
                .await;
            let (recipe, file) = daemon.last_guided();
            assert_eq!(file.as_deref(), Some(MASK), "{path}");
            assert_eq!(recipe.inputs.mask, Some(MaskSource::Attached), "{path}");
            assert_eq!(recipe.cut().expect("it cuts").guidance.mask, Some(mode), "{path}");
            let mut body = json!({ "url": PHOTO, "mask_url": "https://example.org/7", "mask_mode": sent });
            required_fields(path).iter().for_each(|(name, value)| body[*name] = json!(value));
            ok(daemon.send_json(path, &body).await).await;
            let (recipe, file) = daemon.last_guided();
            assert_eq!(
                (file.as_deref(), recipe.cut().expect("it cuts").guidance.mask),
                (Some(&[5; 7][..]), Some(mode))
            );
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
        let form = if has_mask { form(fields).part("mask_file", mask()) } else { form(fields) };
        let refused = refusal(daemon.post(path).multipart(form).send().await.expect("an answer")).await;
        refused.is(400, "invalid_parameter", Some(param));
        assert!(refused.message.contains(why), "{path} {fields:?}: {}", refused.message);
    }
    let many = vec![("point", "1,2"); 101];
    refusal(daemon.send("/remove", &many).await).await.is(400, "invalid_parameter", Some("point"));
    ok(daemon.send("/remove", &many[1..]).await).await;
    let empty = form(&[]).part("mask_file", Part::bytes(&b""[..]).file_name("m.png"));
    let empty = refusal(daemon.post("/remove").multipart(empty).send().await.expect("an answer")).await;
    empty.is(400, "invalid_image", Some("mask_file"));
    assert_eq!((daemon.engine.started(), daemon.fetcher.fetches()), (1, 0));
}

#[tokio::test]
async fn a_batch_takes_no_mask_and_says_why() {
    let daemon = Daemon::start().await;
    let batch = || Form::new().part("files", Part::bytes(&b"picture"[..]).file_name("a.png"));
    for (form, param) in [
        (batch().part("mask_file", mask()), "mask_file"),
        (batch().text("mask_url", "https://example.org/7"), "mask_url"),
    ] {
        let refused = refusal(daemon.post("/remove-batch").multipart(form).send().await.expect("an answer")).await;
        refused.is(400, "invalid_parameter", Some(param));
        assert!(refused.message.contains("not to a batch"), "{}", refused.message);
    }
    let body = json!({ "urls": [PHOTO], "mask_url": "https://example.org/7" });
    refusal(daemon.send_json("/remove-batch-url", &body).await).await.is(400, "invalid_parameter", Some("mask_url"));
}

#[tokio::test]
async fn a_preset_holds_box_points_and_mode_but_no_mask() {
    let daemon = Daemon::start().await;
    let save = |params: Value| {
        let saving = json!({ "name": "booth", "params": params });
        let daemon = &daemon;
        async move { daemon.send_json("/presets", &saving).await }
    };
    let refused = refusal(save(json!({ "mask_url": "https://example.org/7" })).await).await;
    refused.is(400, "invalid_parameter", Some("mask_url"));
    assert!(refused.message.contains("a preset is of many"), "{}", refused.message);
    ok(save(json!({ "box": "10,20,90%,90%", "point": ["30,40", "50,60"], "not_point": "89,89", "mask_mode": "hint" }))
        .await)
    .await;
    ok(daemon.send("/remove", &[("preset", "booth")]).await).await;
    let (recipe, file) = daemon.last_guided();
    assert_eq!((located(&recipe), file, recipe.cut().expect("it cuts").guidance.mask), (expected(), None, None));
    ok(daemon
        .post("/sticker")
        .multipart(form(&[("preset", "booth"), ("point", "31,41")]).part("mask_file", mask()))
        .send()
        .await
        .expect("an answer"))
    .await;
    let (recipe, file) = daemon.last_guided();
    assert_eq!((located(&recipe).subject, file.as_deref()), (vec![[31, 41]], Some(MASK)), "what is sent wins");
    assert_eq!(recipe.cut().expect("it cuts").guidance.mask, Some(MaskMode::Hint));
}

#[tokio::test]
async fn a_clip_takes_none_of_them_and_says_why() {
    let daemon = Daemon::start().await;
    for name in ["mask_file", "mask_url", "mask_mode", "box", "point", "not_point"] {
        let refused = refusal(daemon.send("/video/remove", &[(name, "1,2")]).await).await;
        refused.is(400, "invalid_parameter", Some(name));
        assert!(refused.message.contains("the subject of a clip moves"), "{}", refused.message);
        let body = json!({ "url": "https://example.org/clip-3", name: "1,2" });
        let refused = refusal(daemon.send_json("/video/remove", &body).await).await;
        assert!(refused.message.contains("the subject of a clip moves"), "{}", refused.message);
    }
}

#[tokio::test]
async fn what_does_not_fit_the_picture_names_the_field_that_was_sent() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| FieldError::invalid("box", "0,0,9,999", "corners inside the picture").into()));
    let refused = refusal(daemon.send("/remove", &[("box", "0,0,9,999")]).await).await;
    refused.is(400, "invalid_parameter", Some("box"));
    daemon.engine.set(Work::Fail(|| PipelineError::AuxImage {
        which: AuxImage::Mask,
        error: DecodeError::Corrupt("it ends early".into()),
    }));
    let by_file =
        daemon.post("/remove").multipart(form(&[]).part("mask_file", mask())).send().await.expect("an answer");
    refusal(by_file).await.is(400, "invalid_image", Some("mask_file"));
    let by_url = daemon.send("/remove", &[("mask_url", "https://example.org/7")]).await;
    let by_url = refusal(by_url).await;
    by_url.is(400, "invalid_image", Some("mask_url"));
    assert!(by_url.message.starts_with("the mask: "), "{}", by_url.message);
    let gone = refusal(daemon.send("/remove", &[("mask_url", "https://example.org/gone")]).await).await;
    gone.is(424, "fetch_failed", Some("mask_url"));
}

#[tokio::test]
async fn another_mask_under_the_same_idempotency_key_is_a_conflict() {
    let daemon = Daemon::start().await;
    let with = |bytes: &'static [u8]| {
        let part = Part::bytes(bytes).file_name("m.png");
        daemon.post("/remove").header("idempotency-key", "k1").multipart(form(&[]).part("mask_file", part)).send()
    };
    ok(with(b"one").await.expect("an answer")).await;
    ok(with(b"one").await.expect("an answer")).await;
    refusal(with(b"two").await.expect("an answer")).await.is(409, "idempotency_conflict", None);
}
