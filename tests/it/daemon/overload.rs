//! Overload of a running daemon: what is beyond the bound is refused at once, and an account that floods leaves others their turn.

#![cfg(target_os = "linux")]

use super::memory::largest;
use crate::cli::serve::{self, KEY};
use crate::support::command::{backdrop, json, photo, stderr};
use crate::support::hang_guard::until;
use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::Response;
use reqwest::multipart::{Form, Part};
use serde_json::Value;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Pictures that the daemon takes at once.
const PLACES: usize = 2;

struct Running {
    serving: serve::Running,
    folder: TempDir,
}

impl Running {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = PLACES.to_string();
        let settings = [
            ("BACKDROP_ENGINE_MAX_REQUESTS_IN_FLIGHT", places.as_str()),
            ("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000"),
        ];
        Self { serving: serve::Running::start(folder.path(), &settings), folder }
    }

    /// The key of a new account.
    fn key_of(&self, account: &str) -> String {
        let run = |arguments: &[&str]| {
            let mut command = backdrop();
            let output = command.args(arguments).arg("--data-dir").arg(self.folder.path()).output().expect("it runs");
            assert!(output.status.success(), "{}", stderr(&output));
            output
        };
        run(&["accounts", "create", account, "--plan", "plus"]);
        let created = json(&run(&["keys", "create", "--account", account, "--json"]));
        created["key"].as_str().expect("a key").to_owned()
    }

    /// Sends a picture; the response arrives later.
    fn send(&self, key: &str, file: &Bytes) -> JoinHandle<Response> {
        let form = Form::new().part("file", Part::stream(file.clone()));
        let url = format!("{}/remove", self.serving.url);
        let request = self.serving.client.post(url).bearer_auth(key).multipart(form);
        tokio::spawn(async move { request.send().await.expect("a response") })
    }

    async fn remove(&self, key: &str, file: &Bytes) -> u16 {
        let response = self.send(key, file).await.expect("no panic");
        let status = response.status().as_u16();
        response.bytes().await.expect("the whole response");
        status
    }

    /// Waits until all places are taken.
    async fn until_full(&self) {
        let full = format!("backdrop_requests_in_flight {PLACES}");
        let metrics = async || self.serving.page("/metrics").await;
        until("all places are taken", async || metrics().await.lines().any(|line| line == full)).await;
    }
}

fn small() -> Bytes {
    fs::read(photo("astronaut.jpg")).unwrap().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_beyond_the_bound_are_429_before_any_accepted_one_is_finished() {
    let running = Running::start();
    // Seconds of work each.
    let large = largest();
    let accepted = [(); PLACES].map(|()| running.send(KEY, &large));
    running.until_full().await;
    let beyond: Vec<_> = (0..8).map(|_| running.send(KEY, &small())).collect();
    for response in join_all(beyond).await {
        let response = response.expect("no panic");
        assert_eq!(response.status(), 429);
        let retry_after = response.headers()["retry-after"].to_str().expect("ASCII");
        assert!(retry_after.parse::<u64>().is_ok_and(|seconds| seconds >= 1), "{retry_after}");
        let body: Value = response.json().await.expect("JSON");
        assert_eq!(body["error"]["code"], "rate_limit_exceeded", "{body}");
    }
    assert!(accepted.iter().all(|picture| !picture.is_finished()), "the refusals waited for a picture");
    for picture in accepted {
        assert_eq!(picture.await.expect("no panic").status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_floods_leaves_another_one_its_turn() {
    /// Pictures of the flood.
    const FLOOD: usize = 40;
    let running = Arc::new(Running::start());
    let other = running.key_of("other");
    let finished = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..3 * PLACES)
        .map(|_| {
            let (running, finished) = (Arc::clone(&running), Arc::clone(&finished));
            tokio::spawn(async move {
                let picture = small();
                while finished.load(Ordering::SeqCst) < FLOOD {
                    match running.remove(KEY, &picture).await {
                        200 => {
                            finished.fetch_add(1, Ordering::SeqCst);
                        }
                        429 => tokio::time::sleep(Duration::from_millis(20)).await,
                        status => panic!("{status}"),
                    }
                }
            })
        })
        .collect();
    running.until_full().await;
    for _ in 0..3 {
        assert_eq!(running.remove(&other, &small()).await, 200, "it has no picture in flight");
    }
    // Each waits for one picture of the flood at most, and is computed beside another.
    let before = finished.load(Ordering::SeqCst);
    assert!(before < FLOOD, "the other account waited until the flood was through");
    for client in clients {
        client.abort();
        assert!(client.await.err().is_none_or(|error| error.is_cancelled()), "a client of the flood failed");
    }
}
