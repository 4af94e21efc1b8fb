//! Batches: each picture has a row of its own, independent of the failures of others.

use crate::http::daemon::{Daemon, FREE, KEY, LONG, PAID, TEST, Work, form, raw_upload, refusal, until};
use backdrop::http::compat::CompatConfig;
use backdrop::http::config::HttpConfig;
use backdrop::matting::NoSubject;
use backdrop::recipe::InferenceMode;
use backdrop::source::FetchConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, RequestBuilder, Response};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Bytes that a file may have.
const MAX_FILE: usize = 10 << 20;

async fn send(daemon: &Daemon, urls: &[&str]) -> Response {
    daemon.post("/remove-batch-url").json(&json!({ "urls": urls })).send().await.expect("an answer")
}

fn files(lengths: &[usize]) -> Form {
    lengths.iter().enumerate().fold(Form::new(), |form, (index, length)| {
        form.part("files", Part::bytes(vec![1; *length]).file_name(format!("photo {index}.jpg")))
    })
}

fn picture(row: &Value) -> Vec<u8> {
    STANDARD.decode(row["data_base64"].as_str().expect("a picture")).expect("base64")
}

#[tokio::test]
async fn rows_keep_their_order_and_a_failed_one_does_not_affect_the_others() {
    let daemon = Daemon::start().await;
    let urls = [
        "https://example.org/10",
        "https://example.org/nowhere",
        "ftp://example.org/x",
        "https://example.org/text",
        "https://example.org/20",
    ];
    let response = send(&daemon, &urls).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["x-service-model"], "fgnet-384/1");
    assert!(response.headers().contains_key("x-service-latency"));
    let request_id = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    let body: Value = response.json().await.expect("JSON");
    assert_eq!((&body["count"], &body["succeeded"], &body["failed"]), (&json!(5), &json!(2), &json!(3)));
    assert_eq!((&body["format"], &body["request_id"]), (&json!("png"), &json!(request_id)));
    let rows = body["results"].as_array().expect("rows");
    let statuses: Vec<_> = rows.iter().map(|row| row["status"].as_u64().expect("a status")).collect();
    assert_eq!(statuses, [200, 424, 400, 415, 200]);
    for (index, (row, url)) in rows.iter().zip(urls).enumerate() {
        assert_eq!((&row["index"], &row["url"]), (&json!(index), &json!(url)));
        assert_eq!(row["success"], row["status"] == 200);
        assert_eq!(row.get("error").is_some(), row["status"] != 200);
    }
    let message = "the host of the URL has no public address that can be reached";
    assert_eq!(rows[1]["error"], json!({ "code": "fetch_failed", "message": message, "reason": "address" }));
    assert_eq!(rows[2]["error"]["code"], "invalid_parameter");
    let made = picture(&rows[4]);
    assert_eq!(made, b"a picture made of 20 bytes");
    let expected = (json!("png"), json!(40), json!(30), json!(made.len()), json!("1,2,20,25"));
    let row = &rows[4];
    let values = (&row["format"], &row["width"], &row["height"], &row["size_bytes"], &row["foreground"]);
    assert_eq!(values, (&expected.0, &expected.1, &expected.2, &expected.3, &expected.4));
    assert_eq!(row["box"], json!({ "left": 1, "top": 2, "width": 20, "height": 25 }));
    assert!(body.get("error").is_none() && row.get("file").is_none());
}

/// The number in a header.
fn number(response: &Response, header: &str) -> f64 {
    response.headers()[header].to_str().expect("ASCII").parse().expect("a number")
}

#[tokio::test]
async fn rows_cost_what_single_pictures_cost_and_failed_ones_nothing() {
    let daemon = Daemon::start().await;
    let request = |key, path| daemon.client.post(daemon.url(path)).bearer_auth(key).timeout(LONG);
    for key in [KEY, PAID, FREE, TEST] {
        let single = request(key, "/remove").multipart(form(&[])).send().await.expect("an answer");
        let urls = json!({ "urls": ["https://example.org/5", "https://example.org/no", "https://example.org/6"] });
        let batch = request(key, "/remove-batch-url").json(&urls).send().await.expect("an answer");
        let body: Value = batch.json().await.expect("JSON");
        let values = |name: &str| [0, 2].map(|row: usize| body["results"][row][name].as_f64().expect("a number"));
        let cost = number(&single, "x-service-cost");
        assert_eq!(values("cost"), [cost; 2], "{key}");
        assert_eq!(values("uncertainty"), [number(&single, "x-service-uncertainty"); 2], "{key}");
        assert_eq!(body["results"][1]["cost"], 0.0, "{key}");
        if key != FREE {
            assert_eq!(cost, if key == TEST { 0.0 } else { 0.005 }, "{key}");
        }
    }
}

