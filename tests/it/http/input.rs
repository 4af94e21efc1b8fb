//! Lenient input: spellings of values, blank fields, aliases, suggestions for misspelled names, presets by id or name.

use crate::http::daemon::{Daemon, KEY, form, refusal, required_fields};
use backdrop::compose::Mark;
use backdrop::recipe::ENDPOINTS;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response};
use serde_json::{Value, json};

const PHOTO: &str = "https://example.org/1234";
const MARK: &str = "https://example.org/55";

impl Daemon {
    /// The recipe of the last request.
    pub(crate) fn last_recipe(&self) -> String {
        format!("{:?}", self.engine.seen.lock().expect("no panic inside").last().expect("one").1)
    }

    pub(crate) async fn send_json(&self, path: &str, body: &Value) -> Response {
        self.post(path).json(body).send().await.expect("an answer")
    }
}

#[tokio::test]
async fn values_are_accepted_in_common_spellings() {
    let daemon = Daemon::start().await;
    for (path, plain, written) in [
        ("/remove", ("decontaminate", "true"), &["True", "TRUE", "yes", "On", "1", " true ", "1.0"][..]),
        ("/remove", ("keep_alpha", "false"), &["False", "NO", "off", "0", "false\n"]),
        ("/remove", ("despill", "true"), &["YES", "1", "on", "100"]),
        ("/remove", ("format", "webp"), &["WEBP", "WebP", " webp"]),
        ("/remove", ("edge", "hard"), &["HARD", "Hard"]),
        ("/remove", ("detect", "high_recall"), &["HIGH_RECALL"]),
        ("/remove", ("engine", "product-v1"), &["Product-V1"]),
        ("/remove", ("quality", "50"), &["50.0", "+50", "5e1", " 50 ", "50."]),
        ("/remove", ("max_dim", "8192"), &["8193", "10000", "1e9", "99999999999"]),
        ("/studio-shot", ("format", "jpg"), &["jpeg", "JPEG", "JPG"]),
        ("/studio-shot", ("bg_blur", "50"), &["true", "on", "5e1"]),
        ("/studio-shot", ("padding", "10%"), &["10 %", "10.0%", "1e1%"]),
        ("/studio-shot", ("aspect", "4:5"), &["4 : 5", "4.0:5", " 4:5 "]),
        ("/shadow", ("opacity", "0.5"), &[".5", "5e-1", "+0.5", "0.50"]),
        ("/shadow", ("angle", "90"), &["90.0", "9e1"]),
        ("/shadow", ("color", "red"), &["Red", " RED "]),
    ] {
        assert_eq!(daemon.send(path, &[plain]).await.status(), 200, "{path} {plain:?}");
        let expected = daemon.last_recipe();
        for value in written {
            assert_eq!(daemon.send(path, &[(plain.0, value)]).await.status(), 200, "{path} {}={value:?}", plain.0);
            assert_eq!(daemon.last_recipe(), expected, "{path} {}={value:?}", plain.0);
        }
    }
    for (path, field, value) in [
        ("/remove", "quality", "NaN"),
        ("/remove", "quality", "92.5"),
        ("/remove", "max_dim", "0"),
        ("/remove", "max_dim", "inf"),
        ("/remove", "width", "8193"),
        ("/remove", "decontaminate", "maybe"),
        ("/shadow", "opacity", "inf"),
        ("/shadow", "opacity", "0,5"),
    ] {
        refusal(daemon.send(path, &[(field, value)]).await).await.is(400, "invalid_parameter", Some(field));
    }
}

#[tokio::test]
async fn a_crop_as_jpeg_is_refused_with_the_reason() {
    let daemon = Daemon::start().await;
    for format in ["jpg", "JPEG"] {
        let refused = refusal(daemon.send("/smart-crop", &[("format", format)]).await).await;
        refused.is(400, "invalid_parameter", Some("format"));
        assert!(refused.message.contains("because the crop of a cutout keeps its transparency"), "{}", refused.message);
    }
}

