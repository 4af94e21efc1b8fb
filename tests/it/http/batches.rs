//! Batches: each picture has a row of its own, independent of the failures of others.

use crate::http::daemon::{
    Daemon, Exchange, FREE, KEY, MAX_FILE, PAID, Setup, TEST, Work, chunked, file, form, header, number, raw_upload,
    until,
};
use crate::support::pictures;
use backdrop::http::config::HttpConfig;
use backdrop::image::Size;
use backdrop::matting::NoSubject;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

fn urls(daemon: &Daemon, urls: &[&str]) -> RequestBuilder {
    daemon.post("/remove-batch-url").json(&json!({ "urls": urls }))
}

/// Status and JSON of a reply.
async fn reply(request: RequestBuilder) -> (u16, Value) {
    let response = request.answer().await;
    (response.status().as_u16(), response.json().await.expect("JSON"))
}

/// The numbers of rows that succeeded and failed.
fn counts(body: &Value) -> [Option<u64>; 2] {
    [body["succeeded"].as_u64(), body["failed"].as_u64()]
}

fn rows(body: &Value) -> &[Value] {
    body["results"].as_array().expect("rows")
}

fn files(lengths: &[usize]) -> Form {
    let names = (0..).map(|index| format!("photo {index}.jpg"));
    names.zip(lengths).fold(Form::new(), |form, (name, length)| named(form, &name, vec![1; *length]))
}

fn picture(row: &Value) -> Vec<u8> {
    STANDARD.decode(row["data_base64"].as_str().expect("a picture")).expect("base64")
}

