//! The daemon's memory: idle; peak of the largest pictures, batches and clips; release afterwards.

#![cfg(target_os = "linux")]

use crate::cli::serve::Daemon;
pub(crate) use crate::cli::serve::KEY;
use crate::codec::hostile::metadata_bombs;
use crate::support::command::{http_client, photo};
use crate::support::pictures::{decoded, encoded};
use backdrop::image::{Buffer, Frame, OutputFormat, Size};
use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::multipart::{Form, Part};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A daemon with a client.
pub(crate) struct Running {
    pub(crate) daemon: Daemon,
    pub(crate) client: reqwest::Client,
    /// Of `/remove`.
    pub(crate) url: String,
    _folder: tempfile::TempDir,
}

impl Running {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = [("BACKDROP_BOOTSTRAP_KEY", KEY), ("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000")];
        let mut daemon = Daemon::start_with(folder.path(), &settings);
        let url = format!("http://{}/remove", daemon.address());
        Self { daemon, client: http_client().build().expect("a client"), url, _folder: folder }
    }

    /// One that has processed a picture and is at rest, and its memory then.
    async fn idle() -> (Self, u64) {
        let running = Self::start();
        assert_eq!(running.remove(fs::read(photo("chelsea.png")).unwrap().into()).await, 200);
        let memory = running.at_rest().await;
        (running, memory)
    }

    /// Sends a batch and discards its rows as they arrive; returns the number of successes.
    async fn batch(&self, files: Vec<Bytes>) -> usize {
        let form = files
            .into_iter()
            .fold(Form::new().text("matting", "none"), |form, file| form.part("files", Part::stream(file)));
        let url = format!("{}-batch", self.url);
        // A batch takes longer than a picture.
        let request = self.client.post(url).bearer_auth(KEY).multipart(form).timeout(Duration::from_secs(600));
        let mut response = request.send().await.expect("a response");
        assert_eq!(response.status(), 200);
        let (mut rows, mut tail) = (0, Vec::new());
        while let Some(piece) = response.chunk().await.expect("the next piece") {
            tail.extend_from_slice(&piece);
            const MARK: &[u8] = b"\"data_base64\"";
            rows += tail.windows(MARK.len()).filter(|part| *part == MARK).count();
            // Less than a mark is kept, so that each is counted once.
            tail.drain(..tail.len().saturating_sub(MARK.len() - 1));
        }
        rows
    }

    pub(crate) async fn remove(&self, file: Bytes) -> u16 {
        let form = Form::new().part("file", Part::stream(file));
        let response = self.client.post(&self.url).bearer_auth(KEY).multipart(form).send().await.expect("a response");
        let status = response.status().as_u16();
        let body = response.bytes().await.expect("the whole response");
        assert_eq!(status == 200, body.starts_with(b"\x89PNG"), "{status}");
        status
    }

    /// A line of the process's status, in MB: `VmRSS`, `RssAnon`, or `VmHWM` for its peak.
    fn memory(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.0.id())).unwrap();
        let kilobytes = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).unwrap();
        kilobytes.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1000
    }

    /// Resets the peak.
    fn reset_peak(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.daemon.0.id()), "5").unwrap();
    }

    /// Its memory after it has been idle for longer than it keeps buffers.
    pub(crate) async fn at_rest(&self) -> u64 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        self.memory("VmRSS")
    }
}

/// A bundled photo, enlarged to 4096×4096.
pub(crate) fn largest() -> Bytes {
    encoded(enlarged(), OutputFormat::Jpeg, 80)
}

/// The pixels of [`largest`].
pub(crate) fn enlarged() -> Frame {
    enlarged_to(Size::new(4096, 4096))
}

/// A bundled photo, stretched to `size`.
pub(crate) fn enlarged_to(size: Size) -> Frame {
    let small = decoded(&fs::read(photo("chelsea.png")).unwrap());
    let from = small.size();
    let pixels = (0..size.height)
        .flat_map(|y| (0..size.width).map(move |x| (x * from.width / size.width, y * from.height / size.height)))
        .flat_map(|(x, y)| small.pixel(x, y))
        .collect::<Vec<u8>>();
    Frame::new(size, Buffer::from(pixels))
}

#[tokio::test]
async fn the_idle_daemon_takes_less_than_90_mb_beside_its_program() {
    let (running, all) = Running::idle().await;
    let anonymous = running.memory("RssAnon");
    println!("idle: {all} MB, {anonymous} MB of them anonymous");
    assert!(anonymous < 90, "{anonymous} MB of anonymous memory, {all} MB in all");
}

