//! Multipart forms: values of every field, malformed bodies, limits of size and memory.

use crate::http::daemon::{
    Daemon, Exchange, KEY, PAID, TEST, file, form, raw_upload, refusal, refused_during_upload, until,
};
use backdrop::http::config::HttpConfig;
use backdrop::recipe::{ENDPOINTS, Kind};
use reqwest::multipart::{Form, Part};

/// Valid and invalid values of a kind of field.
fn cases(kind: Kind) -> (Vec<String>, Vec<String>) {
    let wrong = ["fuzzy!", "1.5.1", "-1", "null", "NaN", "inf"].map(str::to_owned);
    match kind {
        Kind::Choice(words) => {
            let spellings =
                words.iter().flat_map(|word| [(*word).to_owned(), word.to_uppercase(), format!(" {word} ")]);
            (spellings.collect(), wrong.into())
        }
        Kind::Integer { min, max } => {
            let beyond = [(i64::from(min) - 1).to_string(), (u64::from(max) + 1).to_string(), format!("{min}.5")];
            let good =
                vec![min.to_string(), max.to_string(), format!("{max}.0"), format!("+{max}"), format!(" {max}\t")];
            (good, wrong.into_iter().chain(beyond).collect())
        }
        Kind::IntegerChoice(numbers) => {
            let beyond = (0..=9).filter(|number| !numbers.contains(number)).map(|number| number.to_string());
            (numbers.iter().map(u32::to_string).collect(), wrong.into_iter().chain(beyond).collect())
        }
        Kind::Number { min, max } => {
            let beyond = [(min - 0.001).to_string(), (max + 0.001).to_string()];
            let good = vec![min.to_string(), max.to_string(), format!("+{max}"), ".25".into(), "5e-1".into()];
            (good, wrong.into_iter().chain(beyond).collect())
        }
        Kind::Boolean => {
            let good = ["true", "True", "yes", "on", "1", "false", "FALSE", "No", "off", "0"];
            (good.map(str::to_owned).into(), wrong.into())
        }
        Kind::Text(form) | Kind::List(form) => {
            let too_long = "x".repeat(form.max_length as usize + 1);
            (form.examples.iter().map(|text| (*text).to_owned()).collect(), vec![too_long])
        }
        Kind::AnyOf(kinds) => {
            let good = kinds.iter().flat_map(|kind| cases(*kind).0).collect();
            (good, wrong.into_iter().chain(["101".to_owned().repeat(4), "50%%".to_owned()]).collect())
        }
    }
}

/// Further fields that a field requires.
fn required_companions(path: &str, field: &str, value: &str) -> Vec<(&'static str, &'static str)> {
    match (path, field, value) {
        // Not opaque: a format with alpha is required_fields.
        ("/studio-shot" | "/headshot", "bg_color", _) => vec![("format", "png")],
        ("/shadow", "format", format) if is(format, "jpg") => vec![("bg_color", "white")],
        ("/replace-bg-ai", field, _) if field != "prompt" => vec![("prompt", "a beach")],
        _ => Vec::new(),
    }
}

/// Whether `value` is `word` in any spelling.
fn is(value: &str, word: &str) -> bool {
    value.trim().eq_ignore_ascii_case(word)
}

/// Values that the field's kind allows and the endpoint refuses.
fn is_refused_by_the_endpoint(path: &str, field: &str, value: &str) -> bool {
    let is_no = ["false", "no", "off", "0"].iter().any(|word| is(value, word));
    match (path, field) {
        ("/smart-crop", "despill") => !is_no,
        // Nothing is cut out there.
        ("/upscale" | "/face-restore", "detect") => is(value, "high_recall"),
        ("/upscale" | "/face-restore", "engine" | "segmentation_model" | "box" | "point" | "not_point") => true,
        ("/upscale" | "/face-restore", "decontaminate" | "despill") => !is_no,
        ("/upscale" | "/face-restore", "keep_alpha") => is_no,
        ("/sticker", "stroke_color") => matches!(value, "#FFFFFF80" | "transparent"),
        // None is configured.
        ("/replace-bg-ai", "model") => !is(value, "auto"),
        // No preset has that id.
        (_, "preset") => true,
        // The fake fetcher answers numbers only.
        (_, "watermark" | "bg_url" | "mask_url") => value.starts_with("https"),
        // No mask is sent.
        (_, "mask_mode") => true,
        _ => false,
    }
}