#[tokio::test]
async fn a_row_has_its_warnings_and_no_member_without_any() {
    let daemon = Daemon::start().await;
    let row = async || -> Value {
        let body: Value = send(&daemon, &["https://example.org/5"]).await.json().await.expect("JSON");
        body["results"][0].clone()
    };
    assert_eq!(row().await.get("warnings"), None);
    daemon.engine.set(Work::Warn);
    assert_eq!(row().await["warnings"].as_array().expect("a list").len(), 2);
}

#[tokio::test]
async fn rows_billed_under_the_same_idempotency_key_cost_nothing() {
    let daemon = Daemon::start().await;
    let costs = async |urls: &Value| {
        // The same name for the same addresses.
        let request =
            daemon.post("/remove-batch-url").header("idempotency-key", urls.to_string().len().to_string()).json(urls);
        let body: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        let rows = body["results"].as_array().expect("rows").clone();
        rows.iter().map(|row| row["cost"].as_f64().expect("a number")).collect::<Vec<_>>()
    };
    let urls = json!({ "urls": ["https://example.org/10", "https://example.org/later"] });
    assert_eq!(costs(&urls).await, [0.005, 0.0]);
    daemon.wait_until_used(KEY, 1).await;
    assert_eq!(costs(&urls).await, [0.0, 0.0], "one was billed, one failed again");
    assert_eq!(daemon.account(KEY).await["used"], 1);
    let urls = json!({ "urls": ["https://example.org/10"] });
    assert_eq!(costs(&urls).await, [0.005]);
    daemon.wait_until_used(KEY, 2).await;
    assert_eq!(costs(&urls).await, [0.0], "all of it was billed");
}

#[tokio::test]
async fn a_batch_of_which_nothing_could_be_fetched_is_424_with_its_rows() {
    let daemon = Daemon::start().await;
    let response = send(&daemon, &["https://example.org/no", "https://example.org/none"]).await;
    assert_eq!(response.status(), 424);
    let body: Value = response.json().await.expect("JSON");
    assert_eq!((&body["succeeded"], &body["failed"]), (&json!(0), &json!(2)));
    assert_eq!(body["results"][1]["error"]["code"], "fetch_failed");
    let message = "no picture of the batch could be fetched";
    assert_eq!(body["error"], json!({ "code": "fetch_failed", "message": message, "reason": "address" }));
    let several = send(&daemon, &["https://example.org/no", "https://example.org/gone"]).await;
    assert_eq!(several.status(), 424);
    let body: Value = several.json().await.expect("JSON");
    assert_eq!(body["error"], json!({ "code": "fetch_failed", "message": message }), "the rows have two reasons");
    assert_eq!(body["results"][1]["error"]["reason"], "status");
    let archived = daemon.post("/remove-batch-url").header("accept", "application/zip");
    let archived = archived.json(&json!({ "urls": ["https://example.org/no"] })).send().await.expect("an answer");
    assert_eq!(archived.status(), 424);
    assert_eq!(archived.headers()["content-type"], "application/json");
    assert_eq!(archived.json::<Value>().await.expect("JSON")["error"]["reason"], "address");
    let mixed = send(&daemon, &["https://example.org/no", "https://example.org/text"]).await;
    assert_eq!(mixed.status(), 200, "one of them was fetched");
}

