//! The long tests of `make nightly`: fuzzing of the decoders, a daemon under load, the largest pictures.
//!
//! Ignored by default; each has a target of its own in the Makefile. The first two run for `BACKDROP_TEST_MINUTES`.

#![cfg(target_os = "linux")]

use crate::codec::support::{fixture, names};
use crate::daemon::memory::{KEY, Running, enlarged, enlarged_to, largest};
use crate::support::command::{backdrop, photo, stderr};
use crate::support::hang_guard::within_a_minute;
use crate::support::pictures::encoded;
use backdrop::codec::{self, Limits};
use backdrop::image::{BufferPool, OutputFormat, Size};
use bytes::Bytes;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::multipart::{Form, Part};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The limits of a request, with a smaller side so that a mutant is cheap.
const LIMITS: Limits = Limits { max_bytes: 10 << 20, max_side: 1024, max_megapixels: 17 };

/// The end of the test.
#[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
fn deadline() -> Instant {
    let minutes = std::env::var("BACKDROP_TEST_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    Instant::now() + Duration::from_secs(60 * minutes)
}

/// A fixture with a few bytes flipped, replaced, removed, repeated or taken from another one.
fn mutant(seeds: &[Vec<u8>], dice: &mut StdRng) -> Vec<u8> {
    let mut bytes = seeds[dice.random_range(0..seeds.len())].clone();
    for _ in 0..dice.random_range(1..8) {
        let at = dice.random_range(0..bytes.len());
        let end = bytes.len().min(at + dice.random_range(1..64));
        match dice.random_range(0..6) {
            0 => bytes[at] ^= 1 << dice.random_range(0..8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.random_range(0..5)],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => bytes[at..end].fill(dice.random()),
            _ => {
                let other = &seeds[dice.random_range(0..seeds.len())];
                let from = dice.random_range(0..other.len());
                let piece = other[from..other.len().min(from + 64)].to_vec();
                bytes.splice(at..end, piece);
            }
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

#[test]
#[ignore = "for minutes: make fuzz"]
fn mutated_pictures_never_crash_or_hang_the_decoders() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let extensions: &[&str] =
        if cfg!(feature = "heic") { &[".jpg", ".png", ".webp", ".heic"] } else { &[".jpg", ".png", ".webp"] };
    let seeds: Vec<Vec<u8>> =
        extensions.iter().flat_map(|extension| names(extension)).map(|name| fixture(&name)).collect();
    let end = deadline();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut tried, mut decoded) = (0_u64, 0_u64);
    while Instant::now() < end {
        let bytes = mutant(&seeds, &mut dice);
        tried += 1;
        // Kept if the process crashes.
        let kept = folder.path().join("mutant");
        fs::write(&kept, &bytes).expect("a temporary file");
        let Ok(header) = codec::probe(&bytes, &LIMITS) else { continue };
        let size = header.size;
        if let Ok(frame) = within_a_minute("a mutant", move || codec::decode(&bytes, &header, &BufferPool::new(0))) {
            assert_eq!(frame.size(), size);
            decoded += 1;
        }
    }
    println!("{tried} mutants, {decoded} of them decoded");
    assert!(decoded > 0, "every mutant was refused by its header: no decoder was tested");
}

#[tokio::test]
#[ignore = "for minutes: make soak"]
async fn memory_and_descriptors_of_a_loaded_daemon_are_stable() {
    let running = Running::start();
    let files: Vec<Bytes> = ["astronaut.jpg", "chelsea.png", "coffee.jpg"]
        .map(|name| fs::read(photo(name)).expect("a bundled photo").into())
        .into_iter()
        .chain([largest(), Bytes::from_static(b"not a picture")])
        .collect();
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", running.daemon.0.id())).expect("it runs").count();
    // Rounds of a minute; the first creates threads and scratch memory, which are kept.
    let end = deadline();
    let mut rest = Vec::new();
    while rest.len() < 3 || Instant::now() < end {
        let round = Instant::now() + Duration::from_secs(60).min(end.saturating_duration_since(Instant::now()) / 3);
        let client = async |client: usize| {
            for turn in client.. {
                if Instant::now() >= round && turn > client + 8 {
                    break;
                }
                let which = if turn % 20 == 7 {
                    3
                } else if turn % 20 == 13 {
                    4
                } else {
                    turn % 3
                };
                let status = running.remove(files[which].clone()).await;
                assert!(matches!((which, status), (4, 415) | (_, 429 | 503) | (0..=3, 200)), "file {which}: {status}");
            }
        };
        join_all((0..8).map(client)).await;
        rest.push((running.at_rest().await, descriptors()));
        println!("at rest: {:?} (MB, descriptors)", rest.last());
    }
    let (first, last) = (rest[1], rest[rest.len() - 1]);
    assert!(last.0 <= first.0 + 60, "memory at rest grew from {} to {} MB", first.0, last.0);
    assert!(last.1 <= first.1 + 8, "descriptors at rest grew from {} to {}", first.1, last.1);
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
