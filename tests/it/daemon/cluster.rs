//! Several daemons on one PostgreSQL database: all work, each knows what the others did, and the others go on when one is killed.

#![cfg(unix)]

use crate::cli::serve::Daemon;
use crate::support::command::{backdrop, http_client, stderr, stdout};
use crate::support::pictures::png;
use crate::support::postgres::{PASSWORD, Server, name_of, results_in, stable_port};
use crate::support::tier::rounds;
use crate::video::support::made;
use backdrop::image::Size;
use bytes::Bytes;
use reqwest::multipart::{Form, Part};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const KEY: &str = "bd_live_0123456789abcdefghijABCDEFGHIJ01";
const CLIENTS: usize = 6;

/// Longer than any change takes to reach all daemons on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A picture that is a cutout already, so that the network is not run.
fn cutout() -> Bytes {
    png(Size::new(16, 16), |x, _| [200, 90, 30, if x < 8 { 255 } else { 0 }])
}

/// Daemons on one database, each with a data directory and ports of its own, which it has again after a restart.
struct Cluster {
    folder: PathBuf,
    url: String,
    ports: Vec<[u16; 2]>,
    daemons: Vec<Daemon>,
}

impl Cluster {
    fn start(folder: &Path, url: String, size: usize) -> Self {
        let ports = (0..size).map(|_| [stable_port(), stable_port()]).collect();
        let mut cluster = Self { folder: folder.to_owned(), url, ports, daemons: Vec::new() };
        for number in 0..size {
            let daemon = cluster.daemon(number);
            cluster.daemons.push(daemon);
        }
        cluster
    }

    fn daemon(&self, number: usize) -> Daemon {
        let [api, admin] = self.ports[number].map(|port| format!("127.0.0.1:{port}"));
        let log = File::options().create(true).append(true).open(self.log_of(number)).expect("a log");
        let mut command = backdrop();
        command.args(["serve", "--listen", &api, "--admin-listen", &admin, "--data-dir"]).arg(self.data_of(number));
        command.env("BACKDROP_BOOTSTRAP_KEY", KEY).env("BACKDROP_LIMITS_RATE_PER_MINUTE", "1000000");
        command.env("BACKDROP_STORE_URL", &self.url).env("BACKDROP_JOBS_RESULTS", results_in(&self.folder));
        Daemon(command.stdout(Stdio::null()).stderr(log).spawn().expect("the binary starts"))
    }

    fn data_of(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    fn log_of(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number}.log"))
    }

    fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.log_of(number)).expect("a log")
    }

    fn apis(&self) -> Vec<String> {
        self.ports.iter().map(|[api, _]| format!("http://127.0.0.1:{api}")).collect()
    }

    fn admin(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[number][1])
    }

    /// Ends a daemon with SIGKILL.
    fn kill(&mut self, number: usize) {
        let daemon = &mut self.daemons[number].0;
        daemon.kill().expect("it runs, or ended by itself");
        daemon.wait().expect("it ends");
    }

    /// Starts those again that ended, as a service manager does.
    fn restart_ended(&mut self) {
        for number in 0..self.daemons.len() {
            if self.daemons[number].0.try_wait().expect("its state is known").is_some() {
                self.daemons[number] = self.daemon(number);
            }
        }
    }
}

/// A response with its body read; nothing where the connection is lost meanwhile.
async fn whole(response: Response) -> Option<Response> {
    let mut whole = http::Response::builder().status(response.status());
    whole.headers_mut()?.clone_from(response.headers());
    Some(whole.body(response.bytes().await.ok()?).ok()?.into())
}

/// A client that sends each request to another daemon, and to the next one where that one does not answer, as a balancer does.
struct Caller {
    client: Client,
    apis: Vec<String>,
    turn: AtomicUsize,
}

impl Caller {
    fn new(cluster: &Cluster) -> Self {
        let client = http_client().timeout(PATIENCE).build().expect("a client");
        Self { client, apis: cluster.apis(), turn: AtomicUsize::new(0) }
    }

