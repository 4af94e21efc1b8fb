//! `backdrop serve`: start, first key, one picture, shutdown.

#![cfg(unix)]

use crate::support::command::{backdrop, http_client, json, photo, stderr};
use reqwest::{Client, RequestBuilder};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// The first key of daemons that are started with one.
pub(crate) const KEY: &str = "bd_live_0123456789abcdefghijABCDEFGHIJ01";

/// Has `program` be a daemon on free ports, with a log of JSON lines and piped output.
pub(crate) fn serve(mut program: Command, data_dir: &Path) -> Command {
    program.args(["serve", "--admin-listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    program.envs([("BACKDROP_LISTEN", "127.0.0.1:0"), ("BACKDROP_LOG_FORMAT", "json")]);
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

/// A daemon on ports of its own; killed when the test ends.
pub(crate) struct Daemon(pub(crate) Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    pub(crate) fn start_with(data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start_at("127.0.0.1:0", data_dir, variables.iter().copied())
    }

    /// Starts one whose API has this address.
    pub(crate) fn start_at(
        listen: &str,
        data_dir: &Path,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> Self {
        Self::spawn(serve(backdrop(), data_dir).env("BACKDROP_LISTEN", listen).envs(variables))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program starts"))
    }

    /// The address of the API, from the log.
    pub(crate) fn address(&mut self) -> String {
        self.addresses().0
    }

    /// The addresses of the API and of the admin interface, from the log.
    pub(crate) fn addresses(&mut self) -> (String, String) {
        self.addresses_and_log().0
    }

    /// Also the log, once the daemon has ended.
    fn addresses_and_log(&mut self) -> ((String, String), JoinHandle<Vec<String>>) {
        let log = BufReader::new(self.0.stderr.take().expect("piped"));
        let (mut lines, mut log) = (log.lines().map_while(Result::ok), Vec::new());
        while !log.last().is_some_and(|line: &String| line.contains("\"listening\"")) {
            log.push(lines.next().expect("the daemon listens"));
        }
        let event: serde_json::Value = serde_json::from_str(&log[log.len() - 1]).expect("a JSON line");
        let of = |name: &str| event["fields"][name].as_str().expect("an address").to_owned();
        // Read all the time, because the daemon blocks on a full pipe.
        let log = std::thread::spawn(move || log.into_iter().chain(lines).collect());
        ((of("address"), of("admin")), log)
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }

    /// Ends it by SIGTERM, and checks that it drained.
    pub(crate) fn drain(mut self) {
        self.signal("TERM");
        // Nothing reads what it prints.
        self.0.stdout = None;
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0));
    }

    fn output_and_code(mut self) -> (String, Option<i32>) {
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut self.0.stdout.take().expect("piped"), &mut printed).expect("text");
        (printed, self.0.wait().expect("it ends").code())
    }
}

/// A daemon that listens, and a client of it.
pub(crate) struct Running {
    pub(crate) daemon: Daemon,
    pub(crate) client: Client,
    /// Of the API.
    pub(crate) url: String,
    /// Of the admin interface.
    pub(crate) admin: String,
}

impl Running {
    /// Starts one that has [`KEY`].
    pub(crate) fn start(data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        let variables = [&[("BACKDROP_BOOTSTRAP_KEY", KEY)], variables].concat();
        Self::of(Daemon::start_with(data_dir, &variables))
    }

    pub(crate) fn of(daemon: Daemon) -> Self {
        Self::of_logged(daemon).0
    }

    /// Also its log, once the daemon has ended.
    pub(crate) fn of_logged(mut daemon: Daemon) -> (Self, JoinHandle<Vec<String>>) {
        let ((address, admin), log) = daemon.addresses_and_log();
        let (url, admin) = (format!("http://{address}"), format!("http://{admin}"));
        (Self { daemon, client: http_client().build().expect("a client"), url, admin }, log)
    }

    /// A request with [`KEY`].
    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).bearer_auth(KEY)
    }

    /// The response to a request with [`KEY`].
    pub(crate) async fn get(&self, path: &str) -> serde_json::Value {
        let response = self.client.get(format!("{}{path}", self.url)).bearer_auth(KEY).send().await;
        response.expect("a response").json().await.expect("JSON")
    }

    /// A page of the admin interface.
    pub(crate) async fn page(&self, path: &str) -> String {
        let response = self.client.get(format!("{}{path}", self.admin)).send().await.expect("a response");
        response.text().await.expect("text")
    }
}

