//! What the clients of the soak send, and what they count.

use crate::source::origin::{Answer, Origin};
use crate::support::command::{http_client, photo};
use crate::support::pictures::png;
use crate::video::support::{boxed, made};
use backdrop::image::Size;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use reqwest::multipart::{Form, Part};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Until a request has to be answered with what is planned.
const PATIENCE: Duration = Duration::from_secs(120);
/// After a full disk has room again, the daemon may answer 503 for as long.
const RECOVERY: Duration = Duration::from_secs(10);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Endpoints with fields of a request each.
const ENDPOINTS: [(&str, &[(&str, &str)]); 12] = [
    ("/remove", &[]),
    ("/remove", &[("edge", "hard"), ("despill", "true"), ("format", "webp")]),
    ("/remove", &[("detect", "high_recall"), ("decontaminate", "true")]),
    ("/remove", &[("engine", "product-v1")]),
    ("/mask", &[]),
    ("/replace-bg", &[("bg_color", "red"), ("format", "jpg")]),
    ("/studio-shot", &[("shadow", "true")]),
    ("/smart-crop", &[("aspect", "4:5")]),
    ("/headshot", &[("restore_face", "false")]),
    ("/shadow", &[("angle", "45")]),
    ("/sticker", &[]),
    ("/upscale", &[("scale", "2")]),
];

/// Paths of the origin, and the statuses that a picture from there may have. The first one is good.
const ORIGIN: [(&str, &[u16]); 9] = [
    ("/good", &[200]),
    ("/moved", &[200]),
    ("/missing", &[424]),
    ("/round", &[424]),
    ("/short", &[424]),
    ("/drip", &[424]),
    ("/endless", &[413, 424]),
    ("/hangup", &[424]),
    ("/silence", &[424]),
];

/// An origin whose answers are good, wrong, slow or endless.
fn origin(picture: &Bytes) -> Origin {
    let moved = |path: &str| Answer::Redirect(302, path.to_owned());
    Origin::start([
        ("/good", Answer::Bytes(picture.clone())),
        ("/moved", moved("/good")),
        ("/missing", Answer::Status(404)),
        ("/round", moved("/round")),
        ("/short", Answer::WrongLength { announces: 2 * picture.len(), sends: picture.clone() }),
        ("/drip", Answer::Drip(picture.clone(), Duration::from_millis(50))),
        ("/endless", Answer::Endless(picture.clone())),
        ("/hangup", Answer::Hangup),
        ("/silence", Answer::Silence),
    ])
}

/// What the clients, the disturbances and the checker share.
pub(super) struct Traffic {
    pub(super) client: Client,
    url: String,
    origin: Origin,
    /// The secret that is valid now.
    key: Mutex<String>,
    /// The latest moment at which the disk was full.
    disk_was_full: Mutex<Option<Instant>>,
    /// Good pictures, then those that have to be refused, and one with a face.
    pictures: Vec<Bytes>,
    hostile: Vec<Bytes>,
    face: Bytes,
    clip: Bytes,
    answered: Mutex<Answered>,
}

/// What was answered.
#[derive(Default)]
pub(super) struct Answered {
    /// Distinct pictures that were acknowledged, and seconds of distinct clips.
    pub(super) pictures: u64,
    pub(super) seconds: u64,
    pub(super) presets: BTreeSet<String>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) unplanned: Vec<String>,
    /// Of acknowledged single pictures, in milliseconds, with their repetitions.
    pub(super) latencies: Vec<u64>,
    pub(super) lost_connections: u64,
    /// Clips whose result was compared, and those that failed because the disk was full.
    pub(super) clips: u64,
    pub(super) failed_clips: u64,
    /// The result of every clip.
    cut_clip: Option<Bytes>,
}

