//! Limits of pictures: the configured ones of the daemon, and the larger ones of the command line.

#![cfg(target_os = "linux")]

use crate::cli::serve::Running;
use crate::daemon::memory::enlarged_to;
use crate::support::command::{backdrop, stderr};
use crate::support::pictures::encoded;
use backdrop::codec::{self, Limits};
use backdrop::image::{Buffer, Frame, OutputFormat, Size};
use bytes::Bytes;
use reqwest::multipart::{Form, Part};
use std::fs;

/// A grey picture, as a small file.
fn grey(width: u32, height: u32) -> Bytes {
    let size = Size::new(width, height);
    encoded(Frame::new(size, Buffer::from([128, 128, 128, 255].repeat(size.area()))), OutputFormat::Png, 80)
}

#[tokio::test]
async fn the_daemon_applies_the_configured_limits_and_names_them_in_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        ("BACKDROP_LIMITS_MAX_BYTES", "12000000"),
        ("BACKDROP_LIMITS_MAX_SIDE", "5000"),
        ("BACKDROP_LIMITS_MAX_MEGAPIXELS", "6"),
    ];
    let running = Running::start(folder.path(), &settings);
    let remove = async |file: Bytes| {
        let form = Form::new().part("file", Part::stream(file));
        let response = running.post("/remove").multipart(form).send().await.expect("a response");
        (response.status().as_u16(), response.bytes().await.expect("all of it"))
    };
    for (file, message) in [
        (
            grey(5001, 1),
            "the picture is 5001×1, more than 5000×5000 pixels; send a smaller one, or raise `limits.max_side` of the server",
        ),
        (
            grey(3000, 2001),
            "the picture is 3000×2001, more than 6 megapixels; send a smaller one, or raise `limits.max_megapixels` of the server",
        ),
        (
            vec![0; 12_000_001].into(),
            "the file has more than 12000000 bytes; send a smaller one, or raise `limits.max_bytes` of the server",
        ),
    ] {
        let (status, body) = remove(file).await;
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let error = &body["error"];
        assert_eq!((status, &error["code"], &error["message"]), (413, &"payload_too_large".into(), &message.into()));
    }
    let (status, _) = remove(vec![0; 11_000_000].into()).await;
    assert_eq!(status, 415, "more bytes than by default, though no picture");
    let size = Size::new(4500, 1200);
    let (status, body) = remove(encoded(enlarged_to(size), OutputFormat::Jpeg, 80)).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body[..body.len().min(500)]));
    let header = codec::probe(&body, &Limits::LOCAL).expect("a picture");
    assert_eq!(header.size, size);
}

#[test]
fn the_command_line_accepts_larger_pictures_and_keeps_their_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let [from, to, bulk] = ["in", "out", "bulk"].map(|name| folder.path().join(name));
    fs::create_dir(&from).expect("a new folder");
    // Longer than HTTP allows for pictures and results.
    let size = Size::new(8300, 600);
    fs::write(from.join("large.jpg"), encoded(enlarged_to(size), OutputFormat::Jpeg, 80)).expect("written");
    fs::write(from.join("wide.png"), grey(16_385, 1)).expect("written");
    let removed = backdrop().arg("remove").arg(&from).arg("-o").arg(&to).output().expect("it runs");
    assert_eq!(removed.status.code(), Some(1), "{}", stderr(&removed));
    let printed = stderr(&removed);
    assert!(printed.contains("the picture is 16385×1, more than 16384×16384 pixels"), "{printed}");
    let locations = [&from, &bulk].map(|path| format!("file://{}", path.display()));
    let report = folder.path().join("report.jsonl");
    let bulk_run = backdrop().arg("bulk").args(locations).arg("--report").arg(report).output().expect("it runs");
    assert_eq!(bulk_run.status.code(), Some(1), "{}", stderr(&bulk_run));
    for made in [to.join("large.png"), bulk.join("large.png")] {
        let bytes = fs::read(&made).expect("a result");
        assert_eq!(codec::probe(&bytes, &Limits::LOCAL).expect("a picture").size, size, "{}", made.display());
        assert!(codec::probe(&bytes, &Limits::default()).is_err(), "the result is within the limits of HTTP");
    }
}