#[tokio::test]
async fn the_largest_photo_takes_less_than_700_mb_above_the_idle_daemon() {
    let (running, idle) = Running::idle().await;
    assert_eq!(running.remove(largest()).await, 200);
    let peak = running.memory("VmHWM");
    println!("one of 4096×4096: {idle} MB idle, {peak} MB at the peak");
    assert!(peak < idle + 700, "{peak} MB at the peak, {idle} MB idle");
    // The picture alone is 67 MB: a lower peak would be a measuring error.
    assert!(peak > idle + 67, "{peak} MB at the peak, {idle} MB idle");
}

#[tokio::test]
async fn a_batch_of_the_largest_photos_does_not_accumulate_its_results() {
    let (running, idle) = Running::idle().await;
    let file = largest();
    let uploaded = 10 * file.len() as u64 / 1_000_000;
    assert_eq!(running.batch(vec![file; 10]).await, 10);
    let peak = running.memory("VmHWM");
    // Ten decoded pictures are 670 MB, ten results in base64 beside that more than 200.
    assert!(peak < idle + uploaded + 800, "{peak} MB at the peak, {idle} MB idle, {uploaded} MB uploaded");
}

#[tokio::test]
async fn compression_bombs_in_a_png_take_no_memory() {
    const INFLATED: usize = 150_000_000;
    let running = Running::start();
    let plain = fs::read(photo("chelsea.png")).unwrap();
    // The first picture creates what is kept.
    assert_eq!(running.remove(plain.clone().into()).await, 200);
    running.reset_peak();
    assert_eq!(running.remove(plain.clone().into()).await, 200);
    let usual = running.memory("VmHWM");
    for bomb in metadata_bombs(&plain, INFLATED) {
        running.reset_peak();
        assert_eq!(running.remove(bomb.into()).await, 200);
        let peak = running.memory("VmHWM");
        assert!(peak < usual + 75, "{peak} MB at the peak, {usual} MB without a bomb");
    }
}

#[tokio::test]
async fn a_clip_of_199_mb_is_stored_on_disk_and_not_in_memory() {
    const MEGABYTE: usize = 1 << 20;
    let (running, idle) = Running::idle().await;
    running.reset_peak();
    let zeros = Bytes::from(vec![0; MEGABYTE]);
    let pieces = std::iter::repeat_n(zeros, 199_000_000 / MEGABYTE).map(Ok::<_, std::io::Error>);
    let part = Part::stream(reqwest::Body::wrap_stream(futures_util::stream::iter(pieces)));
    let url = running.url.replace("/remove", "/video/remove");
    let request = running.client.post(url).bearer_auth(KEY).multipart(Form::new().part("file", part));
    let response = request.send().await.expect("a response");
    let (status, body) = (response.status().as_u16(), response.text().await.expect("text"));
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("invalid_image"), "it was received whole and is no clip: {body}");
    let peak = running.memory("VmHWM");
    assert!(peak < idle + 64, "{peak} MB at the peak, {idle} MB idle");
}

#[tokio::test]
async fn two_hundred_requests_are_all_answered_and_release_their_memory() {
    let running = Arc::new(Running::start());
    let mut files: Vec<Bytes> =
        ["astronaut.jpg", "chelsea.png", "coffee.jpg"].map(|name| fs::read(photo(name)).unwrap().into()).to_vec();
    files.extend([largest(), Bytes::from_static(b"not a picture")]);
    let round = async |requests: usize| {
        let next = AtomicUsize::new(0);
        let worker = async || {
            let mut statuses = Vec::new();
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= requests {
                    return statuses;
                }
                // One in twenty is large, one in twenty is no picture.
                let which = match turn % 20 {
                    7 => 3,
                    13 => 4,
                    other => other % 3,
                };
                let status = running.remove(files[which].clone()).await;
                statuses.push((which, status));
            }
        };
        join_all((0..16).map(|_| worker())).await.concat()
    };
    // The first round creates the threads and their scratch memory, which are kept.
    round(40).await;
    let before = running.at_rest().await;
    running.reset_peak();
    let answered = round(200).await;
    assert_eq!(answered.len(), 200);
    for (which, status) in answered {
        assert!(matches!((which, status), (4, 415) | (_, 429) | (0..=3, 200)), "file {which}: {status}");
    }
    let peak = running.memory("VmHWM");
    let after = running.at_rest().await;
    println!("two hundred: {before} MB before, {peak} MB at the peak, {after} MB after");
    assert!(after.abs_diff(before) <= 50, "{before} MB before, {after} MB after");
}
