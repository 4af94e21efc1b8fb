//! A daemon under mixed load from 16 clients that is killed and started again, and a checker beside it (`make soak`).
//!
//! Clients send pictures to every endpoint, hostile ones, presets and questions; they disconnect, send slowly, and repeat what
//! was not answered under the same `Idempotency-Key`. The checker counts: every acknowledged picture is billed once, every
//! acknowledged preset is stored, no answer is unplanned, and the last daemon's memory and descriptors do not grow.

#![cfg(target_os = "linux")]

use crate::cli::serve::Daemon;
use crate::daemon::memory::KEY;
use crate::nightly::deadline;
use crate::support::command::{http_client, photo};
use crate::support::pictures::png;
use backdrop::image::Size;
use bytes::Bytes;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::multipart::{Form, Part};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

const CLIENTS: usize = 16;
/// A daemon lives for as long, in the first half of the time. The last one is not killed.
const LIFE: Duration = Duration::from_secs(20);
/// Requests before memory is compared: they create threads and scratch memory, which are kept.
const WARM_UP: usize = 300;
/// Bytes by which memory may grow with each request, and beside that: the allocator's noise between two moments.
const GROWTH: f64 = 1000.0;
const NOISE: f64 = 48e6;

/// Endpoints with fields of a request each.
const ENDPOINTS: [(&str, &[(&str, &str)]); 11] = [
    ("/remove", &[]),
    ("/remove", &[("edge", "hard"), ("despill", "true"), ("format", "webp")]),
    ("/remove", &[("detect", "high_recall"), ("decontaminate", "true")]),
    ("/mask", &[]),
    ("/replace-bg", &[("bg_color", "red"), ("format", "jpg")]),
    ("/studio-shot", &[("shadow", "true")]),
    ("/smart-crop", &[("aspect", "4:5")]),
    ("/headshot", &[("restore_face", "false")]),
    ("/shadow", &[("angle", "45")]),
    ("/sticker", &[]),
    ("/upscale", &[("scale", "2")]),
];

/// What the clients and the checker share.
struct Soak {
    client: Client,
    /// Of the daemon that runs now.
    url: RwLock<String>,
    /// Good pictures, then those that have to be refused.
    pictures: Vec<Bytes>,
    hostile: Vec<Bytes>,
    checked: Mutex<Checked>,
}

/// What was answered.
#[derive(Default)]
struct Checked {
    /// Distinct pictures that were acknowledged.
    pictures: u64,
    presets: BTreeSet<String>,
    statuses: BTreeMap<u16, u64>,
    unplanned: Vec<String>,
    /// Of acknowledged pictures, in milliseconds.
    latencies: Vec<u64>,
    lost_connections: u64,
}

