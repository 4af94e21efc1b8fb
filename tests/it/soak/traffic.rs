//! Sends the requests of the soak's clients until they are answered as planned, and counts what is acknowledged.

use crate::soak::inputs::{Inputs, QUERIES};
use crate::support::command::http_client;
use backdrop::codec::{self, Limits};
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Time limit for a planned answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// Time after a full disk in which the daemon may answer 503.
const RECOVERY: Duration = Duration::from_secs(10);
/// Time between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// State shared by the clients, the disturbances and the checker.
pub(super) struct Traffic {
    pub(super) client: Client,
    url: String,
    pub(super) inputs: Inputs,
    /// The valid secret.
    key: Mutex<String>,
    /// The latest moment at which the disk was full.
    disk_was_full: Mutex<Option<Instant>>,
    /// Number of queries so far.
    queries: AtomicUsize,
    answered: Mutex<Answered>,
}

/// Counts of answers.
#[derive(Default)]
pub(super) struct Answered {
    /// Distinct pictures that were acknowledged, and seconds of distinct clips.
    pub(super) pictures: u64,
    pub(super) seconds: u64,
    /// Seconds of cancelled clips that may have been finished and billed before.
    pub(super) uncertain_seconds: u64,
    /// Pictures on generated backdrops, which are not billed.
    pub(super) backdrops: u64,
    /// Parameters of the stored presets, by name.
    pub(super) presets: BTreeMap<String, Value>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) unplanned: Vec<String>,
    /// Latencies of acknowledged single pictures in milliseconds, with repetitions.
    pub(super) latencies: Vec<u64>,
    pub(super) lost_connections: u64,
    /// Clips whose result was compared, clips that failed on a full disk, and clips cancelled before their end.
    pub(super) clips: u64,
    pub(super) failed_clips: u64,
    pub(super) cancelled_clips: u64,
    /// The result of the first clip.
    pub(super) cut_clip: Option<Bytes>,
}

impl Answered {
    pub(super) fn requests(&self) -> u64 {
        self.statuses.values().sum()
    }
}

/// Outcome of an attempt.
enum Outcome {
    /// A planned status, and the body.
    Planned(u16, Bytes),
    /// The request must be sent again.
    Repeat,
    /// Another status, which is recorded.
    Unplanned,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A failed assertion of one client does not hide the others' counts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Traffic {
    /// Clients of the daemon at `url` with this key. A clip is made in `folder`.
    pub(super) fn new(url: String, key: &str, folder: &Path) -> Self {
        Self {
            client: http_client().timeout(Duration::from_secs(100)).build().expect("a client"),
            url,
            inputs: Inputs::new(folder),
            key: Mutex::new(key.to_owned()),
            disk_was_full: Mutex::default(),
            queries: AtomicUsize::new(0),
            answered: Mutex::default(),
        }
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

    /// Records that the disk is full at this moment.
    pub(super) fn disk_is_full(&self) {
        *lock(&self.disk_was_full) = Some(Instant::now());
    }

    /// Whether the disk was full at some moment since `began`, or shortly before.
    pub(super) fn was_disk_full_since(&self, began: Instant) -> bool {
        lock(&self.disk_was_full).is_some_and(|at| at + RECOVERY > began)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Records an answer that is not planned.
    pub(super) fn unplanned(&self, what: &str, status: u16, body: &[u8]) {
        let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
        self.answered().unplanned.push(format!("{what}: {status} {text}"));
    }

    /// Counts an acknowledged answer, which must be a picture.
    pub(super) fn count_picture(&self, what: &str, body: &Bytes) {
        self.require_picture(what, body);
        self.answered().pictures += 1;
    }

    /// Records an answer that is no picture.
    pub(super) fn require_picture(&self, what: &str, body: &Bytes) {
        if codec::probe(body, &Limits::LOCAL).is_err() {
            self.unplanned(what, 200, body);
        }
    }

    /// Classifies the answer to an attempt that began at `began` with `key`. A request is repeated after a lost connection, 429,
    /// an invalid key that was replaced meanwhile, and 503 on a full disk.
    fn classified(
        &self,
        what: &str,
        planned: &[u16],
        began: Instant,
        key: &str,
        answer: Option<(u16, Bytes)>,
    ) -> Outcome {
        let Some((status, body)) = answer else {
            self.answered().lost_connections += 1;
            return Outcome::Repeat;
        };
        *self.answered().statuses.entry(status).or_default() += 1;
        if planned.contains(&status) {
            return Outcome::Planned(status, body);
        }
        // remove.bg and Photoroom answer 403 where others answer 401.
        let was_replaced = matches!(status, 401 | 403) && key != self.key();
        if status == 429 || was_replaced || (status == 503 && self.was_disk_full_since(began)) {
            return Outcome::Repeat;
        }
        self.unplanned(what, status, &body);
        Outcome::Unplanned
    }

    /// Sends a request once.
    async fn attempt(&self, what: &str, planned: &[u16], request: RequestBuilder) -> Outcome {
        let (began, key) = (Instant::now(), self.key());
        let sent = async {
            // `x-api-key` is the header of remove.bg's and Photoroom's clients.
            let response = request.bearer_auth(&key).header("x-api-key", &key).send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.bytes().await?))
        };
        let answer = sent.await.ok();
        self.classified(what, planned, began, &key, answer)
    }

