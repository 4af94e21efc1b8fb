//! A storm on three daemons behind HAProxy, on a PostgreSQL primary with a synchronous standby: kills, crashes, cut connections and
//! promotions, while clients send requests and clips. SQL from outside then counts what was billed.

use super::support::{Caller, Cluster, KEY, PATIENCE, create_key, cutout};
use crate::support::haproxy::{self, Balancer};
use crate::support::moto::Moto;
use crate::support::postgres::{PASSWORD, name_of, results_in};
use crate::support::postgres_pair::{self, ServerPair};
use crate::support::tier::rounds;
use crate::video::support::made;
use bytes::Bytes;
use reqwest::Client;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CLIENTS: usize = 6;

/// Presets that are saved at most, fewer than an account may have.
const MOST_PRESETS: usize = 900;

/// What happens in a round.
#[derive(Clone, Copy)]
enum Event {
    DaemonKilled,
    ServerRestarted,
    ConnectionsCut,
    TwoDaemonsKilled,
    StandbyPromoted,
}

impl Event {
    /// In the order of the rounds.
    const ALL: [Self; 5] = [
        Self::DaemonKilled,
        Self::ServerRestarted,
        Self::ConnectionsCut,
        Self::TwoDaemonsKilled,
        Self::StandbyPromoted,
    ];
}

/// What the clients of a storm share.
struct Load {
    caller: Caller,
    file: Bytes,
    stop: AtomicBool,
    acknowledged: AtomicU64,
    saved: Mutex<BTreeSet<String>>,
    clip: Bytes,
    /// Jobs of clips that were acknowledged, and what the results of the finished ones are.
    jobs: Mutex<BTreeSet<String>>,
    results: Mutex<Vec<Bytes>>,
}