#[tokio::test]
async fn a_batch_has_1_to_10_pictures_and_its_options_are_validated_first() {
    let daemon = Daemon::start().await;
    let ten = vec!["https://example.org/1"; 10];
    assert_eq!(send(&daemon, &ten).await.status(), 200);
    let fetches = daemon.fetcher.fetches();
    for urls in [json!([]), json!(vec!["https://example.org/1"; 11]), json!("https://example.org/1"), json!([5])] {
        let response = daemon.post("/remove-batch-url").json(&json!({ "urls": urls })).send().await;
        refusal(response.expect("an answer")).await.is(400, "invalid_parameter", Some("urls"));
    }
    let missing = daemon.post("/remove-batch-url").json(&json!({ "format": "png" })).send().await;
    refusal(missing.expect("an answer")).await.is(400, "invalid_parameter", Some("urls"));
    let wrong = json!({ "urls": ["https://example.org/1"], "format": "jpg" });
    let wrong = daemon.post("/remove-batch-url").json(&wrong).send().await.expect("an answer");
    refusal(wrong).await.is(400, "invalid_parameter", Some("format"));
    assert_eq!(daemon.fetcher.fetches(), fetches);
}

#[tokio::test]
async fn rows_have_the_names_of_their_files_and_share_the_options() {
    let daemon = Daemon::start().await;
    let form = files(&[11, 0, 33]).text("format", "webp").text("width", "50");
    let response = daemon.post("/remove-batch").multipart(form).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let body: Value = response.json().await.expect("JSON");
    let rows = body["results"].as_array().expect("rows");
    assert_eq!(rows[0]["filename"], "photo 0.jpg");
    assert_eq!((&rows[0]["success"], &rows[0]["format"]), (&json!(true), &json!("webp")));
    assert_eq!(picture(&rows[2]), b"a picture made of 33 bytes");
    assert!(rows.iter().all(|row| row.get("url").is_none()));
    let seen = daemon.engine.seen.lock().expect("no panic inside");
    assert!(seen.iter().all(|(_, recipe)| recipe.scene.resize.width == Some(50)));
}

#[tokio::test]
async fn a_batch_without_files_and_one_with_an_eleventh_are_refused() {
    let daemon = Daemon::start().await;
    for (form, param) in
        [(Form::new().text("format", "png"), "files"), (files(&[1; 11]), "files"), (files(&[1]).text("x", "y"), "x")]
    {
        let response = daemon.post("/remove-batch").multipart(form).send().await.expect("an answer");
        refusal(response).await.is(400, "invalid_parameter", Some(param));
    }
    assert_eq!(daemon.engine.started(), 0);
    let response = daemon.post("/remove-batch").multipart(files(&[1; 10])).send().await.expect("an answer");
    assert_eq!(response.json::<Value>().await.expect("JSON")["succeeded"], 10);
}

#[tokio::test]
async fn a_batch_whose_rows_all_fail_is_still_answered_with_200() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    let response = daemon.post("/remove-batch").multipart(files(&[5, 6])).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let body: Value = response.json().await.expect("JSON");
    assert_eq!(body["results"][0]["error"]["code"], "no_subject_detected");
    daemon.engine.set(Work::Panic);
    let response = daemon.post("/remove-batch").multipart(files(&[5])).send().await.expect("an answer");
    let body: Value = response.json().await.expect("JSON");
    assert_eq!(
        (&body["results"][0]["status"], &body["results"][0]["error"]["code"]),
        (&json!(500), &json!("internal_error"))
    );
}

#[tokio::test]
async fn large_pictures_in_rows_arrive_complete() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::AnswerBytes(1_000_003));
    let response = daemon.post("/remove-batch").multipart(files(&[5, 6, 7])).send().await.expect("an answer");
    let body: Value = response.json().await.expect("JSON");
    for row in body["results"].as_array().expect("rows") {
        assert_eq!(picture(row), vec![7; 1_000_003]);
    }
}

#[tokio::test]
async fn rows_run_concurrently_and_are_cancelled_with_their_request() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Wait);
    let request = daemon.client.post(daemon.url("/remove-batch")).bearer_auth(KEY).timeout(LONG);
    let waiting = tokio::spawn(request.multipart(files(&[1; 10])).send());
    until("several rows at once", || daemon.engine.started() >= 2).await;
    let started = daemon.engine.started();
    assert!(started < 10, "all ten at once would be all in memory at once");
    waiting.abort();
    until("the cancellation of the rows", || daemon.engine.cancelled.load(Ordering::SeqCst) >= started).await;
}