#[tokio::test]
async fn rows_keep_their_order_and_a_failed_one_does_not_affect_the_others() {
    let daemon = Daemon::start().await;
    let addresses = [
        "https://example.org/10",
        "https://example.org/nowhere",
        "ftp://example.org/x",
        "https://example.org/text",
        "https://example.org/20",
    ];
    let response = urls(&daemon, &addresses).answer().await;
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-type"), "application/json");
    assert_eq!(header(&response, "x-service-model"), "fgnet-384/1");
    assert!(response.headers().contains_key("x-service-latency"));
    let request_id = header(&response, "x-request-id").to_owned();
    let mut body: Value = response.json().await.expect("JSON");
    let results = body["results"].take();
    let expected = json!({
        "count": 5, "succeeded": 2, "failed": 3, "format": "png", "request_id": request_id, "results": null,
    });
    assert_eq!(body, expected);
    for (index, (status, url)) in [200, 424, 400, 415, 200].into_iter().zip(addresses).enumerate() {
        let row = &results[index];
        assert_eq!((&row["index"], &row["url"], &row["status"]), (&json!(index), &json!(url), &json!(status)));
        assert_eq!((row["success"] == true, row.get("error").is_none()), (status == 200, status == 200), "{row}");
    }
    let message = "the host of the URL has no public address that can be reached";
    assert_eq!(results[1]["error"], json!({ "code": "fetch_failed", "message": message, "reason": "address" }));
    assert_eq!(results[2]["error"]["code"], "invalid_parameter");
    let row = &results[4];
    assert_eq!(picture(row), b"a picture made of 20 bytes");
    for (name, value) in [
        ("format", json!("png")),
        ("width", json!(40)),
        ("height", json!(30)),
        ("size_bytes", json!(26)),
        ("foreground", json!("1,2,20,25")),
        ("box", json!({ "left": 1, "top": 2, "width": 20, "height": 25 })),
        ("file", Value::Null),
        ("warnings", Value::Null),
    ] {
        assert_eq!(row[name], value, "{name}");
    }
    daemon.engine.set(Work::Warn);
    let body = urls(&daemon, &addresses[..1]).value().await;
    assert_eq!(rows(&body)[0]["warnings"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn rows_cost_what_single_pictures_cost_and_failed_ones_nothing() {
    let daemon = Daemon::start().await;
    for key in [KEY, PAID, FREE, TEST] {
        let single = daemon.upload_as(key, "/remove", &[]).answer().await;
        let urls = json!({ "urls": ["https://example.org/5", "https://example.org/no", "https://example.org/6"] });
        let body = daemon.post_as(key, "/remove-batch-url").json(&urls).value().await;
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
async fn a_batch_of_which_nothing_could_be_fetched_is_424_with_its_rows() {
    let daemon = Daemon::start().await;
    let [no, gone, text] = ["https://example.org/no", "https://example.org/gone", "https://example.org/text"];
    let message = "no picture of the batch could be fetched";
    let (status, body) = reply(urls(&daemon, &[no, no])).await;
    assert_eq!((status, counts(&body)), (424, [Some(0), Some(2)]));
    assert_eq!(body["error"], json!({ "code": "fetch_failed", "message": message, "reason": "address" }));
    let (status, body) = reply(urls(&daemon, &[no, gone])).await;
    assert_eq!((status, &body["error"]), (424, &json!({ "code": "fetch_failed", "message": message })));
    assert_eq!([&rows(&body)[0]["error"]["reason"], &rows(&body)[1]["error"]["reason"]], ["address", "status"]);
    let (status, body) = reply(urls(&daemon, &[no]).header("accept", "application/zip")).await;
    assert_eq!((status, &body["error"]["reason"]), (424, &json!("address")));
    assert_eq!(reply(urls(&daemon, &[no, text])).await.0, 200, "one of them was fetched");
}

#[tokio::test]
async fn a_batch_has_1_to_10_pictures_and_its_options_are_validated_first() {
    let daemon = Daemon::start().await;
    let url = "https://example.org/1";
    for (body, param) in [
        (json!({ "urls": [] }), "urls"),
        (json!({ "urls": vec![url; 11] }), "urls"),
        (json!({ "urls": url }), "urls"),
        (json!({ "urls": [5] }), "urls"),
        (json!({ "format": "png" }), "urls"),
        (json!({ "urls": [url], "format": "jpg" }), "format"),
    ] {
        daemon.post("/remove-batch-url").json(&body).invalid(param).await;
    }
    for (form, param) in [
        (Form::new().text("format", "png"), "files"),
        (files(&[1; 11]), "files"),
        (files(&[1]).text("x", "y"), "x"),
        (files(&[1]).text("format", "jpg"), "format"),
    ] {
        daemon.post("/remove-batch").multipart(form).invalid(param).await;
    }
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
    for request in [urls(&daemon, &[url; 10]), daemon.post("/remove-batch").multipart(files(&[1; 10]))] {
        assert_eq!(request.value().await["succeeded"], 10);
    }
}

#[tokio::test]
async fn rows_have_the_names_of_their_files_and_share_the_options() {
    let daemon = Daemon::start().await;
    let form = files(&[11, 0, 33]).text("format", "webp").text("width", "50");
    let (status, body) = reply(daemon.post("/remove-batch").multipart(form)).await;
    let rows = rows(&body);
    assert_eq!((status, &rows[0]["filename"]), (200, &json!("photo 0.jpg")));
    assert_eq!((&rows[0]["success"], &rows[0]["format"]), (&json!(true), &json!("webp")));
    assert_eq!(picture(&rows[2]), b"a picture made of 33 bytes");
    assert!(rows.iter().all(|row| row.get("url").is_none()));
    assert!(daemon.engine.seen().iter().all(|(_, recipe)| recipe.scene.resize.width == Some(50)));
}

#[tokio::test]
async fn a_batch_whose_rows_all_fail_is_still_answered_with_200() {
    let daemon = Daemon::start().await;
    let batch = || daemon.post("/remove-batch").multipart(files(&[5, 6]));
    for (work, error, code) in
        [(Work::Fail(|| NoSubject.into()), 422, "no_subject_detected"), (Work::Panic, 500, "internal_error")]
    {
        daemon.engine.set(work);
        let (status, body) = reply(batch()).await;
        let row = &rows(&body)[0];
        assert_eq!((status, &row["status"], &row["error"]["code"]), (200, &json!(error), &json!(code)));
    }
    assert_eq!(unpacked(batch()).await.len(), 1, "an archive of the rows alone");
}

#[tokio::test]
async fn rows_run_concurrently_and_are_cancelled_with_their_request() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Wait);
    let waiting = tokio::spawn(daemon.post("/remove-batch").multipart(files(&[1; 10])).send());
    until("several rows at once", || daemon.engine.started() >= 2).await;
    let started = daemon.engine.started();
    assert!(started < 10, "all ten at once would be all in memory at once");
    waiting.abort();
    until("the cancellation of the rows", || daemon.engine.cancelled.load(Ordering::SeqCst) >= started).await;
}

#[tokio::test]
async fn rows_wait_for_each_other_where_the_engine_takes_fewer_pictures_than_a_batch_has() {
    for in_flight in [1, 2] {
        let daemon = Daemon::of(Setup { max_requests_in_flight: in_flight, ..Setup::default() }).await;
        daemon.engine.set(Work::Wait);
        let answer = tokio::spawn(daemon.post("/remove-batch").multipart(files(&[1; 10])).send());
        for row in 0..10 {
            until("the work of the next row", || daemon.engine.started() > row).await;
            daemon.engine.release.notify_one();
        }
        let body: Value = answer.await.expect("no panic").expect("an answer").json().await.expect("JSON");
        assert_eq!(counts(&body), [Some(10), Some(0)], "{in_flight} in flight: {body}");
    }
}

#[tokio::test]
async fn a_full_queue_is_429_before_the_body_is_read_and_after_it() {
    let daemon = Daemon::of(Setup { max_requests_in_flight: 1, ..Setup::default() }).await;
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
    let addresses = ["https://example.org/held", "https://example.org/gone", "https://example.org/20"];
    let answer = tokio::spawn(urls(&daemon, &addresses).send());
    until("the fetches", || daemon.fetcher.fetches() == 3).await;
    // In the time of another request the last row would have come to the engine.
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
    let lengths = || daemon.engine.seen().iter().map(|(length, _)| *length).collect::<Vec<_>>();
    assert_eq!(lengths(), [b"the picture".len()]);
    daemon.fetcher.release.notify_one();
    let body: Value = answer.await.expect("no panic").expect("an answer").json().await.expect("JSON");
    assert_eq!(counts(&body), [Some(2), Some(1)], "{body}");
    assert_eq!(lengths().len(), 3);
}

fn named(form: Form, name: &str, bytes: Vec<u8>) -> Form {
    form.part("files", file(bytes).file_name(name.to_owned()))
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
    let (status, body) = reply(daemon.post("/remove-batch").multipart(form)).await;
    let rows = rows(&body);
    assert_eq!((status, counts(&body), rows.len()), (200, [Some(2), Some(3)], 5));
    let message = format!(
        "the file has more than {MAX_FILE} bytes; send a smaller one, or raise `limits.max_bytes` of the server"
    );
    for row in &rows[..3] {
        assert_eq!((&row["success"], &row["status"], &row["cost"]), (&json!(false), &json!(413), &json!(0.0)));
        assert_eq!(row["error"], json!({ "code": "payload_too_large", "message": message }));
    }
    assert_eq!((&rows[0]["filename"], &rows[4]["filename"]), (&json!("a.jpg"), &json!("small.jpg")));
    assert_eq!(picture(&rows[3]), format!("a picture made of {MAX_FILE} bytes").as_bytes());
    assert_eq!(picture(&rows[4]), b"a picture made of 9 bytes");
    assert_eq!(daemon.account(KEY).await["used"], 2);
}

#[tokio::test]
async fn a_body_above_the_sum_of_all_files_is_413_for_the_request() {
    let daemon = Daemon::start().await;
    for part in [file, chunked] {
        let form = Form::new().part("files", part(vec![0; 10 * MAX_FILE + (1 << 20)]));
        daemon.post("/remove-batch").multipart(form).refused(413, "payload_too_large", None).await;
    }
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn files_that_are_no_pictures_within_the_limits_are_failed_rows() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Probe);
    let png = |width, height| pictures::png(Size::new(width, height), |_, _| [9, 9, 9, 255]).to_vec();
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
    let (status, body) = reply(daemon.post("/remove-batch").multipart(form)).await;
    assert_eq!((status, counts(&body)), (200, [Some(2), Some(5)]));
    for (row, (_, status, code)) in rows(&body).iter().zip(&cases) {
        assert_eq!((&row["status"], row["error"]["code"].as_str()), (&json!(status), *code), "{row}");
    }
    assert_eq!(daemon.account(KEY).await["used"], 2);
}

/// The files of an archive, in order.
async fn unpacked(request: RequestBuilder) -> Vec<(String, Vec<u8>)> {
    let response = request.header("accept", "application/zip").answer().await;
    assert_eq!(response.status(), 200);
    for (name, value) in [
        ("content-type", "application/zip"),
        ("content-disposition", "attachment; filename=\"backdrop.zip\""),
        ("x-service-model", "fgnet-384/1"),
    ] {
        assert_eq!(header(&response, name), value);
    }
    let bytes = response.bytes().await.expect("the whole reply");
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("an archive");
    let length = archive.len();
    let unpack = |index| {
        let mut file = archive.by_index(index).expect("an entry");
        assert_eq!(file.compression(), zip::CompressionMethod::Stored);
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut content).expect("the content, with its checksum");
        (file.name().expect("UTF-8").into_owned(), content)
    };
    (0..length).map(unpack).collect()
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
    let (name, document) = files.last().expect("a last file");
    assert_eq!(name, "results.json");
    let document: Value = serde_json::from_slice(document).expect("JSON");
    assert_eq!((&document["count"], counts(&document)), (&json!(4), [Some(3), Some(1)]));
    let rows = rows(&document);
    assert!(rows.iter().all(|row| row.get("data_base64").is_none()));
    let values: Vec<_> = rows.iter().map(|row| (row["status"].as_u64(), row["file"].as_str())).collect();
    let expected = [(200, Some(names[0])), (200, Some(names[1])), (413, None), (200, Some(names[2]))];
    assert_eq!(values, expected.map(|(status, file)| (Some(status), file)));
    assert_eq!((&rows[1]["filename"], &rows[1]["size_bytes"]), (&json!("../PHOTO.png"), &json!(files[1].1.len())));
    assert_eq!((&rows[1]["cost"], &rows[1]["box"]["top"]), (&json!(0.005), &json!(2)));
    assert_eq!(daemon.account(KEY).await["used"], 3);
    let by_url = unpacked(urls(&daemon, &["https://example.org/a/7?b=c/d"])).await;
    assert_eq!(by_url[0].0, "7.png");
}

#[tokio::test]
async fn rows_and_an_archive_larger_than_the_reply_memory_arrive_complete() {
    let config = HttpConfig { max_body_megabytes_in_flight: 16, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 10_000).await;
    let batch = || daemon.post("/remove-batch").multipart(files(&[1; 10]));
    daemon.engine.set(Work::AnswerBytes(1_000_003));
    assert!(rows(&batch().value().await).iter().all(|row| picture(row) == vec![7; 1_000_003]));
    daemon.engine.set(Work::AnswerBytes(5_000_003));
    let files = unpacked(batch()).await;
    assert_eq!(files.len(), 11);
    for (index, (name, content)) in files[..10].iter().enumerate() {
        assert_eq!(*name, format!("photo {index}.png"));
        assert!(content.len() == 5_000_003 && content.iter().all(|byte| *byte == 7), "{name}");
    }
}
