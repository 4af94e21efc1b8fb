//! The long tests of `make nightly` on the largest pictures, and the end of timed tests.
//!
//! Ignored by default; each has a target in the Makefile.

#![cfg(target_os = "linux")]

use crate::daemon::memory::{KEY, Running, enlarged, enlarged_to, largest};
use crate::support::command::{backdrop, stderr};
use crate::support::pictures::encoded;
use backdrop::codec::{self, Limits};
use backdrop::image::{BufferPool, OutputFormat, Size};
use reqwest::multipart::{Form, Part};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The end of a test that runs for `BACKDROP_TEST_MINUTES`.
#[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
pub(crate) fn deadline() -> Instant {
    let minutes = std::env::var("BACKDROP_TEST_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    Instant::now() + Duration::from_secs(60 * minutes)
}

#[tokio::test]
#[ignore = "for minutes: make large-pictures"]
async fn every_endpoint_accepts_the_largest_pictures() {
    let running = Running::start();
    let encoded = |format| encoded(enlarged(), format, 80);
    let files = [("JPEG", largest()), ("PNG", encoded(OutputFormat::Png)), ("WebP", encoded(OutputFormat::WebP))];
    let base = running.url.trim_end_matches("/remove").to_owned();
    let endpoints: [(&str, &[(&str, &str)]); 12] = [
        ("/remove", &[]),
        ("/remove", &[("engine", "product-v1")]),
        ("/remove", &[("detect", "high_recall"), ("decontaminate", "true"), ("despill", "true")]),
        ("/mask", &[]),
        ("/replace-bg", &[("bg_color", "red")]),
        ("/studio-shot", &[]),
        ("/studio-shot", &[("bg_blur", "100")]),
        ("/smart-crop", &[]),
        ("/headshot", &[]),
        ("/shadow", &[]),
        ("/sticker", &[]),
        ("/upscale", &[("scale", "2")]),
    ];
    for (format, file) in files {
        for (path, fields) in endpoints {
            let part = Part::stream(file.clone());
            let form = fields.iter().fold(Form::new().part("file", part), |form, (name, value)| {
                form.text((*name).to_owned(), (*value).to_owned())
            });
            let began = Instant::now();
            let request = running.client.post(format!("{base}{path}")).bearer_auth(KEY).multipart(form);
            let answer = request.send().await.expect("an answer");
            let status = answer.status().as_u16();
            let bytes = answer.bytes().await.expect("the whole answer");
            println!("{format} {path} {fields:?}: {status}, {} bytes, {:.1?}", bytes.len(), began.elapsed());
            // A PNG may exceed 10 MB; an upscaled crop may exceed 8192 px.
            assert!(matches!(status, 200 | 413), "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(500)]));
            if status == 413 {
                assert!(format == "PNG" || path == "/upscale", "{format} {path}");
            }
        }
    }
}

/// Results of a large picture: file name, further arguments, and the most MB of memory. The network takes about 230 MB, a
/// pixel 9 bytes, and 16 while libwebp encodes it lossily.
const LARGE: &[(&str, &[&str], u64)] = &[
    ("cutout.png", &[], 1400),
    (
        "product.png",
        &["--set", "engine=product-v1", "--set", "detect=high_recall", "--set", "decontaminate=true"],
        1500,
    ),
    ("cutout.webp", &[], 2100),
];

/// The peak memory of a process in MB; `None` after its end.
fn peak(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    kilobytes.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes / 1000)
}

/// Runs `backdrop remove`; returns its peak memory in MB.
fn peak_of_cutting(input: &Path, output: &Path, more: &[&str]) -> u64 {
    let mut command = backdrop();
    command.args(["remove", "--force", "--jobs", "1", "-o"]).args([output, input]).args(more);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut most = 0;
    // The kernel keeps the maximum; the last value read is the peak.
    while child.try_wait().expect("its state").is_none() {
        most = peak(child.id()).unwrap_or(most).max(most);
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = child.wait_with_output().expect("its state");
    assert!(ended.status.success(), "{more:?}: {}", stderr(&ended));
    most
}

#[test]
#[ignore = "for minutes: make large-pictures"]
fn a_photo_of_100_megapixels_is_cut_out_in_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("photo.jpg");
    let size = Size::new(11_648, 8736);
    fs::write(&input, encoded(enlarged_to(size), OutputFormat::Jpeg, 95)).expect("written");
    // The decoded picture alone is 407 MB.
    for (name, more, bound) in LARGE {
        let output = folder.path().join(name);
        let began = Instant::now();
        let most = peak_of_cutting(&input, &output, more);
        println!("{name} {more:?}: {most} MB, {:.1?}", began.elapsed());
        assert!(most <= *bound, "{name} {more:?} took {most} MB, of {bound}");
        let bytes = fs::read(&output).expect("a result");
        let header = codec::probe(&bytes, &Limits { max_bytes: usize::MAX, ..Limits::LOCAL }).expect("a picture");
        assert_eq!(header.size, size, "{name} {more:?}");
        let frame = codec::decode(&bytes, &header, &BufferPool::new(0)).expect("a whole picture");
        let alpha = |share: (u32, u32)| frame.pixel(size.width * share.0 / 100, size.height * share.1 / 100)[3];
        assert_eq!((alpha((50, 50)), alpha((1, 1))), (255, 0), "the cat and the corner above it");
    }
}