#[tokio::test]
async fn every_field_accepts_its_range_and_refuses_one_step_beyond_by_name() {
    let daemon = Daemon::start().await;
    let mut checked = 0;
    for endpoint in ENDPOINTS.iter().filter(|endpoint| !endpoint.input.is_url() && endpoint.input.is_single()) {
        for field in &endpoint.fields {
            let (good, bad) = cases(field.kind);
            for value in good.iter().map(String::as_str).chain(field.default) {
                if is_refused_by_the_endpoint(endpoint.path, field.name, value) {
                    continue;
                }
                let mut fields = required_companions(endpoint.path, field.name, value);
                fields.push((field.name, value));
                let response = daemon.send(endpoint.path, &fields).await;
                assert_eq!(response.status(), 200, "{} {}={value:?}", endpoint.path, field.name);
            }
            let started = daemon.engine.started();
            // Larger values are clamped.
            let is_clamped = |value: &str| field.name == "max_dim" && value == "8193";
            for value in bad.into_iter().filter(|value| !is_clamped(value)) {
                let refusal = daemon.upload(endpoint.path, &[(field.name, &value)]).invalid(field.name).await;
                let begin = format!("invalid `{}`: ", field.name);
                assert!(refusal.message.starts_with(&begin), "{}", refusal.message);
                assert!(refusal.message.contains(&field.kind.expected()), "{}", refusal.message);
                checked += 1;
            }
            assert_eq!(daemon.engine.started(), started, "work began in spite of a bad {}", field.name);
        }
    }
    assert_eq!(daemon.fetcher.fetches(), 0, "something was fetched for a request that was refused");
    assert!(checked > 600, "{checked}");
}