#[tokio::test]
async fn blank_fields_are_treated_as_absent() {
    let daemon = Daemon::start().await;
    assert_eq!(daemon.send("/replace-bg", &[]).await.status(), 200);
    let expected = daemon.last_recipe();
    let blank =
        form(&[("bg_url", ""), ("width", ""), ("height", " "), ("watermark", ""), ("preset", ""), ("despill", "")])
            .part("bg_file", Part::bytes(Vec::new()).file_name(""));
    let response = daemon.post("/replace-bg").multipart(blank).send().await.expect("an answer");
    assert_eq!((response.status().as_u16(), daemon.last_recipe()), (200, expected));
    let nameless = form(&[]).part("bg_file", Part::bytes(Vec::new()));
    assert_eq!(daemon.post("/replace-bg").multipart(nameless).send().await.expect("an answer").status(), 200);

    assert_eq!(daemon.send_json("/remove-url", &json!({ "url": PHOTO })).await.status(), 200);
    let expected = daemon.last_recipe();
    let nulls =
        json!({ "url": PHOTO, "width": null, "edge": null, "watermark": "", "preset": null, "image_base64": null });
    assert_eq!(daemon.send_json("/remove-url", &nulls).await.status(), 200);
    assert_eq!(daemon.last_recipe(), expected);

    // A blank required field is missing, not invalid.
    let missing = refusal(daemon.send("/replace-bg-ai", &[("prompt", " ")]).await).await;
    missing.is(400, "invalid_parameter", Some("prompt"));
    assert_eq!(missing.message, "`prompt` is missing");
    for body in [json!({ "url": null }), json!({ "url": "" })] {
        let missing = refusal(daemon.send_json("/remove-url", &body).await).await;
        missing.is(400, "invalid_parameter", Some("url"));
        assert!(missing.message.contains("`url` is missing"), "{}", missing.message);
    }
    let missing = refusal(daemon.send_json("/remove-batch-url", &json!({ "urls": null })).await).await;
    assert_eq!(missing.message, "`urls` is missing");
    // A blank field does not override a preset.
    let fields = [("preset", daemon.preset.as_str()), ("width", "")];
    assert_eq!(daemon.send("/remove", &fields).await.status(), 200);
    assert_eq!(daemon.engine.seen.lock().expect("no panic inside").last().expect("one").1.scene.resize.width, Some(77));
}

#[tokio::test]
async fn a_misspelled_field_is_refused_with_the_nearest_name() {
    let daemon = Daemon::start().await;
    let message = |nearest: Option<&str>, name: &str| match nearest {
        Some(nearest) => format!("unknown field `{name}`; did you mean `{nearest}`?"),
        None => format!("unknown field `{name}`"),
    };
    for (name, nearest) in [
        ("egde", Some("edge")),
        ("Edge", Some("edge")),
        ("max-dim", Some("max_dim")),
        ("maxDim", Some("max_dim")),
        ("fromat", Some("format")),
        ("fil", Some("file")),
        ("xyz", None),
    ] {
        let by_form = refusal(daemon.send("/remove", &[(name, "1")]).await).await;
        by_form.is(400, "invalid_parameter", Some(name));
        assert_eq!(by_form.message, message(nearest, name));
        if name != "fil" {
            let by_query = daemon.post(&format!("/remove?{name}=1")).body("a picture").send().await;
            assert_eq!(refusal(by_query.expect("an answer")).await.message, message(nearest, name));
            let body = json!({ "url": PHOTO, name: "1" });
            let by_json = refusal(daemon.send_json("/remove-url", &body).await).await;
            by_json.is(400, "invalid_parameter", Some(name));
            assert_eq!(by_json.message, message(nearest, name));
        }
    }
    for (path, body, name, nearest) in [
        ("/remove-batch-url", json!({ "url": [PHOTO] }), "url", Some("urls")),
        ("/video/remove", json!({ "url": PHOTO, "smooting": 5 }), "smooting", Some("smoothing")),
        ("/estimate", json!({ "endpont": "/remove" }), "endpont", Some("endpoint")),
        ("/presets", json!({ "nmae": "x" }), "nmae", Some("name")),
        ("/presets", json!({ "name": "x", "params": { "bgcolor": "red" } }), "bgcolor", Some("bg_color")),
        ("/presets", json!({ "name": "x", "endpoint": "/shadow", "params": { "ofset": 1 } }), "ofset", Some("offset")),
        ("/presets", json!({ "name": "x", "endpoint": "/shadow", "params": { "preset": "y" } }), "preset", None),
    ] {
        let refused = refusal(daemon.send_json(path, &body).await).await;
        refused.is(400, "invalid_parameter", Some(name));
        assert_eq!(refused.message, message(nearest, name), "{path}");
    }
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
}

