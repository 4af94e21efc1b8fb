//! Lenient input: blank fields, aliases, suggestions for misspelled names, presets by id or name.

use crate::http::daemon::{Daemon, Exchange, KEY, file, form, required_fields, texts};
use backdrop::recipe::ENDPOINTS;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

const PHOTO: &str = "https://example.org/1234";

impl Daemon {
    /// The recipe of the last request.
    pub(crate) fn last_recipe(&self) -> String {
        format!("{:?}", self.engine.last_recipe())
    }

    /// The recipe of a request that is answered 200.
    async fn recipe_of(&self, request: RequestBuilder) -> String {
        let response = request.answer().await;
        let status = response.status();
        // A batch has finished when its body ends.
        let body = response.text().await.unwrap_or_default();
        assert_eq!(status, 200, "{body}");
        self.last_recipe()
    }
}

#[tokio::test]
async fn blank_fields_are_treated_as_absent() {
    let daemon = Daemon::start().await;
    let json = |path, body: Value| daemon.post(path).json(&body);
    let expected = daemon.recipe_of(daemon.upload("/replace-bg", &[])).await;
    let blank = form(&[("bg_url", ""), ("height", " "), ("watermark", ""), ("preset", ""), ("despill", "")]);
    for (form, name) in [(blank, Some("")), (form(&[]), None)] {
        let part = Part::bytes(Vec::new());
        let part = if let Some(name) = name { part.file_name(name) } else { part };
        let request = daemon.post("/replace-bg").multipart(form.part("bg_file", part));
        assert_eq!(daemon.recipe_of(request).await, expected);
    }
    let expected = daemon.recipe_of(json("/remove-url", json!({ "url": PHOTO }))).await;
    let nulls =
        json!({ "url": PHOTO, "width": null, "edge": null, "watermark": "", "preset": null, "image_base64": null });
    assert_eq!(daemon.recipe_of(json("/remove-url", nulls)).await, expected);
    // A blank required field is missing, not invalid.
    for (request, name) in [
        (daemon.upload("/replace-bg-ai", &[("prompt", " ")]), "prompt"),
        (json("/remove-url", json!({ "url": null })), "url"),
        (json("/remove-url", json!({ "url": "" })), "url"),
        (json("/remove-batch-url", json!({ "urls": null })), "urls"),
    ] {
        let missing = request.invalid(name).await;
        assert!(missing.message.contains(&format!("`{name}` is missing")), "{}", missing.message);
    }
    // A blank field does not override a preset.
    let fields = [("preset", daemon.preset.as_str()), ("width", "")];
    daemon.recipe_of(daemon.upload("/remove", &fields)).await;
    assert_eq!(daemon.engine.last_recipe().scene.resize.width, Some(77));
}

#[tokio::test]
async fn a_misspelled_field_is_refused_with_the_nearest_name() {
    let daemon = Daemon::start().await;
    let json = |path, body: Value| daemon.post(path).json(&body);
    let preset = |params| json("/presets", json!({ "name": "x", "endpoint": "/shadow", "params": params }));
    for (request, name, nearest) in [
        (daemon.upload("/remove", &[("egde", "1")]), "egde", "; did you mean `edge`?"),
        (daemon.upload("/remove", &[("fil", "1")]), "fil", "; did you mean `file`?"),
        (daemon.upload("/remove", &[("xyz", "1")]), "xyz", ""),
        (daemon.post("/remove?maxDim=1").body("a picture"), "maxDim", "; did you mean `max_dim`?"),
        (json("/remove-url", json!({ "url": PHOTO, "fromat": "1" })), "fromat", "; did you mean `format`?"),
        (json("/remove-batch-url", json!({ "url": [PHOTO] })), "url", "; did you mean `urls`?"),
        (json("/video/remove", json!({ "url": PHOTO, "smooting": 5 })), "smooting", "; did you mean `smoothing`?"),
        (json("/estimate", json!({ "endpont": "/remove" })), "endpont", "; did you mean `endpoint`?"),
        (json("/presets", json!({ "nmae": "x" })), "nmae", "; did you mean `name`?"),
        (preset(json!({ "ofset": 1 })), "ofset", "; did you mean `offset`?"),
        (preset(json!({ "preset": "y" })), "preset", ""),
    ] {
        assert_eq!(request.invalid(name).await.message, format!("unknown field `{name}`{nearest}"));
    }
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
}

#[tokio::test]
async fn the_file_is_accepted_under_the_names_of_other_services() {
    let daemon = Daemon::start().await;
    let part = || file(b"the picture".to_vec());
    for name in ["file", "image", "image_file"] {
        daemon.recipe_of(daemon.post("/remove").multipart(Form::new().part(name, part()))).await;
    }
    daemon.recipe_of(daemon.post("/remove-url").json(&json!({ "image_url": PHOTO }))).await;
    let both = Form::new().part("image", part()).part("file", part());
    daemon.post("/remove").multipart(both).invalid("file").await;
    daemon.post("/remove-url").json(&json!({ "image_url": PHOTO, "url": PHOTO })).invalid("url").await;
    let files = Form::new().part("files[]", part()).part("files", part()).part("files[1]", part());
    let urls = json!({ "urls[]": [PHOTO, PHOTO, PHOTO] });
    for batch in [daemon.post("/remove-batch").multipart(files), daemon.post("/remove-batch-url").json(&urls)] {
        assert_eq!(batch.value().await["succeeded"], 3);
    }
}

