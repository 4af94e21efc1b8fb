//! `backdrop pipe`: frames of requests and replies, refusals, damaged frames, the end of the input.

use crate::support::command::{backdrop, fed, photo, stderr};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Output, Stdio};

/// A request with the picture `file`, if there is one, and another file.
fn request(id: u64, endpoint: &str, fields: &[(&str, &str)], files: &[(&str, &[u8])]) -> Vec<u8> {
    let lens: Vec<_> = files.iter().map(|(name, file)| (name, file.len())).collect();
    let head = json!({"id": id, "endpoint": endpoint, "fields": fields, "files": lens}).to_string();
    let len = u32::try_from(head.len()).unwrap().to_le_bytes();
    let files: Vec<&[u8]> = files.iter().map(|(_, file)| *file).collect();
    [&len, head.as_bytes(), &files.concat()].concat()
}

/// Sends `input` to its end.
fn run(input: &[u8]) -> Output {
    fed(backdrop().args(["pipe", "--jobs", "2"]), input)
}

/// The replies by id: head and body.
fn replies(mut output: &[u8]) -> BTreeMap<u64, (Value, Vec<u8>)> {
    let mut replies = BTreeMap::new();
    while let Some((len, rest)) = output.split_first_chunk() {
        let (head, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
        let head: Value = serde_json::from_slice(head).unwrap();
        let (body, rest) = rest.split_at(head["length"].as_u64().unwrap().try_into().unwrap());
        replies.insert(head["id"].as_u64().unwrap(), (head, body.to_vec()));
        output = rest;
    }
    replies
}

#[test]
fn requests_are_answered_with_what_the_api_says_and_the_command_line_makes() {
    let (cup, cat) = (fs::read(photo("coffee.jpg")).unwrap(), fs::read(photo("chelsea.png")).unwrap());
    let small = ("max_dim", "64");
    let output = run(&[
        request(7, "remove", &[small], &[("file", &cup)]),
        request(8, "replace-bg", &[small], &[("file", &cup), ("bg_file", &cat)]),
        request(9, "remove", &[("egde", "hard")], &[("file", &cup)]),
        request(10, "remove", &[("edge", "wavy")], &[("file", &cup)]),
        request(11, "remove", &[], &[("file", b"no picture")]),
        request(12, "remove", &[], &[]),
        request(13, "retouch", &[], &[("file", &cup)]),
        request(14, "remove", &[("preset", "shop")], &[("file", &cup)]),
        request(15, "remove", &[("segmentation_model", "nonsense")], &[("file", &cup)]),
        request(16, "replace-bg-ai", &[("prompt", "a beach"), ("model", "famB-image-2.6")], &[("file", &cup)]),
        request(17, "replace-bg", &[("bg_url", "https://localhost/x.png")], &[("file", &cup)]),
        request(18, "upscale", &[small], &[("file", &cup), ("mask_file", &cat)]),
        request(19, "studio-shot", &[("width", "40"), ("height", "30"), ("bg_color", "white")], &[("file", &cup)]),
    ]
    .concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let replies = replies(&output.stdout);
    assert_eq!(replies.keys().copied().collect::<Vec<_>>(), (7..20).collect::<Vec<_>>());

    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("cup.png");
    let mut remove = backdrop();
    remove.arg("remove").arg(photo("coffee.jpg")).arg("-o").arg(&made).args(["--set", "max_dim=64"]);
    assert_eq!(remove.status().unwrap().code(), Some(0));
    assert!(replies[&7].1 == fs::read(made).unwrap(), "not the picture of `remove`");
    let headers: Vec<(String, String)> = serde_json::from_value(replies[&7].0["headers"].clone()).unwrap();
    let headers: BTreeMap<_, _> = headers.into_iter().collect();
    assert_eq!((&*headers["content-type"], &*headers["x-service-width"]), ("image/png", "64"));
    assert!(
        headers.contains_key("x-service-foreground") && headers["server-timing"].contains("segment;dur="),
        "{headers:?}"
    );
    for id in [8, 19] {
        assert!(replies[&id].0["status"] == 200 && replies[&id].1.starts_with(b"\xff\xd8\xff"), "{}", replies[&id].0);
    }
    for (id, status, code, message) in [
        (9, 400, "invalid_parameter", "unknown field `egde`; did you mean `edge`?"),
        (10, 400, "invalid_parameter", "invalid `edge`: \"wavy\" (expected soft, hard or auto)"),
        (11, 415, "unsupported_media_type", ""),
        (12, 400, "invalid_parameter", "`file` is missing"),
        (13, 400, "invalid_endpoint", "there is no endpoint `retouch`"),
        (14, 400, "invalid_parameter", "`preset` is not taken here: presets are stored by a daemon"),
        (15, 400, "invalid_parameter", "unknown model"),
        (16, 403, "forbidden", "model famB-image-2.6: only a daemon calls image APIs"),
        (17, 424, "fetch_failed", "cannot fetch bg_url https://localhost/x.png"),
        (18, 400, "invalid_parameter", "`mask_file` is not taken here"),
    ] {
        let (head, body) = &replies[&id];
        let error: Value = serde_json::from_slice::<Value>(body).unwrap()["error"].take();
        assert_eq!((&head["status"], &error["code"]), (&status.into(), &code.into()), "{id}: {error}");
        assert!(error["message"].as_str().unwrap().starts_with(message), "{id}: {error}");
    }
}

#[test]
fn a_damaged_frame_ends_the_process_with_a_message() {
    let cut_off = request(1, "remove", &[], &[("file", b"a picture")]);
    for (input, message) in [
        (&b"\xff\xff\xff\xffnonsense"[..], "more than 1048576"),
        (b"\x08\0\0\0nonsense", "the head of a request: expected"),
        (b"\x02\0\0\0{}", "missing field"),
        (&cut_off[..cut_off.len() - 1], "standard input ended within a file"),
    ] {
        let output = run(input);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(output.stdout.is_empty() && stderr(&output).contains(message), "{message}: {}", stderr(&output));
    }
    let output = run(b"");
    assert!(output.status.success() && output.stdout.is_empty());
}

#[test]
fn a_configuration_that_cannot_run_ends_the_process_with_a_message() {
    let output = backdrop().args(["pipe", "--model", "nonsense"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("unknown model nonsense"), "{}", stderr(&output));
}