impl Load {
    /// Sends requests one after the other, each with an `Idempotency-Key` and again until it is answered.
    async fn run(self: Arc<Self>, name: usize) {
        for turn in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let response = self.caller.picture(&format!("request-{name}-{turn}"), &self.file).await;
            assert_eq!(response.status(), 200, "{}", response.text().await.unwrap_or_default());
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            if turn % 16 == 0 && self.saved.lock().unwrap().len() < MOST_PRESETS {
                let preset = format!("preset {name} {turn}");
                let body = json!({ "name": preset });
                let post = |client: &Client, api: &str| client.post(format!("{api}/presets")).json(&body);
                // 409: saved by an earlier attempt, whose answer was lost.
                let status = self.caller.until_answered(post).await.status().as_u16();
                assert!([200, 409].contains(&status), "{status}");
                self.saved.lock().unwrap().insert(preset);
            }
        }
    }

    /// Has one clip after the other cut out, each under its `Idempotency-Key`, and fetches its result. A job fails only because
    /// the object store or a daemon fails, and neither may end it here.
    async fn run_clips(self: Arc<Self>) {
        for turn in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let post = |client: &Client, api: &str| {
                let form = Form::new().part("file", Part::stream(self.clip.clone()).file_name("clip.mp4"));
                client
                    .post(format!("{api}/video/remove"))
                    .header("Idempotency-Key", format!("clip-{turn}"))
                    .multipart(form)
            };
            let response = self.caller.until_answered(post).await;
            assert_eq!(response.status(), 202, "{}", response.text().await.unwrap_or_default());
            let job: Value = response.json().await.expect("JSON");
            let path = job["status_url"].as_str().expect("an address").to_owned();
            self.jobs.lock().unwrap().insert(path.clone());
            let start = Instant::now();
            let done = loop {
                let job = self.caller.get(&path).await;
                match job["status"].as_str() {
                    Some("done") => break job,
                    Some("queued" | "processing") => {}
                    _ => panic!("{job}"),
                }
                assert!(start.elapsed() < 2 * PATIENCE, "{path} is not finished");
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            let result = self.result(done["result_url"].as_str().expect("an address")).await;
            self.results.lock().unwrap().push(result);
        }
    }

    /// Fetches a result by its signed address: from whichever daemon the balancer selects, since all sign with one secret, or from the
    /// object store.
    async fn result(&self, address: &str) -> Bytes {
        let start = Instant::now();
        loop {
            if let Ok(response) = self.caller.client.get(address).send().await
                && response.status() == 200
                && let Ok(result) = response.bytes().await
            {
                return result;
            }
            assert!(start.elapsed() < PATIENCE, "{address} is not answered");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the clients have finished some more requests; starts daemons again that end meanwhile.
    async fn progress(&self, cluster: &mut Cluster, more: u64) {
        let (start, from) = (Instant::now(), self.acknowledged.load(Ordering::SeqCst));
        while self.acknowledged.load(Ordering::SeqCst) < from + more {
            assert!(start.elapsed() < PATIENCE, "requests are not answered any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
            cluster.restart_ended();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_kills_and_database_failures_loses_nothing_and_bills_each_request_once() {
    let Some(mut servers) = ServerPair::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let objects = Moto::start();
    let in_folder = || vec![("BACKDROP_JOBS_RESULTS", results_in(folder.path()))];
    let mut variables = objects.as_ref().map_or_else(in_folder, Moto::variables);
    variables.push(("BACKDROP_SERVER_PROXY_PROTOCOL", "true".into()));
    variables.push(("BACKDROP_SERVER_TRUSTED_PROXIES", haproxy::SOURCE.into()));
    let mut cluster = Cluster::start_with(folder.path(), servers.database(), 3, variables);
    let balancer = Balancer::start(&cluster.ports);
    let clip = made(folder.path(), "clip.mp4", &["testsrc2=size=96x64:rate=10:duration=5"], "-pix_fmt yuv420p");
    let load = Arc::new(Load {
        caller: Caller::through(&cluster, vec![balancer.api()]),
        file: cutout(),
        stop: AtomicBool::new(false),
        acknowledged: AtomicU64::new(0),
        saved: Mutex::default(),
        clip: std::fs::read(clip).unwrap().into(),
        jobs: Mutex::default(),
        results: Mutex::default(),
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|name| tokio::spawn(Arc::clone(&load).run(name))).collect();
    clients.push(tokio::spawn(Arc::clone(&load).run_clips()));
    let mut keys = Vec::new();
    for round in 0..rounds(5, 250) {
        let (cycle, event) = (round / Event::ALL.len(), Event::ALL[round % Event::ALL.len()]);
        load.progress(&mut cluster, 10 + round as u64 % 23).await;
        keys.extend(create_key(&cluster));
        match event {
            Event::DaemonKilled => cluster.kill(cycle % 3),
            Event::ServerRestarted => {
                servers.primary().crash();
                servers.primary().resume(postgres_pair::SETTINGS);
            }
            Event::ConnectionsCut => servers.primary().cut_connections(),
            // One is left.
            Event::TwoDaemonsKilled => {
                cluster.kill(cycle % 3);
                cluster.kill((cycle + 1) % 3);
            }
            Event::StandbyPromoted => servers.fail_over(),
        }
        load.progress(&mut cluster, 1).await;
        servers.restore_standby();
    }
    load.progress(&mut cluster, 30).await;
    load.stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("every request was answered");
    }

    // From outside of the daemons.
    let sql = |text: &str| servers.primary().sql(name_of(&cluster.url), text);
    let acknowledged = load.acknowledged.load(Ordering::SeqCst);
    // A clip of five seconds is five images.
    let clips = load.jobs.lock().unwrap().len() as u64;
    let billed = (acknowledged + 5 * clips).to_string();
    assert_eq!(sql("SELECT sum(images) FROM usage").trim(), billed);
    assert_eq!(sql("SELECT count(*) FROM requests").trim(), acknowledged.to_string());
    let results = std::mem::take(&mut *load.results.lock().unwrap());
    assert!(clips > 0 && results.len() as u64 == clips, "{clips} clips, {} results", results.len());
    assert!(results.iter().all(|result| *result == results[0]), "a clip has other bytes than the first");
    let stored: BTreeSet<String> = sql("SELECT name FROM presets").lines().map(str::to_owned).collect();
    assert_eq!(stored, *load.saved.lock().unwrap());
    assert!(!stored.is_empty());
    // And as every daemon sees it.
    load.caller.all_answer("/account", KEY, 200).await;
    for api in &load.caller.apis {
        let account =
            load.caller.client.get(format!("{api}/account")).bearer_auth(KEY).send().await.expect("an answer");
        assert_eq!(account.json::<Value>().await.expect("JSON")["used"].to_string(), billed);
    }
    assert!(!keys.is_empty());
    for key in &keys {
        load.caller.all_answer("/account", key, 200).await;
    }
    for number in 0..3 {
        let log = cluster.log(number);
        assert!(!log.contains(PASSWORD), "the log of a daemon shows the password");
    }
}