    /// Sends a request until it has one of the `planned` statuses.
    pub(super) async fn until_answered(
        &self,
        what: &str,
        planned: &[u16],
        request: impl Fn() -> RequestBuilder,
    ) -> Option<(u16, Bytes)> {
        self.until_applied(what, planned, &[], request).await
    }

    /// As [`Self::until_answered`], for a change that cannot be made twice: a repetition, after an answer that may have been lost, may
    /// also have a status of `applied`.
    pub(super) async fn until_applied(
        &self,
        what: &str,
        planned: &[u16],
        applied: &[u16],
        request: impl Fn() -> RequestBuilder,
    ) -> Option<(u16, Bytes)> {
        let began = Instant::now();
        let of_repetitions = [planned, applied].concat();
        let mut planned = planned;
        while began.elapsed() < PATIENCE {
            match self.attempt(what, planned, request()).await {
                Outcome::Planned(status, body) => return Some((status, body)),
                Outcome::Unplanned => return None,
                Outcome::Repeat => planned = &of_repetitions,
            }
            sleep(PAUSE).await;
        }
        self.answered().unplanned.push(format!("{what}: no answer in two minutes"));
        None
    }

    /// At times sends a request and disconnects within `most` milliseconds. Together with later requests under its
    /// `Idempotency-Key` it is billed once at most.
    pub(super) async fn disconnect_at_times(
        &self,
        what: &str,
        planned: &[u16],
        most: u64,
        dice: &mut StdRng,
        request: impl Fn() -> RequestBuilder,
    ) {
        if dice.random_ratio(1, 8) {
            let pause = Duration::from_millis(dice.random_range(1..most));
            drop(timeout(pause, self.attempt(what, planned, request())).await);
        }
    }

    /// As [`Self::until_answered`], for a request with a JSON answer.
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

    /// The status of a query with `key`. 429, for too many wrong keys of an address, ends after a minute.
    pub(super) async fn status_of(&self, key: &str) -> u16 {
        let began = Instant::now();
        loop {
            let answer = self.client.get(self.url("/account")).bearer_auth(key).send().await.expect("an answer");
            if answer.status() != 429 || began.elapsed() > PATIENCE {
                return answer.status().as_u16();
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends random requests as client `number` until `until`.
    pub(super) async fn client(&self, number: usize, until: Instant) {
        let mut dice = StdRng::seed_from_u64(number as u64);
        for turn in 0.. {
            if Instant::now() >= until {
                return;
            }
            let (name, dice) = (format!("{number}-{turn}"), &mut dice);
            match dice.random_range(0..75) {
                0..=39 => self.cut_out(&name, dice).await,
                40..=42 => self.restore_face(&name).await,
                43..=46 => self.drop_in(&name, dice).await,
                47 => self.generate_backdrop(dice).await,
                48..=50 => self.cut_out_files(&name, dice).await,
                51..=54 => self.cut_out_url(&name, dice).await,
                55 | 56 => self.cut_out_urls(&name, dice).await,
                57 => self.cut_clip(&name, dice).await,
                58 => self.cancel_clip(&name, dice).await,
                59..=63 => self.send_hostile(dice).await,
                // An account has a thousand presets at most.
                64..=68 => self.change_preset(format!("{number}-{}", turn % 40), dice).await,
                69 => self.estimate().await,
                70 => self.request_bulk_run().await,
                _ => self.query().await,
            }
        }
    }

    async fn estimate(&self) {
        let request = || self.client.post(self.url("/estimate")).json(&json!({ "endpoint": "/remove" }));
        self.until_answered("/estimate", &[200], request).await;
    }

    /// Requests an invalid and a valid bulk run. The daemon has no database for the valid one.
    async fn request_bulk_run(&self) {
        for (from, planned) in [("photos", 400), ("s3://shop/photos", 503)] {
            let body = json!({ "from": from, "to": "s3://shop/cutouts" });
            let request = || self.client.post(self.url("/bulk")).json(&body);
            if let Some((503, answer)) = self.until_answered("/bulk", &[planned], request).await
                && !String::from_utf8_lossy(&answer).contains("PostgreSQL")
            {
                self.unplanned("/bulk", 503, &answer);
            }
        }
    }

    /// Queries the pages and services in turn.
    async fn query(&self) {
        let path = QUERIES[self.queries.fetch_add(1, Ordering::Relaxed) % QUERIES.len()];
        self.until_answered(path, &[200], || self.client.get(self.url(path))).await;
    }
}