#[tokio::test]
async fn rows_wait_for_each_other_where_the_engine_takes_fewer_pictures_than_a_batch_has() {
    for in_flight in [1, 2] {
        let fetch = FetchConfig::default();
        let (compat, model, config) = (CompatConfig::default(), InferenceMode::Standard, HttpConfig::default());
        let daemon = Daemon::start_with_places(in_flight, compat, model, &fetch, None, config, 10_000).await;
        daemon.engine.set(Work::Wait);
        let answer = tokio::spawn(daemon.post("/remove-batch").multipart(files(&[1; 10])).send());
        for row in 0..10 {
            until("the work of the next row", || daemon.engine.started() > row).await;
            daemon.engine.release.notify_one();
        }
        let body: Value = answer.await.expect("no panic").expect("an answer").json().await.expect("JSON");
        assert_eq!((&body["succeeded"], &body["failed"]), (&json!(10), &json!(0)), "{in_flight} in flight: {body}");
    }
}

#[tokio::test]
async fn a_full_queue_is_429_before_the_body_is_read_and_after_it() {
    let (compat, model, config) = (CompatConfig::default(), InferenceMode::Standard, HttpConfig::default());
    let fetch = FetchConfig::default();
    let daemon = Daemon::start_with_places(1, compat, model, &fetch, None, config, 10_000).await;
    daemon.engine.set(Work::Wait);
    // A request whose body is on its way when the queue fills.
    let (head, body) = raw_upload(b"the picture");
    let mut early = daemon.connect().await;
    early.write(format!("{head}\r\n")).await;
    let accepted = tokio::spawn(daemon.post("/remove").multipart(form(&[])).send());
    until("the work of the first picture", || daemon.engine.started() == 1).await;
    early.write(body).await;
    let reply = early.reply().await.expect("a refusal after the body");
    assert!(reply.starts_with("HTTP/1.1 429 ") && reply.contains("retry-after: 1"), "{reply}");

    let (head, body) = raw_upload(&vec![0; 8 << 20]);
    for path in ["/remove", "/remove-batch", "/v1.0/removebg"] {
        let mut connection = daemon.connect().await;
        connection.write(format!("{}\r\n", head.replace("/remove", path))).await;
        let reply = connection.reply().await.expect("a refusal, though no body was sent");
        assert!(reply.starts_with("HTTP/1.1 429 ") && reply.contains("retry-after: 1"), "{path}: {reply}");
        // The whole body is still taken, so that no reset destroys the reply of a client that sends it first.
        connection.write(body.clone()).await;
    }
    daemon.engine.release.notify_one();
    assert_eq!(accepted.await.expect("no panic").expect("an answer").status(), 200);
}

#[tokio::test]
async fn a_row_that_fails_early_lets_no_later_one_into_the_engine_before_the_earlier_ones() {
    let daemon = Daemon::start().await;
    let urls = json!({ "urls": ["https://example.org/held", "https://example.org/gone", "https://example.org/20"] });
    let answer = tokio::spawn(daemon.post("/remove-batch-url").json(&urls).send());
    until("the fetches", || daemon.fetcher.fetches() == 3).await;
    // In the time of another request the last row would have come to the engine.
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
    let lengths = || -> Vec<_> {
        let seen = daemon.engine.seen.lock().expect("no panic inside");
        seen.iter().map(|(length, _)| *length).collect()
    };
    assert_eq!(lengths(), [b"the picture".len()]);
    daemon.fetcher.release.notify_one();
    let body: Value = answer.await.expect("no panic").expect("an answer").json().await.expect("JSON");
    assert_eq!((&body["succeeded"], &body["failed"]), (&json!(2), &json!(1)), "{body}");
    assert_eq!(lengths().len(), 3);
}

fn named(form: Form, name: &'static str, bytes: Vec<u8>) -> Form {
    form.part("files", Part::bytes(bytes).file_name(name))
}

