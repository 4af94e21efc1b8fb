//! Daemons on one database, and clients that call them.

use crate::cli::serve::Daemon;
pub(super) use crate::cli::serve::KEY;
use crate::support::command::{backdrop, http_client, stderr, stdout};
use crate::support::pictures::png;
use crate::support::postgres::{Server, results_in, stable_port};
use backdrop::image::Size;
use bytes::Bytes;
use reqwest::multipart::{Form, Part};
use reqwest::{Client, Response};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any answer takes on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// A picture that is a cutout already, so that the network is not run.
pub(super) fn cutout() -> Bytes {
    png(Size::new(16, 16), |x, _| [200, 90, 30, if x < 8 { 255 } else { 0 }])
}

/// Daemons on one database. Each has a data directory and ports, which it keeps over a restart.
pub(super) struct Cluster {
    folder: PathBuf,
    pub(super) url: String,
    /// Of the API and of the admin interface.
    pub(super) ports: Vec<[u16; 2]>,
    variables: Vec<(&'static str, String)>,
    pub(super) daemons: Vec<Daemon>,
}

impl Cluster {
    /// With results in the folder.
    pub(super) fn start(folder: &Path, url: String, size: usize) -> Self {
        Self::start_with(folder, url, size, vec![("BACKDROP_JOBS_RESULTS", results_in(folder))])
    }

    pub(super) fn start_with(folder: &Path, url: String, size: usize, variables: Vec<(&'static str, String)>) -> Self {
        let ports = (0..size).map(|_| [stable_port(), stable_port()]).collect();
        let mut cluster = Self { folder: folder.to_owned(), url, ports, variables, daemons: Vec::new() };
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
        // A revoked key is sent until every daemon refuses it.
        command.env("BACKDROP_SERVER_WRONG_KEYS_PER_MINUTE", "1000000");
        command.envs(self.variables());
        Daemon(command.stdout(Stdio::null()).stderr(log).spawn().expect("the binary starts"))
    }

    /// What every program on the database needs.
    fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let others = self.variables.iter().map(|(name, value)| (*name, value.as_str()));
        others.chain([("BACKDROP_STORE_URL", self.url.as_str())])
    }

    /// Runs a command on the database.
    pub(super) fn command(&self, arguments: &[&str]) -> Output {
        let mut command = backdrop();
        command.args(arguments).arg("--data-dir").arg(self.folder.join("command"));
        command.envs(self.variables());
        command.output().expect("the binary runs")
    }

    /// What a command on the database prints.
    pub(super) fn printed(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output).trim().to_owned()
    }

    /// Waits until all daemons are ready.
    pub(super) async fn until_ready(&self, client: &Client) {
        for number in 0..self.ports.len() {
            until_status(client, &format!("{}/readyz", self.admin(number)), 200).await;
        }
    }

    fn data_of(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    fn log_of(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number}.log"))
    }

    pub(super) fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.log_of(number)).expect("a log")
    }

    pub(super) fn apis(&self) -> Vec<String> {
        self.ports.iter().map(|[api, _]| format!("http://127.0.0.1:{api}")).collect()
    }

    pub(super) fn admin(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[number][1])
    }

    /// Ends a daemon with SIGKILL.
    pub(super) fn kill(&mut self, number: usize) {
        let daemon = &mut self.daemons[number].0;
        daemon.kill().expect("it runs, or ended by itself");
        daemon.wait().expect("it ends");
    }

    /// Waits until a daemon has ended with an error that its log shows.
    pub(super) async fn until_failed(&mut self, number: usize, error: &str) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.daemons[number].0.try_wait().expect("its state is known") {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "daemon {number} does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(!status.success() && self.log(number).contains(error), "{status}: {}", self.log(number));
    }

    /// Starts those again that ended, as a service manager does.
    pub(super) fn restart_ended(&mut self) {
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

/// A server, a folder, daemons that are ready on both, and their caller; `None` without PostgreSQL.
pub(super) async fn started(daemons: usize) -> Option<(Server, TempDir, Cluster, Caller)> {
    let (server, folder) = (Server::start()?, tempfile::tempdir().unwrap());
    let cluster = Cluster::start(folder.path(), server.database(), daemons);
    let caller = Caller::new(&cluster);
    cluster.until_ready(&caller.client).await;
    Some((server, folder, cluster, caller))
}

/// A client that sends each request to another entry, and to the next one where an entry does not answer.
pub(super) struct Caller {
    pub(super) client: Client,
    /// The addresses of all daemons.
    pub(super) apis: Vec<String>,
    /// Where requests go: the daemons, or a balancer.
    entries: Vec<String>,
    turn: AtomicUsize,
}

impl Caller {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self::through(cluster, cluster.apis())
    }

    pub(super) fn through(cluster: &Cluster, entries: Vec<String>) -> Self {
        let client = http_client().timeout(PATIENCE).build().expect("a client");
        Self { client, apis: cluster.apis(), entries, turn: AtomicUsize::new(0) }
    }

    /// The first answer of a daemon with a database; `None` without such an answer.
    async fn send(&self, request: impl Fn(&Client, &str) -> reqwest::RequestBuilder) -> Option<Response> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for number in (0..self.entries.len()).map(|more| (first + more) % self.entries.len()) {
            if let Ok(response) = request(&self.client, &self.entries[number]).bearer_auth(KEY).send().await
                && let Some(response) = whole(response).await
            {
                // 503: the daemon has no database, or lost it during the commit. 502, 504: the balancer's.
                if ![502, 503, 504].contains(&response.status().as_u16()) {
                    return Some(response);
                }
            }
        }
        None
    }

    /// Repeats a request until a daemon answers it.
    pub(super) async fn until_answered(&self, request: impl Fn(&Client, &str) -> reqwest::RequestBuilder) -> Response {
        let start = Instant::now();
        loop {
            if let Some(response) = self.send(&request).await {
                return response;
            }
            assert!(start.elapsed() < PATIENCE, "no daemon answers");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) async fn picture(&self, key: &str, file: &Bytes) -> Response {
        let post = |client: &Client, api: &str| {
            let form = Form::new().part("file", Part::stream(file.clone()));
            client.post(format!("{api}/remove")).header("Idempotency-Key", key).multipart(form)
        };
        self.until_answered(post).await
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let response = self.until_answered(|client, api| client.get(format!("{api}{path}"))).await;
        response.json().await.expect("JSON")
    }

    /// Waits until every daemon answers a path for a key with this status.
    pub(super) async fn all_answer(&self, path: &str, key: &str, status: u16) {
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
    }
}

/// Waits until a daemon's admin interface answers `path` with this status; returns the answer.
pub(super) async fn until_status(client: &Client, url: &str, status: u16) -> String {
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

/// Creates a key with a command; `None` where the server is away.
pub(super) fn create_key(cluster: &Cluster) -> Option<String> {
    let output = cluster.command(&["keys", "create", "--label", "storm"]);
    output.status.success().then(|| stdout(&output).trim().to_owned())
}