#[tokio::test]
async fn the_file_is_accepted_under_the_names_of_other_services() {
    let daemon = Daemon::start().await;
    let part = || Part::bytes(b"the picture".to_vec()).file_name("a.jpg");
    for name in ["file", "image", "image_file"] {
        let form = Form::new().part(name, part());
        let response = daemon.post("/remove").multipart(form).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{name}");
    }
    let both = Form::new().part("image", part()).part("file", part());
    let twice = daemon.post("/remove").multipart(both).send().await.expect("an answer");
    refusal(twice).await.is(400, "invalid_parameter", Some("file"));
    let files = Form::new().part("files[]", part()).part("files", part()).part("files[]", part());
    let batch = daemon.post("/remove-batch").multipart(files).send().await.expect("an answer");
    assert_eq!(batch.json::<Value>().await.expect("JSON")["succeeded"], 3);
    let batch = daemon.send_json("/remove-batch-url", &json!({ "urls[]": [PHOTO, PHOTO] })).await;
    assert_eq!(batch.json::<Value>().await.expect("JSON")["succeeded"], 2);
    assert_eq!(daemon.send_json("/remove-url", &json!({ "image_url": PHOTO })).await.status(), 200);
    let both = json!({ "image_url": PHOTO, "url": PHOTO });
    refusal(daemon.send_json("/remove-url", &both).await).await.is(400, "invalid_parameter", Some("url"));
}

#[tokio::test]
async fn a_preset_may_be_named_by_id_or_name_everywhere() {
    let daemon = Daemon::start().await;
    for reference in ["p1", &daemon.preset.clone(), " p1 "] {
        for endpoint in ENDPOINTS.iter() {
            let response = if endpoint.input.is_single() {
                let mut body = json!({ "url": PHOTO, "preset": reference });
                for (name, value) in required_fields(endpoint.path) {
                    body[*name] = (*value).into();
                }
                daemon.send_json(endpoint.path, &body).await
            } else if endpoint.input.is_url() {
                daemon.send_json(endpoint.path, &json!({ "urls": [PHOTO], "preset": reference })).await
            } else {
                let form = Form::new().part("files", Part::bytes(vec![1; 9])).text("preset", reference.to_owned());
                daemon.post(endpoint.path).multipart(form).send().await.expect("an answer")
            };
            assert_eq!(response.status(), 200, "{} {reference}", endpoint.path);
            // A batch has finished when its body ends.
            response.bytes().await.expect("a body");
            let seen = daemon.engine.seen.lock().expect("no panic inside");
            assert_eq!(seen.last().expect("one").1.scene.resize.width, Some(77), "{} {reference}", endpoint.path);
        }
        let unknown = refusal(daemon.send("/remove", &[("preset", "p2")]).await).await;
        unknown.is(404, "not_found", Some("preset"));
    }
    let changed = json!({ "id": "p1", "name": "shop", "params": { "width": 5 } });
    let changed: Value = daemon.send_json("/presets", &changed).await.json().await.expect("JSON");
    assert_eq!((&changed["id"], &changed["name"]), (&json!(daemon.preset), &json!("shop")));
    let deleted_already = refusal(daemon.json_as(KEY, Method::DELETE, "/presets", &json!({ "id": "p1" })).await).await;
    deleted_already.is(404, "not_found", Some("id"));
    let deleted = daemon.json_as(KEY, Method::DELETE, "/presets?id=shop", &json!({ "id": null })).await;
    let deleted: Value = deleted.json().await.expect("JSON");
    assert_eq!(deleted, json!({ "deleted": true, "id": daemon.preset }));
}