#[tokio::test]
async fn a_preset_may_be_named_by_id_or_name_everywhere() {
    let daemon = Daemon::start().await;
    for reference in ["p1", &daemon.preset, " p1 "] {
        for endpoint in ENDPOINTS.iter() {
            let request = daemon.post(endpoint.path);
            let request = if endpoint.input.is_single() {
                let fields = [required_fields(endpoint.path), &[("preset", reference)]].concat();
                request.multipart(form(&fields))
            } else if endpoint.input.is_url() {
                request.json(&json!({ "urls": [PHOTO], "preset": reference }))
            } else {
                request.multipart(texts(&[("preset", reference)]).part("files", file(vec![1; 9])))
            };
            daemon.recipe_of(request).await;
            let width = daemon.engine.last_recipe().scene.resize.width;
            assert_eq!(width, Some(77), "{} {reference}", endpoint.path);
        }
    }
    daemon.upload("/remove", &[("preset", "p2")]).refused(404, "not_found", Some("preset")).await;
    let changed = json!({ "id": "p1", "name": "shop", "params": { "width": 5 } });
    let changed = daemon.post("/presets").json(&changed).value().await;
    assert_eq!((&changed["id"], &changed["name"]), (&json!(daemon.preset), &json!("shop")));
    let delete = |path, id: Value| daemon.request(KEY, Method::DELETE, path).json(&json!({ "id": id }));
    delete("/presets", json!("p1")).refused(404, "not_found", Some("id")).await;
    let deleted = delete("/presets?id=shop", Value::Null).value().await;
    assert_eq!(deleted, json!({ "deleted": true, "id": daemon.preset }));
}

#[tokio::test]
async fn a_listed_preset_can_be_sent_back() {
    let daemon = Daemon::start().await;
    let save = |preset: &Value| daemon.post("/presets").json(preset);
    let params = json!({ "width": 64, "edge": "HARD", "despill": true, "quality": "50", "watermark_opacity": 0.25,
        "decontaminate": "yes", "height": null, "format": "" });
    let mut saved = save(&json!({ "name": " shop ", "endpoint": "/remove", "params": params })).value().await;
    assert_eq!(saved["name"], "shop");
    let list = daemon.get_as(KEY, "/presets").value().await;
    for record in list["presets"].as_array().expect("a list") {
        assert!(record["created_at"].is_string() && record.as_object().expect("an object").len() == 6);
        let again = save(record).value().await;
        for member in ["id", "name", "endpoint", "params", "created_at"] {
            assert_eq!(again[member], record[member], "{member}");
        }
    }
    let recipe = daemon.recipe_of(daemon.upload("/remove", &[("preset", "shop")])).await;
    let fields = "width=64&edge=hard&despill=true&quality=50&watermark_opacity=0.25&decontaminate=true";
    let sent = daemon.post(&format!("/remove?{fields}")).body("the picture");
    assert_eq!(daemon.recipe_of(sent).await, recipe);
    // Without an id it becomes a new preset.
    (saved["id"], saved["name"]) = (Value::Null, json!("copy"));
    let copied = save(&saved).value().await;
    assert!(copied["id"].as_str().is_some_and(|id| id.starts_with("preset_")) && copied["params"] == saved["params"]);
    for (params, param) in [
        (json!({ "width": [5] }), "width"),
        (json!({ "width": "wide" }), "width"),
        (json!({ "edge": 5 }), "edge"),
        (json!({ "watermark": "http://example.org/w.png" }), "watermark"),
    ] {
        save(&json!({ "name": "bad", "endpoint": "/remove", "params": params })).invalid(param).await;
    }
    let missing = save(&json!({ "name": "", "params": null })).invalid("name").await;
    assert_eq!(missing.message, "`name` is missing");
}

#[tokio::test]
async fn the_watermark_of_a_preset_is_the_same_picture_for_uploads_and_urls() {
    let daemon = Daemon::start().await;
    let json = |path, body: Value| daemon.post(path).json(&body);
    let params = json!({ "watermark": "https://example.org/55", "watermark_opacity": 0.3 });
    assert_eq!(json("/presets", json!({ "name": "marked", "params": params })).answer().await.status(), 200);
    for request in [
        daemon.upload("/remove", &[("preset", "marked")]),
        json("/remove-url", json!({ "url": PHOTO, "preset": "marked" })),
        json("/remove-batch-url", json!({ "urls": [PHOTO], "preset": "marked" })),
    ] {
        daemon.recipe_of(request).await;
        assert_eq!(daemon.engine.last_files().mark.map(|mark| mark.len()), Some(55));
    }
}