#[tokio::test]
async fn repeated_misplaced_and_unreadable_fields_are_refused_by_name() {
    let daemon = Daemon::start().await;
    let post = |path, form| daemon.post(path).multipart(form);
    let again = || file(b"again".to_vec());
    for (request, param) in [
        (daemon.upload("/remove", &[("edge", "soft"), ("edge", "soft")]), "edge"),
        (post("/remove", form(&[]).part("file", again())), "file"),
        (post("/remove", form(&[]).part("photo", again())), "photo"),
        (post("/remove?edge=soft&x=1", form(&[])), "edge"),
        (post("/remove?edge=soft", form(&[("edge", "soft")])), "edge"),
        (daemon.upload("/mask", &[("channels", "rgba")]), "channels"),
        (post("/remove", form(&[]).part("edge", Part::bytes(vec![0xff, 0xfe]))), "edge"),
    ] {
        request.invalid(param).await;
    }
    let misplaced = post("/remove-batch?edge=soft", Form::new().part("files", again())).invalid("edge").await;
    assert!(misplaced.message.contains("form fields"), "{}", misplaced.message);
    let long = daemon.upload("/remove", &[("edge", &"x".repeat(5000))]).invalid("edge").await;
    assert!(long.message.len() < 300, "{}", long.message);
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_body_of_another_type_is_415_and_a_malformed_one_400() {
    let daemon = Daemon::start().await;
    let of_type = |kind: &str, body: &'static str| daemon.post("/remove").header("content-type", kind).body(body);
    for request in [
        of_type("text/plain", "{}"),
        of_type("multipart/mixed; boundary=B", "{}"),
        daemon.upload("/remove", &[]).header("content-encoding", "gzip"),
    ] {
        request.refused(415, "unsupported_media_type", None).await;
    }
    for (boundary, body) in [
        ("", "--B\r\n"),
        ("; boundary=B", ""),
        ("; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ncut off"),
    ] {
        let request = of_type(&format!("multipart/form-data{boundary}"), body);
        let refused = request.refused(400, "invalid_parameter", None).await;
        assert!(refused.message.starts_with("malformed multipart body"), "{}", refused.message);
    }
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_client_that_sends_everything_before_it_reads_still_gets_the_413() {
    let daemon = Daemon::start().await;
    let (head, body) = raw_upload(&vec![0; 40 << 20]);
    let mut connection = daemon.connect().await;
    connection.write(head + "\r\n").await;
    connection.write(body).await;
    let reply = connection.reply().await.expect("the 413");
    assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
    assert!(reply.contains("payload_too_large"), "{reply}");
    connection.write("GET /docs HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let next = connection.reply().await.expect("the connection can be used again");
    assert!(next.starts_with("HTTP/1.1 200 "), "{next}");
}

#[tokio::test]
async fn expect_100_continue_is_answered_with_100() {
    let daemon = Daemon::start().await;
    let (head, body) = raw_upload(b"the picture");
    let mut connection = daemon.connect().await;
    connection.write(format!("{head}expect: 100-continue\r\n\r\n")).await;
    assert_eq!(connection.reply().await.expect("100").trim_end(), "HTTP/1.1 100 Continue");
    connection.write(body).await;
    let reply = connection.reply().await.expect("the picture");
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
}

#[tokio::test]
async fn a_request_with_a_wrong_key_is_refused_before_its_body() {
    let daemon = Daemon::start().await;
    for expect in ["", "expect: 100-continue\r\n"] {
        let (head, _) = raw_upload(&[0; 100_000]);
        let mut connection = daemon.connect().await;
        connection.write(format!("{}{expect}\r\n", head.replace(KEY, "bd_live_bad"))).await;
        let reply = connection.reply().await.expect("the 401, though no body was sent");
        assert!(reply.starts_with("HTTP/1.1 401 "), "{reply}");
    }
}

fn large_form(length: usize) -> Form {
    Form::new().part("file", file(vec![0; length]))
}

#[tokio::test]
async fn fetches_from_a_slow_origin_reserve_no_memory_of_other_accounts() {
    let config = HttpConfig { max_body_megabytes_in_flight: 16, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 1000).await;
    let urls = serde_json::json!({ "urls": vec!["https://example.org/never"; 10] });
    let slow = || tokio::spawn(daemon.post_as(TEST, "/remove-batch-url").json(&urls).send());
    let slow: Vec<_> = (0..7).map(|_| slow()).collect();
    until("a fetch to begin", || daemon.fetcher.fetches() > 0).await;
    let other = daemon.post_as(PAID, "/remove").multipart(large_form(9 << 20));
    assert_eq!(other.answer().await.status(), 200);
    for batch in slow {
        batch.abort();
    }
}

#[tokio::test]
async fn uploads_of_one_account_leave_memory_for_other_accounts() {
    let config = HttpConfig { max_body_megabytes_in_flight: 32, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 1000).await;
    // Three times 5.2 MB are less than the 16 MB of uploads, and more than two thirds of these.
    let (head, body) = raw_upload(&vec![0; 5_200_000]);
    let most = &body[..body.len() - 20];
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut connection = daemon.connect().await;
        connection.write(format!("{head}\r\n")).await;
        connection.write(most).await;
        slow.push(connection);
    }
    let refused = futures_util::future::select_all(slow.iter_mut().map(|slow| Box::pin(slow.reply()))).await.0;
    let refused = refused.expect("one of them is refused before its end");
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    let other = daemon.post_as(PAID, "/remove").multipart(large_form(5 << 20));
    assert_eq!(other.answer().await.status(), 200);
}

#[tokio::test]
async fn uploads_beyond_the_upload_memory_are_429_until_others_finish() {
    let config = HttpConfig { max_body_megabytes_in_flight: 16, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 1000).await;
    let (head, body) = raw_upload(&vec![0; 9 << 20]);
    let upload = async || daemon.post("/remove").multipart(large_form(9 << 20)).answer().await;
    let refused = refusal(refused_during_upload(&daemon, &(head + "\r\n"), &body, upload).await).await;
    refused.is(429, "rate_limit_exceeded", None);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(upload().await.status(), 200);
}