#[tokio::test]
async fn a_listed_preset_can_be_sent_back() {
    let daemon = Daemon::start().await;
    let params = json!({ "width": 64, "edge": "HARD", "despill": true, "quality": "50", "watermark_opacity": 0.25,
        "decontaminate": "yes", "height": null, "format": "" });
    let saved =
        daemon.send_json("/presets", &json!({ "name": " shop ", "endpoint": "/remove", "params": params })).await;
    assert_eq!(saved.status(), 200);
    let saved: Value = saved.json().await.expect("JSON");
    assert_eq!(saved["name"], "shop");
    let list: Value = daemon
        .client
        .get(daemon.url("/presets"))
        .bearer_auth(KEY)
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    for record in list["presets"].as_array().expect("a list") {
        assert!(record["created_at"].is_string() && record.as_object().expect("an object").len() == 6);
        let again = daemon.send_json("/presets", record).await;
        assert_eq!(again.status(), 200, "{record}");
        let again: Value = again.json().await.expect("JSON");
        for member in ["id", "name", "endpoint", "params", "created_at"] {
            assert_eq!(again[member], record[member], "{member}");
        }
    }
    assert_eq!(daemon.send("/remove", &[("preset", "shop")]).await.status(), 200);
    let recipe = daemon.last_recipe();
    let sent = [
        ("width", "64"),
        ("edge", "hard"),
        ("despill", "true"),
        ("quality", "50"),
        ("watermark_opacity", "0.25"),
        ("decontaminate", "true"),
    ];
    assert_eq!(daemon.send("/remove", &sent).await.status(), 200);
    assert_eq!(daemon.last_recipe(), recipe);
    // Without an id it becomes a new preset.
    let mut copy = saved;
    (copy["id"], copy["name"]) = (Value::Null, json!("copy"));
    let copied: Value = daemon.send_json("/presets", &copy).await.json().await.expect("JSON");
    assert!(copied["id"].as_str().is_some_and(|id| id.starts_with("preset_")) && copied["params"] == copy["params"]);
    for (params, param) in [
        (json!({ "width": [5] }), "width"),
        (json!({ "width": "wide" }), "width"),
        (json!({ "edge": 5 }), "edge"),
        (json!({ "watermark": "http://example.org/w.png" }), "watermark"),
    ] {
        let body = json!({ "name": "bad", "endpoint": "/remove", "params": params });
        refusal(daemon.send_json("/presets", &body).await).await.is(400, "invalid_parameter", Some(param));
    }
    let missing = refusal(daemon.send_json("/presets", &json!({ "name": "", "params": null })).await).await;
    assert_eq!((missing.param.as_deref(), missing.message.as_str()), (Some("name"), "`name` is missing"));
}

#[tokio::test]
async fn the_watermark_of_a_preset_is_the_same_picture_for_uploads_and_urls() {
    let daemon = Daemon::start().await;
    let preset = json!({ "name": "marked", "params": { "watermark": MARK, "watermark_opacity": 0.3 } });
    assert_eq!(daemon.send_json("/presets", &preset).await.status(), 200);
    assert_eq!(daemon.send("/remove", &[("preset", "marked")]).await.status(), 200);
    assert_eq!(daemon.send_json("/remove-url", &json!({ "url": PHOTO, "preset": "marked" })).await.status(), 200);
    let batch = daemon.send_json("/remove-batch-url", &json!({ "urls": [PHOTO], "preset": "marked" })).await;
    assert_eq!(batch.json::<Value>().await.expect("JSON")["succeeded"], 1);
    {
        let files = daemon.engine.files.lock().expect("no panic inside");
        assert_eq!(files.iter().filter(|files| files.mark.as_ref().is_some_and(|mark| mark.len() == 55)).count(), 3);
        let seen = daemon.engine.seen.lock().expect("no panic inside");
        let marks: Vec<_> =
            seen.iter().map(|(_, recipe)| recipe.scene.watermark.clone().expect("a watermark")).collect();
        assert!(marks.iter().all(|mark| mark.mark == Mark::Picture && *mark == marks[0]), "{marks:?}");
    }
    // A sent `watermark` is text there.
    assert_eq!(daemon.send_json("/remove-url", &json!({ "url": PHOTO, "watermark": MARK })).await.status(), 200);
    let seen = daemon.engine.seen.lock().expect("no panic inside");
    let sent = seen.last().expect("one").1.scene.watermark.clone().expect("a watermark");
    assert_eq!(sent.mark, Mark::Text(MARK.into()));
}