impl Soak {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url.read().expect("no panic"))
    }

    fn checked(&self) -> std::sync::MutexGuard<'_, Checked> {
        self.checked.lock().expect("no panic")
    }

    /// Sends one request; its status and body, or nothing where the connection was lost.
    async fn send(&self, request: RequestBuilder) -> Option<(u16, Bytes)> {
        let sent = async {
            let response = request.bearer_auth(KEY).send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.bytes().await?))
        };
        let outcome = sent.await.ok();
        let mut checked = self.checked();
        match &outcome {
            Some((status, _)) => *checked.statuses.entry(*status).or_default() += 1,
            None => checked.lost_connections += 1,
        }
        outcome
    }

    fn picture(&self, path: &str, fields: &[(&str, &str)], file: Bytes) -> RequestBuilder {
        let part = Part::stream(file);
        let form = fields.iter().fold(Form::new().part("file", part), |form, (name, value)| {
            form.text((*name).to_owned(), (*value).to_owned())
        });
        self.client.post(self.url(path)).multipart(form)
    }

    /// Sends a request until it has one of the `planned` statuses; the others that are planned are 429 and lost connections,
    /// after which it is sent again.
    async fn until_answered(
        &self,
        what: &str,
        planned: &[u16],
        request: impl Fn() -> RequestBuilder,
    ) -> Option<(u16, Bytes)> {
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            match self.send(request()).await {
                Some((status, body)) if planned.contains(&status) => return Some((status, body)),
                Some((429, _)) | None => tokio::time::sleep(Duration::from_millis(200)).await,
                Some((status, body)) => {
                    let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
                    self.checked().unplanned.push(format!("{what}: {status} {text}"));
                    return None;
                }
            }
        }
        self.checked().unplanned.push(format!("{what}: no answer in two minutes"));
        None
    }

    async fn client(&self, number: usize, until: Instant) {
        let mut dice = StdRng::seed_from_u64(number as u64);
        for turn in 0.. {
            if Instant::now() >= until {
                return;
            }
            let name = format!("{number}-{turn}");
            match dice.random_range(0..20) {
                0..=11 => self.cut_out(&name, &mut dice).await,
                12 | 13 => {
                    let file = self.hostile[dice.random_range(0..self.hostile.len())].clone();
                    self.until_answered("a hostile picture", &[400, 413, 415, 422], || {
                        self.picture("/remove", &[], file.clone())
                    })
                    .await;
                }
                14 => self.send_slowly(&mut dice).await,
                15 | 16 => {
                    // An account has a thousand presets at most.
                    let name = format!("{number}-{}", turn % 40);
                    let body = json!({ "name": name, "endpoint": "/remove", "params": { "format": "webp" } });
                    let saved = self
                        .until_answered("a preset", &[200, 409], || self.client.post(self.url("/presets")).json(&body));
                    // 409: it is stored, by an earlier turn or an attempt whose answer was lost.
                    if saved.await.is_some() {
                        self.checked().presets.insert(name);
                    }
                }
                17 => {
                    self.until_answered("an estimate", &[200], || {
                        self.client.post(self.url("/estimate")).json(&json!({ "endpoint": "/remove" }))
                    })
                    .await;
                }
                _ => {
                    let path = ["/account", "/usage", "/jobs", "/presets"][dice.random_range(0..4)];
                    self.until_answered(path, &[200], || self.client.get(self.url(path))).await;
                }
            }
        }
    }

    /// Has a picture cut out under its own key, at times after a disconnect, and counts it.
    async fn cut_out(&self, name: &str, dice: &mut StdRng) {
        let (path, fields) = ENDPOINTS[dice.random_range(0..ENDPOINTS.len())];
        let file = self.pictures[dice.random_range(0..self.pictures.len())].clone();
        let request = || self.picture(path, fields, file.clone()).header("idempotency-key", name);
        if dice.random_ratio(1, 8) {
            let pause = Duration::from_millis(dice.random_range(1..300));
            // What the daemon had done by then is billed once at most, with what follows.
            drop(tokio::time::timeout(pause, self.send(request())).await);
        }
        let began = Instant::now();
        if let Some((_, body)) = self.until_answered(path, &[200], request).await {
            assert!(!body.is_empty());
            let mut checked = self.checked();
            checked.pictures += 1;
            checked.latencies.push(began.elapsed().as_millis() as u64);
        }
    }

    /// Sends the beginning of a request and then waits.
    async fn send_slowly(&self, dice: &mut StdRng) {
        let address = self.url("").replace("http://", "");
        let Ok(mut stream) = tokio::net::TcpStream::connect(address).await else { return };
        let head = b"POST /remove HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nAuthorization: Bearer ";
        drop(stream.write_all(&head[..dice.random_range(1..head.len())]).await);
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..1500))).await;
    }
}

fn start(folder: &Path) -> (Daemon, String) {
    let settings =
        [("BACKDROP_BOOTSTRAP_KEY", KEY), ("BACKDROP_DEVICE", "cpu"), ("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000")];
    let mut daemon = Daemon::start_with(folder, &settings);
    let url = format!("http://{}", daemon.address());
    (daemon, url)
}