#[tokio::test]
async fn files_above_the_limit_are_413_rows_and_reserve_no_memory() {
    // Room for one file of the largest size, and not for two.
    let config = HttpConfig { max_body_megabytes_in_flight: 32, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 10_000).await;
    let mut form = Form::new();
    for name in ["a.jpg", "b.jpg", "c.jpg"] {
        form = named(form, name, vec![b'\r'; MAX_FILE + 1 + 3_000_000]);
    }
    let form = named(named(form, "largest.jpg", vec![1; MAX_FILE]), "small.jpg", vec![1; 9]).text("width", "50");
    let response = daemon.post("/remove-batch").multipart(form).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let body: Value = response.json().await.expect("JSON");
    let rows = body["results"].as_array().expect("rows");
    assert_eq!((&body["succeeded"], &body["failed"], rows.len()), (&json!(2), &json!(3), 5));
    for row in &rows[..3] {
        assert_eq!((&row["success"], &row["status"], &row["cost"]), (&json!(false), &json!(413), &json!(0.0)));
        let message = format!(
            "the file has more than {MAX_FILE} bytes; send a smaller one, or raise `limits.max_bytes` of the server"
        );
        assert_eq!(row["error"], json!({ "code": "payload_too_large", "message": message }));
    }
    assert_eq!((&rows[0]["filename"], &rows[4]["filename"]), (&json!("a.jpg"), &json!("small.jpg")));
    assert_eq!(picture(&rows[3]), format!("a picture made of {MAX_FILE} bytes").as_bytes());
    assert_eq!(picture(&rows[4]), b"a picture made of 9 bytes");
    daemon.wait_until_used(KEY, 2).await;
}

#[tokio::test]
async fn a_body_above_the_sum_of_all_files_is_413_for_the_request() {
    let daemon = Daemon::start().await;
    let length = 10 * MAX_FILE + (1 << 20);
    // The length is announced.
    let whole = Part::bytes(vec![0; length]).file_name("a.jpg");
    let announced = daemon.post("/remove-batch").multipart(Form::new().part("files", whole));
    refusal(announced.send().await.expect("an answer")).await.is(413, "payload_too_large", None);
    // The same without a content-length: chunked.
    let piece = vec![0; 1 << 16];
    let pieces = (0..length / piece.len() + 1).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
    let part = Part::stream(Body::wrap_stream(futures_util::stream::iter(pieces))).file_name("a.jpg");
    let chunked = daemon.post("/remove-batch").multipart(Form::new().part("files", part));
    refusal(chunked.send().await.expect("an answer")).await.is(413, "payload_too_large", None);
    assert_eq!(daemon.engine.started(), 0);
}

/// A grey PNG.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&vec![9; width as usize * height as usize]).expect("pixels");
    writer.finish().expect("an end");
    file
}

#[tokio::test]
async fn files_that_are_no_pictures_within_the_limits_are_failed_rows() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Probe);
    let cases = [
        (png(30, 20), 200, None),
        (Vec::new(), 400, Some("invalid_image")),
        (b"a letter, not a picture".to_vec(), 415, Some("unsupported_media_type")),
        (png(30, 20)[..40].to_vec(), 400, Some("invalid_image")),
        (png(4097, 1), 413, Some("payload_too_large")),
        (png(1, 4097), 413, Some("payload_too_large")),
        (png(4096, 1), 200, None),
    ];
    let form = cases.iter().fold(Form::new(), |form, (bytes, ..)| named(form, "x.jpg", bytes.clone()));
    let response = daemon.post("/remove-batch").multipart(form).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let body: Value = response.json().await.expect("JSON");
    assert_eq!((&body["succeeded"], &body["failed"]), (&json!(2), &json!(5)));
    for (row, (_, status, code)) in body["results"].as_array().expect("rows").iter().zip(&cases) {
        assert_eq!((&row["status"], row["error"]["code"].as_str()), (&json!(status), *code), "{row}");
    }
    daemon.wait_until_used(KEY, 2).await;
}

/// The files of an archive, in order.
async fn unpacked(request: RequestBuilder) -> Vec<(String, Vec<u8>)> {
    let response = request.header("accept", "application/zip").send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/zip");
    assert_eq!(response.headers()["content-disposition"], "attachment; filename=\"backdrop.zip\"");
    assert_eq!(response.headers()["x-service-model"], "fgnet-384/1");
    let bytes = response.bytes().await.expect("the whole reply");
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("an archive");
    let mut unpacked = Vec::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).expect("an entry");
        assert_eq!(file.compression(), zip::CompressionMethod::Stored);
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut content).expect("the content, with its checksum");
        unpacked.push((file.name().expect("UTF-8").into_owned(), content));
    }
    unpacked
}