impl Answered {
    pub(super) fn requests(&self) -> u64 {
        self.statuses.values().sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A failed assertion of one client does not hide the others' counts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Traffic {
    /// Clients of the daemon at `url` with this key. A clip is made in `folder`.
    pub(super) fn new(url: String, key: &str, folder: &Path) -> Self {
        let read = |name: &str| Bytes::from(fs::read(photo(name)).expect("a bundled photo"));
        let cutout = png(Size::new(64, 64), |x, _| [200, 90, 30, if x < 32 { 255 } else { 0 }]);
        let (jpeg, png_file) = (read("coffee.jpg"), read("chelsea.png"));
        let clip = made(folder, "clip.mp4", &[&boxed((96, 54), "10", 2)], "-c:v libx264 -pix_fmt yuv420p");
        Self {
            client: http_client().timeout(Duration::from_secs(100)).build().expect("a client"),
            url,
            origin: origin(&cutout),
            key: Mutex::new(key.to_owned()),
            disk_was_full: Mutex::default(),
            hostile: vec![
                Bytes::from_static(b"not a picture"),
                jpeg.slice(..jpeg.len() / 2),
                png_file.slice(..png_file.len() - 20),
                Bytes::from_static(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\x06\0\0\0"),
            ],
            pictures: vec![jpeg, png_file, cutout.clone(), cutout],
            face: read("astronaut.jpg"),
            clip: fs::read(clip).expect("it was made").into(),
            answered: Mutex::default(),
        }
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn answered(&self) -> MutexGuard<'_, Answered> {
        lock(&self.answered)
    }

    pub(super) fn key(&self) -> String {
        lock(&self.key).clone()
    }

    pub(super) fn set_key(&self, key: String) {
        *lock(&self.key) = key;
    }

    /// Notes that the disk is full at this moment.
    pub(super) fn disk_is_full(&self) {
        *lock(&self.disk_was_full) = Some(Instant::now());
    }

    /// Whether the disk was full at some moment since `began`, or shortly before.
    fn was_disk_full_since(&self, began: Instant) -> bool {
        lock(&self.disk_was_full).is_some_and(|at| at + RECOVERY > began)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn unplanned(&self, what: &str, status: u16, body: &Bytes) {
        let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
        self.answered().unplanned.push(format!("{what}: {status} {text}"));
    }

    /// Sends one request with a key; its status and body, or nothing where the connection was lost.
    async fn send(&self, request: RequestBuilder, key: &str) -> Option<(u16, Bytes)> {
        let sent = async {
            let response = request.bearer_auth(key).send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.bytes().await?))
        };
        let outcome = sent.await.ok();
        let mut answered = self.answered();
        match &outcome {
            Some((status, _)) => *answered.statuses.entry(*status).or_default() += 1,
            None => answered.lost_connections += 1,
        }
        outcome
    }

    /// Sends a request until it has one of the `planned` statuses. Planned too, and sent again: a lost connection, 429, 401 for
    /// a key that was replaced meanwhile, and 503 for a full disk.
    pub(super) async fn until_answered(
        &self,
        what: &str,
        planned: &[u16],
        request: impl Fn() -> RequestBuilder,
    ) -> Option<(u16, Bytes)> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let (at, key) = (Instant::now(), self.key());
            match self.send(request(), &key).await {
                Some((status, body)) if planned.contains(&status) => return Some((status, body)),
                Some((429, _)) | None => {}
                Some((401, _)) if key != self.key() => {}
                Some((503, _)) if self.was_disk_full_since(at) => {}
                Some((status, body)) => {
                    self.unplanned(what, status, &body);
                    return None;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.answered().unplanned.push(format!("{what}: no answer in two minutes"));
        None
    }

    /// The same for a request with a JSON answer.
    pub(super) async fn json(
        &self,
        what: &str,
        planned: &[u16],
        request: impl Fn() -> RequestBuilder,
    ) -> Option<Value> {
        let (_, body) = self.until_answered(what, planned, request).await?;
        Some(serde_json::from_slice(&body).expect("JSON"))
    }

    pub(super) async fn get(&self, path: &str) -> Option<Value> {
        self.json(path, &[200], || self.client.get(self.url(path))).await
    }

    /// The status of a question with any key. 429, for too many wrong keys of one address, ends after a minute.
    pub(super) async fn status_of(&self, key: &str) -> u16 {
        let began = Instant::now();
        loop {
            let answer = self.client.get(self.url("/account")).bearer_auth(key).send().await.expect("an answer");
            if answer.status() != 429 || began.elapsed() > PATIENCE {
                return answer.status().as_u16();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn picture(&self, path: &str, fields: &[(&str, &str)], file: &Bytes) -> RequestBuilder {
        let form = fields.iter().fold(Form::new().part("file", Part::stream(file.clone())), |form, (name, value)| {
            form.text((*name).to_owned(), (*value).to_owned())
        });
        self.client.post(self.url(path)).multipart(form)
    }

    /// One client after another request until a moment.
    pub(super) async fn client(&self, number: usize, until: Instant) {
        let mut dice = StdRng::seed_from_u64(number as u64);
        for turn in 0.. {
            if Instant::now() >= until {
                return;
            }
            let name = format!("{number}-{turn}");
            match dice.random_range(0..80) {
                0..=39 => self.cut_out(&name, &mut dice).await,
                40..=43 => self.restore_face(&name).await,
                44..=47 => self.cut_out_files(&name, &mut dice).await,
                48..=51 => self.cut_out_url(&name, &mut dice).await,
                52 | 53 => self.cut_out_urls(&name).await,
                54 => self.cut_clip(&name).await,
                55..=60 => {
                    let file = self.hostile.choose(&mut dice).expect("some");
                    let request = || self.picture("/remove", &[], file);
                    self.until_answered("a hostile picture", &[400, 413, 415, 422], request).await;
                }
                61..=64 => self.send_slowly(&mut dice).await,
                65 | 66 => self.read_slowly(&mut dice).await,
                // An account has a thousand presets at most.
                67..=71 => self.save_preset(format!("{number}-{}", turn % 40)).await,
                72..=74 => {
                    let request = || self.client.post(self.url("/estimate")).json(&json!({ "endpoint": "/remove" }));
                    self.until_answered("an estimate", &[200], request).await;
                }
                _ => {
                    let path = ["/account", "/usage", "/jobs", "/presets"].choose(&mut dice).expect("some");
                    self.get(path).await;
                }
            }
        }
    }

    /// Has a picture cut out under its own key, at times after a disconnect, and counts it.
    async fn cut_out(&self, name: &str, dice: &mut StdRng) {
        let (path, fields) = ENDPOINTS.choose(dice).expect("some");
        let file = self.pictures.choose(dice).expect("some");
        let request = || self.picture(path, fields, file).header("idempotency-key", name);
        if dice.random_ratio(1, 8) {
            let (pause, key) = (Duration::from_millis(dice.random_range(1..300)), self.key());
            // What the daemon had done by then is billed once at most, with what follows.
            drop(tokio::time::timeout(pause, self.send(request(), &key)).await);
        }
        let began = Instant::now();
        if let Some((_, body)) = self.until_answered(path, &[200], request).await {
            assert!(!body.is_empty());
            let mut answered = self.answered();
            answered.pictures += 1;
            answered.latencies.push(began.elapsed().as_millis() as u64);
        }
    }

    async fn restore_face(&self, name: &str) {
        let request = || self.picture("/face-restore", &[], &self.face).header("idempotency-key", name);
        if self.until_answered("/face-restore", &[200], request).await.is_some() {
            self.answered().pictures += 1;
        }
    }

    async fn cut_out_url(&self, name: &str, dice: &mut StdRng) {
        let (path, planned) = ORIGIN.choose(dice).expect("some");
        let body = json!({ "url": self.origin.url(path) });
        let request = || self.client.post(self.url("/remove-url")).header("idempotency-key", name).json(&body);
        if let Some((200, _)) = self.until_answered(path, planned, request).await {
            self.answered().pictures += 1;
        }
    }

    /// A batch of two good files and a hostile one.
    async fn cut_out_files(&self, name: &str, dice: &mut StdRng) {
        let hostile = self.hostile.choose(dice).expect("some");
        let files = [&self.pictures[2], hostile, &self.pictures[0]];
        self.batch("/remove-batch", &[true, false, true], || {
            let form = files.iter().fold(Form::new(), |form, file| {
                form.part("files", Part::stream(Bytes::clone(file)).file_name("photo.jpg"))
            });
            self.client.post(self.url("/remove-batch")).header("idempotency-key", name).multipart(form)
        })
        .await;
    }

    async fn cut_out_urls(&self, name: &str) {
        let urls = ["/good", "/missing", "/hangup"].map(|path| self.origin.url(path));
        let urls = json!({ "urls": urls });
        self.batch("/remove-batch-url", &[true, false, false], || {
            self.client.post(self.url("/remove-batch-url")).header("idempotency-key", name).json(&urls)
        })
        .await;
    }

    /// Sends a batch until the rows that have to succeed do, and counts these.
    async fn batch(&self, what: &str, succeed: &[bool], request: impl Fn() -> RequestBuilder) {
        let began = Instant::now();
        loop {
            let at = Instant::now();
            let Some(body) = self.json(what, &[200], &request).await else { return };
            let rows = body["results"].as_array().expect("rows");
            let statuses: Vec<_> = rows.iter().map(|row| row["status"].as_u64().expect("a status")).collect();
            let is_unbilled = body["billed"] == false && self.was_disk_full_since(at);
            if !is_unbilled && statuses.iter().map(|status| *status == 200).eq(succeed.iter().copied()) {
                self.answered().pictures += succeed.iter().filter(|succeeds| **succeeds).count() as u64;
                return;
            }
            let is_busy = |status: u64| status == 429 || status == 503 && self.was_disk_full_since(at);
            let again = is_unbilled || statuses.iter().any(|status| is_busy(*status));
            if !again || began.elapsed() > PATIENCE {
                self.answered().unplanned.push(format!("{what}: {body}"));
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Has a clip cut out and compares its result with that of the first one.
    async fn cut_clip(&self, name: &str) {
        let began = Instant::now();
        let request = || {
            let form = Form::new().part("file", Part::stream(self.clip.clone()).file_name("clip.mp4"));
            self.client.post(self.url("/video/remove")).header("idempotency-key", name).multipart(form)
        };
        let Some(job) = self.json("/video/remove", &[200, 202], request).await else { return };
        let path = job["status_url"].as_str().expect("an address");
        // In a queue behind those of the other clients.
        while began.elapsed() < 3 * PATIENCE {
            let Some(job) = self.get(path).await else { return };
            match job["status"].as_str() {
                Some("queued" | "processing") => tokio::time::sleep(PAUSE).await,
                Some("done") => {
                    let seconds = job["output_seconds"].as_f64().expect("a number");
                    assert_eq!(seconds, 2.0, "{job}");
                    // Results are kept for an hour, which has passed when the clock was set forward.
                    if job["result_expired"] == true {
                        self.answered().seconds += seconds as u64;
                        return;
                    }
                    let address = job["result_url"].as_str().expect("an address");
                    let planned = [200, 403, 404, 410];
                    let result = self.until_answered("a result", &planned, || self.client.get(address)).await;
                    let Some((status, result)) = result else { return };
                    if status != 200 {
                        // Expired in between.
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    let mut answered = self.answered();
                    answered.seconds += seconds as u64;
                    answered.clips += 1;
                    let first = answered.cut_clip.get_or_insert_with(|| result.clone());
                    if *first != result {
                        answered.unplanned.push(format!("{path}: another result than that of the first clip"));
                    }
                    return;
                }
                _ if self.was_disk_full_since(began) => {
                    self.answered().failed_clips += 1;
                    return;
                }
                _ => {
                    self.answered().unplanned.push(format!("{path}: {job}"));
                    return;
                }
            }
        }
        self.answered().unplanned.push(format!("{path}: not finished in six minutes"));
    }

    async fn save_preset(&self, name: String) {
        let body = json!({ "name": name, "endpoint": "/remove", "params": { "format": "webp" } });
        // 409: it is stored, by an earlier turn or an attempt whose answer was lost.
        let saved = self.until_answered("a preset", &[200, 409], || self.client.post(self.url("/presets")).json(&body));
        if saved.await.is_some() {
            self.answered().presets.insert(name);
        }
    }

    async fn connect(&self) -> Option<TcpStream> {
        TcpStream::connect(self.url.trim_start_matches("http://")).await.ok()
    }

    /// Sends the beginning of a request and then waits.
    async fn send_slowly(&self, dice: &mut StdRng) {
        let Some(mut stream) = self.connect().await else { return };
        let head = b"POST /remove HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nAuthorization: Bearer ";
        drop(stream.write_all(&head[..dice.random_range(1..head.len())]).await);
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..1500))).await;
    }

    /// Reads a large answer slowly, and not to its end.
    async fn read_slowly(&self, dice: &mut StdRng) {
        let Some(mut stream) = self.connect().await else { return };
        drop(stream.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n").await);
        let mut bytes = [0; 1024];
        for _ in 0..dice.random_range(1..30) {
            if !stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