/// Bytes of memory, and the number of descriptors.
fn resources(daemon: &Daemon) -> (f64, usize) {
    let process = format!("/proc/{}", daemon.0.id());
    let status = fs::read_to_string(format!("{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    (kilobytes * 1024.0, fs::read_dir(format!("{process}/fd")).expect("it runs").count())
}

/// The slope of the line of least squares through points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let [x, y] = [0, 1].map(|axis| points.iter().map(|point| [point.0, point.1][axis]).sum::<f64>() / count);
    let [above, below] = points
        .iter()
        .fold([0.0; 2], |[above, below], point| [above + (point.0 - x) * (point.1 - y), below + (point.0 - x).powi(2)]);
    if below > 0.0 { above / below } else { 0.0 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "for minutes: make soak"]
async fn a_daemon_under_mixed_load_that_is_killed_loses_and_leaks_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = |name: &str| Bytes::from(fs::read(photo(name)).expect("a bundled photo"));
    let cutout = png(Size::new(64, 64), |x, _| [200, 90, 30, if x < 32 { 255 } else { 0 }]);
    let (jpeg, png_file) = (small("coffee.jpg"), small("chelsea.png"));
    let (mut daemon, url) = start(folder.path());
    let soak = Soak {
        client: http_client().timeout(Duration::from_secs(100)).build().expect("a client"),
        url: RwLock::new(url),
        hostile: vec![
            Bytes::from_static(b"not a picture"),
            jpeg.slice(..jpeg.len() / 2),
            png_file.slice(..png_file.len() - 20),
            Bytes::from_static(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\x06\0\0\0"),
        ],
        pictures: vec![jpeg, png_file, cutout.clone(), cutout],
        checked: Mutex::default(),
    };
    let (began, end) = (Instant::now(), deadline());
    let half = began + (end - began) / 2;
    let (mut kills, mut samples) = (0, Vec::new());
    let supervisor = async {
        while Instant::now() + LIFE < half {
            tokio::time::sleep(LIFE).await;
            daemon.0.kill().expect("it runs");
            daemon.0.wait().expect("it ends");
            let url;
            (daemon, url) = start(folder.path());
            *soak.url.write().expect("no panic") = url;
            kills += 1;
        }
        let first = soak.checked().statuses.values().sum::<u64>() as usize;
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let requests = soak.checked().statuses.values().sum::<u64>() as usize - first;
            if requests >= WARM_UP {
                let (memory, descriptors) = resources(&daemon);
                samples.push((requests as f64, memory, descriptors));
            }
        }
    };
    let clients = join_all((0..CLIENTS).map(|number| soak.client(number, end)));
    tokio::join!(supervisor, clients);

    // What is stored and billed, by the daemon and after one more start.
    daemon.0.kill().expect("it runs");
    daemon.0.wait().expect("it ends");
    let (_daemon, url) = start(folder.path());
    *soak.url.write().expect("no panic") = url;
    let account = soak.send(soak.client.get(soak.url("/account"))).await.expect("an answer").1;
    let used = serde_json::from_slice::<Value>(&account).expect("JSON")["used"].as_u64().expect("a number");
    let mut stored = BTreeSet::new();
    let mut path = "/presets".to_owned();
    loop {
        let page = soak.send(soak.client.get(soak.url(&path))).await.expect("an answer").1;
        let page: Value = serde_json::from_slice(&page).expect("JSON");
        let names = page["presets"].as_array().expect("a list").iter();
        stored.extend(names.map(|preset| preset["name"].as_str().expect("a name").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/presets?cursor={cursor}");
    }
    let mut checked = soak.checked();
    checked.latencies.sort_unstable();
    let percentile = |share: usize| checked.latencies.get(checked.latencies.len() * share / 100).copied().unwrap_or(0);
    let growth = slope(&samples.iter().map(|(at, memory, _)| (*at, *memory)).collect::<Vec<_>>());
    let descriptors = samples.iter().map(|sample| sample.2).max().unwrap_or(0);
    println!("{} s, {kills} kills; answers by status: {:?}", began.elapsed().as_secs(), checked.statuses);
    println!(
        "{} connections lost; {} pictures acknowledged, {used} billed",
        checked.lost_connections, checked.pictures
    );
    println!("{} presets acknowledged, {} stored", checked.presets.len(), stored.len());
    println!("milliseconds of pictures: {} median, {} p99", percentile(50), percentile(99));
    println!(
        "{growth:.0} bytes of memory more per request, over {} samples; {descriptors} descriptors at most",
        samples.len()
    );
    assert!(checked.unplanned.is_empty(), "{:#?}", checked.unplanned);
    assert_eq!(used, checked.pictures, "bills and acknowledged pictures");
    assert!(checked.presets.is_subset(&stored), "{:?} are lost", checked.presets.difference(&stored));
    assert!(checked.pictures > 0);
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        let allowed = GROWTH * (last.0 - first.0) + NOISE;
        assert!(
            last.1 - first.1 <= allowed,
            "memory grew from {} to {} bytes in {} requests",
            first.1,
            last.1,
            last.0 - first.0
        );
        // A connection of each client, one more that it opens after a lost one, and the slow ones.
        assert!(descriptors <= first.2 + 3 * CLIENTS, "descriptors: {descriptors} at most, {} at first", first.2);
    }
}