fn rows_of(files: &[(String, Vec<u8>)]) -> Value {
    let (name, document) = files.last().expect("a last file");
    assert_eq!(name, "results.json");
    serde_json::from_slice(document).expect("JSON")
}

#[tokio::test]
async fn an_archive_has_the_pictures_as_files_and_the_rows_in_results_json() {
    let daemon = Daemon::start().await;
    let form = [("photo.jpg", 11), ("../PHOTO.png", 12), ("too large.jpg", MAX_FILE + 1), ("..", 13)]
        .into_iter()
        .fold(Form::new(), |form, (name, length)| named(form, name, vec![1; length]));
    let form = form.text("format", "webp");
    let files = unpacked(daemon.post("/remove-batch").multipart(form)).await;
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["photo.webp", "PHOTO-2.webp", "picture-4.webp", "results.json"]);
    for (length, (_, content)) in [11, 12, 13].iter().zip(&files) {
        assert_eq!(content, format!("a picture made of {length} bytes").as_bytes());
    }
    let document = rows_of(&files);
    assert_eq!((&document["count"], &document["succeeded"], &document["failed"]), (&json!(4), &json!(3), &json!(1)));
    let rows = document["results"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row.get("data_base64").is_none()));
    let values: Vec<_> = rows.iter().map(|row| (row["status"].as_u64(), row["file"].as_str())).collect();
    let expected = [(200, Some(names[0])), (200, Some(names[1])), (413, None), (200, Some(names[2]))];
    assert_eq!(values, expected.map(|(status, file)| (Some(status), file)));
    assert_eq!((&rows[1]["filename"], &rows[1]["size_bytes"]), (&json!("../PHOTO.png"), &json!(files[1].1.len())));
    assert_eq!((&rows[1]["cost"], &rows[1]["box"]["top"]), (&json!(0.005), &json!(2)));
    daemon.wait_until_used(KEY, 3).await;
}

#[tokio::test]
async fn files_of_an_archive_are_named_after_their_urls_and_failures_leave_none() {
    let daemon = Daemon::start().await;
    let urls = json!({ "urls": ["https://example.org/a/7?b=c/d", "https://example.org/no", "https://example.org/7"] });
    let files = unpacked(daemon.post("/remove-batch-url").json(&urls)).await;
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["7.png", "7-2.png", "results.json"]);
    assert_eq!(rows_of(&files)["results"][1]["error"]["code"], "fetch_failed");
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    let files = unpacked(daemon.post("/remove-batch-url").json(&urls)).await;
    assert_eq!((files.len(), &rows_of(&files)["succeeded"]), (1, &json!(0)));
}

#[tokio::test]
async fn an_archive_larger_than_the_reply_memory_arrives_complete() {
    let config = HttpConfig { max_body_megabytes_in_flight: 16, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 10_000).await;
    daemon.engine.set(Work::AnswerBytes(5_000_003));
    let files = unpacked(daemon.post("/remove-batch").multipart(files(&[1; 10]))).await;
    assert_eq!(files.len(), 11);
    for (index, (name, content)) in files[..10].iter().enumerate() {
        assert_eq!(*name, format!("photo {index}.png"));
        assert!(content.len() == 5_000_003 && content.iter().all(|byte| *byte == 7), "{name}");
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_json_unless_zip_is_preferred() {
    let daemon = Daemon::start().await;
    for accept in ["*/*", "application/json", "application/zip, */*", "image/png"] {
        let request = daemon.post("/remove-batch").header("accept", accept).multipart(files(&[5]));
        let response = request.send().await.expect("an answer");
        assert_eq!(response.headers()["content-type"], "application/json", "{accept}");
        assert!(!response.headers().contains_key("content-disposition"), "{accept}");
        assert_eq!(picture(&response.json::<Value>().await.expect("JSON")["results"][0]), b"a picture made of 5 bytes");
    }
    let wrong = daemon.post("/remove-batch").header("accept", "application/zip");
    let wrong = wrong.multipart(files(&[5]).text("format", "jpg")).send().await.expect("an answer");
    refusal(wrong).await.is(400, "invalid_parameter", Some("format"));
}