    /// The answer of the first daemon that gives one; nothing where none does.
    async fn send(&self, request: impl Fn(&Client, &str) -> reqwest::RequestBuilder) -> Option<Response> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for number in (0..self.apis.len()).map(|more| (first + more) % self.apis.len()) {
            if let Ok(response) = request(&self.client, &self.apis[number]).bearer_auth(KEY).send().await
                && let Some(response) = whole(response).await
            {
                // 500: the daemon lost the database while it committed, and cannot know the outcome.
                if ![500, 503].contains(&response.status().as_u16()) {
                    return Some(response);
                }
            }
        }
        None
    }

    /// Repeats a request until it is answered with something else than 500 or 503.
    async fn until_answered(&self, request: impl Fn(&Client, &str) -> reqwest::RequestBuilder) -> Response {
        let start = Instant::now();
        loop {
            if let Some(response) = self.send(&request).await {
                return response;
            }
            assert!(start.elapsed() < PATIENCE, "no daemon answers");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn picture(&self, key: &str, file: &Bytes) -> Response {
        let post = |client: &Client, api: &str| {
            let form = Form::new().part("file", Part::stream(file.clone()));
            client.post(format!("{api}/remove")).header("Idempotency-Key", key).multipart(form)
        };
        self.until_answered(post).await
    }

    async fn get(&self, path: &str) -> Value {
        let response = self.until_answered(|client, api| client.get(format!("{api}{path}"))).await;
        response.json().await.expect("JSON")
    }

    /// Waits until every daemon answers a path with this status, and for that of a key; returns how long it took.
    async fn all_answer(&self, path: &str, key: &str, status: u16) -> Duration {
        let start = Instant::now();
        for api in &self.apis {
            loop {
                let answered = self.client.get(format!("{api}{path}")).bearer_auth(key).send().await;
                if answered.is_ok_and(|response| response.status() == status) {
                    break;
                }
                assert!(start.elapsed() < PATIENCE, "{api}{path} does not answer {status}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        start.elapsed()
    }
}

/// Waits until a daemon's admin interface answers `path` with this status; returns the answer.
async fn until_status(client: &Client, url: &str, status: u16) -> String {
    let start = Instant::now();
    loop {
        if let Ok(response) = client.get(url).send().await
            && response.status() == status
        {
            return response.text().await.expect("a text");
        }
        assert!(start.elapsed() < PATIENCE, "{url} does not answer {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until every daemon has committed the bills of all pictures that it has answered.
async fn until_billed(client: &Client, cluster: &Cluster) {
    let start = Instant::now();
    for number in 0..cluster.ports.len() {
        let url = format!("{}/metrics", cluster.admin(number));
        loop {
            // The gauge is there once a bill was deferred. A daemon that ended has none.
            match client.get(&url).send().await {
                Ok(response) => {
                    let text = response.text().await.unwrap_or_default();
                    let is_deferred = |line: &str| {
                        line.strip_prefix("backdrop_bills_deferred ").is_some_and(|count| count.trim() != "0")
                    };
                    if !text.lines().any(is_deferred) {
                        break;
                    }
                }
                Err(_) => break,
            }
            assert!(start.elapsed() < PATIENCE, "daemon {number} does not write its bills");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
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
            if turn % 16 == 0 {
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
            // Signed by one secret: any daemon answers for it.
            let address = done["result_url"].as_str().expect("an address");
            let signed = address.find("/results/").map(|at| &address[at..]).expect("a path");
            let result = self.caller.until_answered(|client, api| client.get(format!("{api}{signed}"))).await;
            assert_eq!(result.status(), 200);
            let result = result.bytes().await.expect("a clip");
            self.results.lock().unwrap().push(result);
        }
    }

    /// Waits until the clients have finished some more requests; starts daemons that end meanwhile.
    async fn progress(&self, cluster: &mut Cluster, more: u64) {
        let (start, from) = (Instant::now(), self.acknowledged.load(Ordering::SeqCst));
        while self.acknowledged.load(Ordering::SeqCst) < from + more {
            assert!(start.elapsed() < PATIENCE, "requests are not answered any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
            cluster.restart_ended();
        }
    }
}

/// Creates a key beside the daemons; nothing where the server is away.
fn create_key(cluster: &Cluster) -> Option<String> {
    let output = keys_command(cluster, &["create", "--label", "storm"]);
    output.status.success().then(|| stdout(&output).trim().to_owned())
}

/// Runs `backdrop keys` on the database.
fn keys_command(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = backdrop();
    command.arg("keys").args(arguments).arg("--data-dir").arg(cluster.folder.join("command"));
    command.env("BACKDROP_STORE_URL", &cluster.url).env("BACKDROP_JOBS_RESULTS", results_in(&cluster.folder));
    command.output().expect("the binary runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_kills_and_database_crashes_loses_nothing_and_bills_each_request_once() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 3);
    let clip = made(folder.path(), "clip.mp4", &["testsrc2=size=96x64:rate=10:duration=5"], "-pix_fmt yuv420p");
    let load = Arc::new(Load {
        caller: Caller::new(&cluster),
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
    let (mut keys, mut take_overs, mut server_starts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds(4, 60) {
        load.progress(&mut cluster, 10 + round as u64 % 23).await;
        keys.extend(create_key(&cluster));
        // A killed daemon takes those along that it answered while it had no database.
        until_billed(&load.caller.client, &cluster).await;
        let start = Instant::now();
        match round % 4 {
            0 => cluster.kill(round / 4 % 3),
            1 => {
                server.crash();
                server.resume(&[]);
                server_starts.push(start.elapsed());
            }
            2 => server.cut_connections(),
            // One is left.
            _ => {
                cluster.kill(round / 4 % 3);
                cluster.kill((round / 4 + 1) % 3);
            }
        }
        load.progress(&mut cluster, 1).await;
        take_overs.push((round % 4, start.elapsed()));
    }
    load.progress(&mut cluster, 30).await;
    load.stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("every request was answered");
    }
    until_billed(&load.caller.client, &cluster).await;

    // From outside of the daemons.
    let sql = |text: &str| server.sql(name_of(&cluster.url), text);
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
    tokio::time::sleep(Duration::from_secs(2)).await;
    for _ in 0..3 {
        assert_eq!(load.caller.get("/account").await["used"].to_string(), billed);
    }
    assert!(!keys.is_empty());
    for key in &keys {
        load.caller.all_answer("/account", key, 200).await;
    }
    for (kind, name) in ["daemon killed", "server crashed", "connections cut", "two daemons killed"].iter().enumerate()
    {
        let mut times: Vec<Duration> = take_overs.iter().filter(|(of, _)| *of == kind).map(|(_, took)| *took).collect();
        times.sort();
        println!(
            "{name}: until the next answer {:?} (median of {}), at most {:?}",
            times[times.len() / 2],
            times.len(),
            times.last()
        );
    }
    server_starts.sort();
    println!(
        "of a crash the server takes {:?} until it has connections (median)",
        server_starts[server_starts.len() / 2]
    );
    println!("{acknowledged} requests, {clips} clips, {} presets, {} keys", stored.len(), keys.len());
    for number in 0..3 {
        assert!(!cluster.log(number).contains(PASSWORD), "the log of a daemon shows the password");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_daemon_works_and_knows_what_the_others_did() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 3);
    let caller = Caller::new(&cluster);
    for number in 0..3 {
        until_status(&caller.client, &format!("{}/readyz", cluster.admin(number)), 200).await;
    }
    // The same request at each of them is billed once.
    for _ in 0..3 {
        assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    }
    // At the same time too.
    let file = cutout();
    let post = || caller.picture("second", &file);
    let at_once = tokio::join!(post(), post(), post());
    for response in [at_once.0, at_once.1, at_once.2] {
        assert_eq!(response.status(), 200);
    }
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "2");
    let body = json!({ "name": "shop" });
    let post = |client: &Client, api: &str| client.post(format!("{api}/presets")).json(&body);
    assert_eq!(caller.until_answered(post).await.status(), 200);
    for _ in 0..3 {
        assert_eq!(caller.get("/presets").await["presets"].as_array().map(Vec::len), Some(1));
    }

    let key = create_key(&cluster).expect("it is created");
    println!("a key is known everywhere after {:?}", caller.all_answer("/account", &key, 200).await);
    let id = stdout(&keys_command(&cluster, &["list"]));
    let id = id.lines().find(|line| line.contains("storm")).and_then(|line| line.split_whitespace().next());
    let revoked = keys_command(&cluster, &["revoke", id.expect("it is listed")]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    println!("a revoked key is refused everywhere after {:?}", caller.all_answer("/account", &key, 401).await);

    // The others go on when two are killed, without a break.
    cluster.kill(0);
    cluster.kill(2);
    assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    assert_eq!(caller.get("/account").await["used"], 2, "a repeated request is not billed again");
}

/// Waits until a daemon shows a job in a state.
async fn until_job(caller: &Caller, api: &str, path: &str, status: &str) -> Value {
    let start = Instant::now();
    loop {
        if let Ok(response) = caller.client.get(format!("{api}{path}")).bearer_auth(KEY).send().await
            && let Ok(job) = response.json::<Value>().await
            && job["status"] == status
        {
            return job;
        }
        assert!(start.elapsed() < PATIENCE, "{api}{path} is not {status}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemons_clips_are_finished_by_another_one_and_any_daemon_cancels_them() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 2);
    let caller = Caller::new(&cluster);
    for number in 0..2 {
        until_status(&caller.client, &format!("{}/readyz", cluster.admin(number)), 200).await;
    }
    let clip = made(folder.path(), "clip.mp4", &["testsrc2=size=160x96:rate=10:duration=20"], "-pix_fmt yuv420p");
    let clip = Bytes::from(std::fs::read(clip).unwrap());
    let apis = cluster.apis();
    let post = async |name: &str| {
        let form = Form::new().part("file", Part::stream(clip.clone()).file_name("clip.mp4"));
        let request = caller.client.post(format!("{}/video/remove", apis[0])).header("Idempotency-Key", name);
        let job: Value = request.bearer_auth(KEY).multipart(form).send().await.unwrap().json().await.unwrap();
        job["status_url"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
    };
    // Through the other daemon.
    let cancelled = post("cancelled").await;
    let deleted = caller.client.delete(format!("{}{cancelled}", apis[1])).bearer_auth(KEY).send().await.unwrap();
    assert_eq!(deleted.status(), 200, "{}", deleted.text().await.unwrap_or_default());
    until_job(&caller, &apis[0], &cancelled, "error").await;

    let path = post("finished").await;
    until_job(&caller, &apis[1], &path, "processing").await;
    // The first segment of two seconds is in the result store.
    let id = path.trim_start_matches("/jobs/");
    let checkpoint = folder.path().join(format!("results/{id}.checkpoint"));
    let start = Instant::now();
    let is_state = |file: std::fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("segment-") && name.ends_with(".state")
    };
    while !std::fs::read_dir(&checkpoint).is_ok_and(|files| files.flatten().any(is_state)) {
        assert!(start.elapsed() < PATIENCE, "no checkpoint is stored");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cluster.kill(0);
    let start = Instant::now();
    let done = until_job(&caller, &apis[1], &path, "done").await;
    println!("a clip of twenty seconds is finished elsewhere {:?} after its daemon was killed", start.elapsed());
    assert!(cluster.log(1).contains("a clip resumes"), "{}", cluster.log(1));
    assert_eq!((&done["progress"], &done["output_seconds"]), (&100.into(), &20.0.into()));
    let result = caller.client.get(done["result_url"].as_str().expect("an address"));
    let result = result.send().await.unwrap().bytes().await.unwrap();
    assert_eq!(Some(result.len() as u64), done["size_bytes"].as_u64());
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT images FROM usage").trim(), "20", "it is billed once");

    // The one that was killed comes back, and knows all of it.
    cluster.restart_ended();
    until_job(&caller, &apis[0], &path, "done").await;
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("results")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "only the result is left: {left:?}");

    let path = post("uninterrupted").await;
    let done = until_job(&caller, &apis[0], &path, "done").await;
    let uninterrupted = caller.client.get(done["result_url"].as_str().expect("an address"));
    let uninterrupted = uninterrupted.send().await.unwrap().bytes().await.unwrap();
    assert!(result == uninterrupted, "{} bytes, without a kill {} others", result.len(), uninterrupted.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_lease_bills_are_refused_with_503_while_the_database_is_away_and_readiness_fails() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), server.database(), 1);
    let caller = Caller::new(&cluster);
    // No picture before: a key has a lease once it was billed.
    let [ready, live] = ["readyz", "livez"].map(|path| format!("{}/{path}", cluster.admin(0)));
    until_status(&caller.client, &ready, 200).await;
    server.crash();
    let reason = until_status(&caller.client, &ready, 503).await;
    assert!(reason.contains("the store cannot write") && !reason.contains(PASSWORD), "{reason}");
    until_status(&caller.client, &live, 200).await;
    let api = &caller.apis[0];
    let picture = || Form::new().part("file", Part::stream(cutout()));
    for request in [
        caller.client.post(format!("{api}/remove")).header("Idempotency-Key", "second").multipart(picture()),
        caller.client.post(format!("{api}/remove")).multipart(picture()),
        caller.client.post(format!("{api}/presets")).json(&json!({ "name": "one" })),
        caller.client.get(format!("{api}/presets")),
        caller.client.get(format!("{api}/jobs")),
    ] {
        let response = request.bearer_auth(KEY).send().await.expect("it answers");
        let retry = response.headers().contains_key("retry-after");
        let (url, status) = (response.url().clone(), response.status());
        let body = response.text().await.expect("a text");
        assert!(status == 503 && retry && !body.contains(PASSWORD), "{url}: {status} {retry} {body}");
    }
    // From memory.
    let account = caller.client.get(format!("{api}/account")).bearer_auth(KEY).send().await.expect("it answers");
    assert_eq!(account.json::<Value>().await.expect("JSON")["used"], 0);
    server.resume(&[]);
    until_status(&caller.client, &ready, 200).await;
    assert_eq!(caller.picture("second", &cutout()).await.status(), 200);
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "1");
    assert!(!cluster.log(0).contains(PASSWORD));
}

/// A picture at one daemon.
async fn post_picture(client: &Client, api: &str, key: &str, name: Option<&str>) -> Response {
    let form = Form::new().part("file", Part::stream(cutout()));
    let mut request = client.post(format!("{api}/remove")).bearer_auth(key).multipart(form);
    if let Some(name) = name {
        request = request.header("Idempotency-Key", name);
    }
    request.send().await.expect("it answers")
}

/// Waits until both daemons have a lease that was taken or renewed lately.
async fn until_both_lease(server: &Server, cluster: &Cluster) {
    let start = Instant::now();
    let text = "SELECT count(DISTINCT daemon) FROM leases WHERE images > 0 AND lease_until > now() + interval '30 s'";
    while server.sql(name_of(&cluster.url), text).trim() != "2" {
        assert!(start.elapsed() < PATIENCE, "the daemons have no leases");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_leases_answer_pictures_which_are_billed_once_it_is_back() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 2);
    let caller = Caller::new(&cluster);
    let apis = cluster.apis();
    let ready = [0, 1].map(|number| format!("{}/readyz", cluster.admin(number)));
    let mut billed = 0;
    for (api, ready) in apis.iter().zip(&ready) {
        until_status(&caller.client, ready, 200).await;
        assert_eq!(post_picture(&caller.client, api, KEY, None).await.status(), 200);
        billed += 1;
    }
    until_both_lease(&server, &cluster).await;

    server.crash();
    let gone = Instant::now();
    let mut answered = 0;
    loop {
        let response = post_picture(&caller.client, &apis[0], KEY, None).await;
        if response.status() != 200 {
            let retry = response.headers().contains_key("retry-after");
            assert!(response.status() == 503 && retry, "{response:?}");
            break;
        }
        if answered == 0 {
            // The same request at both is billed once.
            for api in &apis {
                assert_eq!(post_picture(&caller.client, api, KEY, Some("twice")).await.status(), 200);
            }
            billed += 1;
            let shown = until_status(&caller.client, &ready[0], 200).await;
            assert!(shown.contains("the store cannot write") && !shown.contains(PASSWORD), "{shown}");
            let presets = caller.client.get(format!("{}/presets", apis[0])).bearer_auth(KEY).send().await;
            assert_eq!(presets.expect("it answers").status(), 503);
        }
        (billed, answered) = (billed + 1, answered + 1);
        assert!(gone.elapsed() < PATIENCE, "the lease does not end");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((2..100).contains(&answered), "until the lease ended, before its images were used up: {answered}");
    until_status(&caller.client, &ready[0], 503).await;
    server.resume(&[]);
    until_status(&caller.client, &ready[0], 200).await;
    until_status(&caller.client, &ready[1], 200).await;
    until_billed(&caller.client, &cluster).await;
    let sql = |text: &str| server.sql(name_of(&cluster.url), text).trim().to_owned();
    assert_eq!(sql("SELECT sum(images) FROM usage"), billed.to_string());
    assert_eq!(sql("SELECT count(*) FROM requests"), "1");

    // A daemon that is killed meanwhile loses what it answered, and its lease returns at its next start at the latest.
    for api in &apis {
        assert_eq!(post_picture(&caller.client, api, KEY, None).await.status(), 200);
        billed += 1;
    }
    until_both_lease(&server, &cluster).await;
    server.crash();
    assert_eq!(post_picture(&caller.client, &apis[1], KEY, None).await.status(), 200);
    cluster.kill(1);
    server.resume(&[]);
    cluster.restart_ended();
    for ready in &ready {
        until_status(&caller.client, ready, 200).await;
    }
    let sql = |text: &str| server.sql(name_of(&cluster.url), text).trim().to_owned();
    assert_eq!(sql("SELECT count(DISTINCT daemon) FROM leases WHERE lease_until > now() + interval '6 s'"), "1");
    assert_eq!(sql("SELECT sum(images) FROM usage"), billed.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_not_exceeded_by_daemons_that_lose_the_database() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.database();
    let results = results_in(folder.path());
    let command = |arguments: &[&str]| {
        let mut command = backdrop();
        command.args(arguments).arg("--data-dir").arg(folder.path().join("command"));
        command.env("BACKDROP_STORE_URL", &url).env("BACKDROP_JOBS_RESULTS", &results);
        let output = command.output().expect("the binary runs");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output).trim().to_owned()
    };
    let cluster = Cluster::start(folder.path(), url.clone(), 2);
    let caller = Caller::new(&cluster);
    for number in 0..2 {
        until_status(&caller.client, &format!("{}/readyz", cluster.admin(number)), 200).await;
    }
    // The free plan has 50 images a month.
    command(&["accounts", "create", "free"]);
    let key = command(&["keys", "create", "--account", "free", "--label", "free"]);
    caller.all_answer("/account", &key, 200).await;
    let statuses = async |most: usize| {
        let mut statuses = Vec::new();
        for number in 0..most {
            statuses.push(post_picture(&caller.client, &caller.apis[number % 2], &key, None).await.status().as_u16());
        }
        statuses
    };
    assert_eq!(statuses(10).await, [200; 10]);
    until_both_lease(&server, &cluster).await;
    server.crash();
    let away = statuses(30).await;
    let answered = away.iter().filter(|status| **status == 200).count();
    assert!((2..=8).contains(&answered), "as far as two leases of at most four images go: {away:?}");
    assert!(away.iter().all(|status| [200, 503].contains(status)), "{away:?}");
    server.resume(&[]);
    for number in 0..2 {
        until_status(&caller.client, &format!("{}/readyz", cluster.admin(number)), 200).await;
    }
    // The rest, while the leases shrink with it. 503: a daemon leases the last images.
    let start = Instant::now();
    let mut exhausted = 0;
    while exhausted < 2 {
        exhausted = statuses(2).await.iter().filter(|status| **status == 402).count();
        assert!(start.elapsed() < PATIENCE, "the quota is not exhausted");
    }
    until_billed(&caller.client, &cluster).await;
    assert_eq!(server.sql(name_of(&cluster.url), "SELECT sum(images) FROM usage").trim(), "50");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_database_lost_commits_ends_with_an_error() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), server.database(), 1);
    let caller = Caller::new(&cluster);
    assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    // As a standby that was promoted before the last commits reached it.
    let lose = "UPDATE meta SET number = number - 1 WHERE name = 'commits'; \
         DELETE FROM commits WHERE number > (SELECT number FROM meta WHERE name = 'commits')";
    server.sql(name_of(&cluster.url), lose);
    server.cut_connections();
    let ended = tokio::task::spawn_blocking(move || (cluster.daemons[0].0.wait().expect("it ends"), cluster));
    let (status, cluster) = tokio::time::timeout(PATIENCE, ended).await.expect("it ends").expect("no panic");
    assert!(!status.success());
    assert!(cluster.log(0).contains("stale"), "{}", cluster.log(0));
}

#[test]
fn commands_work_on_the_database_and_the_store_moves_between_the_two() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
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
    // The file was not moved into this database.
    let empty = server.database();
    let refused = run(Some(&empty), &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    assert!(!refused.status.success() && stderr(&refused).contains("store export"), "{}", stderr(&refused));
    // Results must be where every daemon finds them.
    let alone = backdrop().args(["config"]).env("BACKDROP_STORE_URL", &url).output().expect("the binary runs");
    assert!(stderr(&alone).contains("jobs.results"), "{}", stderr(&alone));
    for output in [check, refused, alone] {
        assert!(!stderr(&output).contains(PASSWORD), "{}", stderr(&output));
    }
}