/// The line of `printed` that is a key.
pub(crate) fn key_in(printed: &str) -> Option<&str> {
    printed.lines().map(str::trim).find(|line| line.starts_with("bd_live_"))
}

#[tokio::test]
async fn only_the_first_start_prints_a_key_and_it_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(folder.path());
    let address = daemon.address();
    // The key is printed before the log says that the daemon listens.
    let mut stdout = BufReader::new(daemon.0.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("curl") {
        assert_ne!(stdout.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    let key = key_in(&printed).expect("a key");
    let photo = reqwest::multipart::Part::bytes(fs::read(photo("coffee.jpg")).unwrap());
    let form = reqwest::multipart::Form::new().part("file", photo);
    let client = http_client().build().expect("a client");
    let response = client.post(format!("http://{address}/remove")).bearer_auth(key).multipart(form).send().await;
    let response = response.unwrap();
    let (status, body) = (response.status(), response.bytes().await.unwrap());
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert!(body.starts_with(b"\x89PNG"));
    daemon.drain();

    let mut again = Daemon::start(folder.path());
    again.address();
    again.signal("INT");
    let (printed, code) = again.output_and_code();
    assert_eq!((key_in(&printed), code), (None, Some(0)), "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_first_key_that_cannot_be_printed_is_revoked_and_another_can_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for (name, stdout) in [("full", Stdio::from(full)), ("closed", Stdio::from(closed))] {
        let data_dir = folder.path().join(name);
        let mut daemon = Daemon::spawn(serve(backdrop(), &data_dir).stdout(stdout));
        let log = BufReader::new(daemon.0.stderr.take().unwrap());
        let mut lines = log.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("`backdrop keys create`")), "{name}: it is logged");
        assert!(lines.any(|line| line.contains("\"listening\"")), "{name}: it goes on");
        std::thread::spawn(move || lines.for_each(drop));
        let keys = |arguments: &[&str]| {
            let output = backdrop().arg("keys").args(arguments).arg("--data-dir").arg(&data_dir).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            json(&output)
        };
        let listed = keys(&["list", "--json"]);
        assert!(listed["keys"][0]["revoked_at"].is_string() && listed["keys"][1].is_null(), "{name}: {listed}");
        keys(&["create", "--json"]);
        daemon.drain();
    }
}

#[test]
fn a_configured_first_key_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let Running { daemon, .. } = Running::start(folder.path(), &[]);
    daemon.signal("TERM");
    let (printed, code) = daemon.output_and_code();
    assert_eq!((printed.as_str(), code), ("", Some(0)));
}

#[test]
fn a_hangup_without_a_certificate_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(folder.path());
    daemon.address();
    daemon.signal("HUP");
    daemon.drain();
}

#[test]
fn an_address_in_use_is_an_error_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = backdrop().args(["serve", "--listen", &address, "--data-dir"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains(&format!("cannot listen on {address}")) && printed.contains("with --listen"), "{printed}");
}

#[tokio::test]
async fn no_password_or_query_of_a_url_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("BACKDROP_LOG_FILTER", "trace"), ("BACKDROP_BOOTSTRAP_KEY", KEY)];
    let (running, log) = Running::of_logged(Daemon::start_with(folder.path(), &variables));
    for scheme in ["https", "http", "ftp"] {
        for host in ["127.0.0.1", "nowhere.invalid", "[::1"] {
            let url = format!("{scheme}://user:HIDDEN@{host}/a.jpg?token=HIDDEN#HIDDEN");
            for (path, member) in [("/remove", "url"), ("/remove", "mask_url"), ("/video/remove", "webhook_url")] {
                let body = serde_json::json!({ "url": "https://127.0.0.1/a.jpg", member: url });
                let status = running.post(path).json(&body).send().await.unwrap().status();
                assert!(status.is_client_error(), "{path} {url}: {status}");
            }
        }
    }
    running.daemon.drain();
    let logged = log.join().expect("no panic inside");
    assert!(logged.iter().any(|line| line.contains("\"DEBUG\"") && line.contains("/remove")), "{logged:?}");
    if let Some(line) = logged.iter().find(|line| line.contains("HIDDEN")) {
        panic!("{line}");
    }
}
