//! Several daemons on one PostgreSQL database: one works, the others wait, and one of them takes over when it is killed.
//!
//! Ignored by default: `make cluster-test` installs PostgreSQL and runs these.

#![cfg(unix)]

use crate::cli::serve::Daemon;
use crate::support::command::{backdrop, http_client, stderr, stdout};
use crate::support::pictures::png;
use crate::support::postgres::{Server, results_in};
use crate::support::tier::rounds;
use backdrop::image::Size;
use bytes::Bytes;
use reqwest::Client;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEY: &str = "bd_live_0123456789abcdefghijABCDEFGHIJ01";
const CLIENTS: usize = 6;
const DAEMONS: usize = 3;

/// Longer than a take-over takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A picture that is a cutout already, so that the network is not run.
fn cutout() -> Bytes {
    png(Size::new(16, 16), |x, _| [200, 90, 30, if x < 8 { 255 } else { 0 }])
}

/// The daemons. The one that began to work last is the one that works.
struct Cluster<'a> {
    folder: &'a Path,
    url: &'a str,
    daemons: Vec<Daemon>,
    working: Arc<Mutex<Option<(usize, String)>>>,
}

impl<'a> Cluster<'a> {
    fn start(folder: &'a Path, url: &'a str) -> Self {
        let mut cluster = Self { folder, url, daemons: Vec::new(), working: Arc::default() };
        for number in 0..DAEMONS {
            let daemon = cluster.daemon(number);
            cluster.daemons.push(daemon);
        }
        cluster
    }

    fn daemon(&self, number: usize) -> Daemon {
        let results = results_in(self.folder);
        let settings = [
            ("BACKDROP_BOOTSTRAP_KEY", KEY),
            ("BACKDROP_LIMITS_RATE_PER_MINUTE", "1000000"),
            ("BACKDROP_STORE_URL", self.url),
            ("BACKDROP_JOBS_RESULTS", results.as_str()),
        ];
        let mut daemon = Daemon::start_with(&self.folder.join(number.to_string()), &settings);
        let log = BufReader::new(daemon.0.stderr.take().expect("piped"));
        let working = Arc::clone(&self.working);
        std::thread::spawn(move || {
            // Read to the end, because the daemon blocks on a full pipe.
            for line in log.lines().map_while(Result::ok).filter(|line| line.contains("\"listening\"")) {
                let event: Value = serde_json::from_str(&line).expect("a JSON line");
                let address = event["fields"]["address"].as_str().expect("an address");
                *working.lock().unwrap() = Some((number, format!("http://{address}")));
            }
        });
        daemon
    }

    /// Ends the daemon that works with SIGKILL and starts it again; it then waits for the one that took over.
    fn kill(&mut self) {
        let (number, _) = self.working.lock().unwrap().clone().expect("one works");
        let daemon = &mut self.daemons[number].0;
        daemon.kill().expect("it runs, or ended by itself");
        daemon.wait().expect("it ends");
        self.daemons[number] = self.daemon(number);
    }

    /// Starts those again that ended because another one used the database.
    fn restart_ended(&mut self) {
        for number in 0..DAEMONS {
            if self.daemons[number].0.try_wait().expect("its state is known").is_some() {
                self.daemons[number] = self.daemon(number);
            }
        }
    }
}

/// What the clients share.
struct Load {
    client: Client,
    file: Bytes,
    working: Arc<Mutex<Option<(usize, String)>>>,
    stop: AtomicBool,
    acknowledged: AtomicU64,
    saved: Mutex<BTreeSet<String>>,
}

impl Load {
    /// The address of the daemon that works; before the first does, one where nobody answers.
    fn url(&self) -> String {
        self.working.lock().unwrap().as_ref().map_or("http://127.0.0.1:1", |(_, url)| url).to_owned()
    }

    /// Sends requests one after the other, each with an `Idempotency-Key` and again until it is answered.
    async fn run(self: Arc<Self>, name: usize) {
        for turn in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let key = format!("request {name} {turn}");
            self.until_answered(|| {
                let form = Form::new().part("file", Part::stream(self.file.clone()));
                self.client.post(format!("{}/remove", self.url())).header("Idempotency-Key", &key).multipart(form)
            })
            .await;
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            if turn % 16 == 0 {
                let preset = format!("preset {name} {turn}");
                self.until_answered(|| {
                    self.client.post(format!("{}/presets", self.url())).json(&json!({ "name": preset }))
                })
                .await;
                self.saved.lock().unwrap().insert(preset);
            }
        }
    }

    async fn until_answered(&self, request: impl Fn() -> reqwest::RequestBuilder) {
        loop {
            match request().bearer_auth(KEY).send().await {
                // 409: a preset that was saved by an earlier attempt, whose answer was lost.
                Ok(response) if [200, 409].contains(&response.status().as_u16()) => return,
                // Killed, or the database is away.
                Ok(response) if response.status() == 503 => {}
                Ok(response) => panic!("{}: {}", response.status(), response.text().await.unwrap_or_default()),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn get(&self, path: &str) -> Value {
        let response = self.client.get(format!("{}{path}", self.url())).bearer_auth(KEY).send().await;
        response.expect("a response").json().await.expect("JSON")
    }
}

/// Waits until the clients have finished some more requests.
async fn progress(load: &Load, more: u64) {
    let from = load.acknowledged.load(Ordering::SeqCst);
    let grown = async {
        while load.acknowledged.load(Ordering::SeqCst) < from + more {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, grown).await.expect("requests are answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make cluster-test"]
async fn a_storm_of_kills_and_database_crashes_loses_nothing_and_bills_each_request_once() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let url = server.database();
    let mut cluster = Cluster::start(folder.path(), &url);
    let load = Arc::new(Load {
        client: http_client().build().expect("a client"),
        file: cutout(),
        working: Arc::clone(&cluster.working),
        stop: AtomicBool::new(false),
        acknowledged: AtomicU64::new(0),
        saved: Mutex::default(),
    });
    let clients: Vec<_> = (0..CLIENTS).map(|name| tokio::spawn(Arc::clone(&load).run(name))).collect();
    for round in 0..rounds(8, 60) {
        progress(&load, 10 + round as u64 % 23).await;
        cluster.restart_ended();
        if round % 3 == 1 {
            // The daemon that worked continues, or ends because another one was faster.
            server.stop();
            server.resume();
        } else {
            cluster.kill();
        }
    }
    progress(&load, 30).await;
    load.stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("every request was answered");
    }

    let acknowledged = load.acknowledged.load(Ordering::SeqCst);
    let account = load.get("/account").await;
    assert_eq!(account["used"].as_u64(), Some(acknowledged), "{account}");
    let mut stored = BTreeSet::new();
    let mut path = "/presets".to_owned();
    loop {
        let page = load.get(&path).await;
        let names = page["presets"].as_array().expect("a list").iter();
        stored.extend(names.map(|preset| preset["name"].as_str().expect("a name").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/presets?cursor={cursor}");
    }
    let saved = load.saved.lock().unwrap().clone();
    assert_eq!(stored, saved);
    assert!(!saved.is_empty());
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn commands_work_on_the_database_and_the_store_moves_between_the_two() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let (url, other, results) = (server.database(), server.database(), results_in(folder.path()));
    let run = |database: Option<&str>, arguments: &[&str]| {
        let mut command = backdrop();
        command.args(arguments).arg("--data-dir").arg(folder.path().join("data"));
        if let Some(url) = database {
            command.env("BACKDROP_STORE_URL", url).env("BACKDROP_JOBS_RESULTS", &results);
        }
        command.output().expect("the binary runs")
    };
    let ok = |database: Option<&str>, arguments: &[&str]| {
        let output = run(database, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        output
    };
    ok(Some(&url), &["accounts", "create", "acme", "--plan", "paid"]);
    ok(Some(&url), &["keys", "create", "--account", "acme", "--label", "shop"]);
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    ok(Some(&url), &["store", "export", first.to_str().expect("text")]);
    // Into a file and from there into another database.
    ok(None, &["store", "import", first.to_str().expect("text")]);
    ok(None, &["store", "export", second.to_str().expect("text")]);
    ok(Some(&other), &["store", "import", second.to_str().expect("text")]);
    assert!(stdout(&ok(Some(&other), &["keys", "list"])).contains("shop"));
    let check = run(Some(&url), &["store", "check"]);
    assert!(stderr(&check).contains("PostgreSQL"), "{}", stderr(&check));
    assert!(!stderr(&check).contains("panicked"), "{}", stderr(&check));
    // The file was not moved into this database.
    let empty = server.database();
    let refused = run(Some(&empty), &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    assert!(!refused.status.success() && stderr(&refused).contains("store export"), "{}", stderr(&refused));
    // Results must be where every daemon finds them.
    let alone = backdrop().args(["config"]).env("BACKDROP_STORE_URL", &url).output().expect("the binary runs");
    assert!(stderr(&alone).contains("jobs.results"), "{}", stderr(&alone));
}
