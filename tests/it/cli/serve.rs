//! `backdrop serve`: start, first key, one picture, shutdown.

#![cfg(unix)]

use crate::support::command::{backdrop, http_client, json, photo, stderr};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

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
        let child = backdrop()
            .args(["serve", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .env("BACKDROP_LOG_FORMAT", "json")
            .envs(variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        Self(child)
    }

    /// The address of the API, from the log.
    pub(crate) fn address(&mut self) -> String {
        self.addresses().0
    }

    /// The addresses of the API and of the admin interface, from the log.
    pub(crate) fn addresses(&mut self) -> (String, String) {
        self.addresses_and_log().0
    }

    /// Also the rest of the log, once the daemon has ended.
    fn addresses_and_log(&mut self) -> ((String, String), JoinHandle<Vec<String>>) {
        let log = BufReader::new(self.0.stderr.take().expect("piped"));
        let mut lines = log.lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("\"listening\"")).expect("the daemon listens");
        // Read all the time, because the daemon blocks on a full pipe.
        let rest = std::thread::spawn(move || lines.collect());
        let event: serde_json::Value = serde_json::from_str(&line).expect("a JSON line");
        let of = |name: &str| event["fields"][name].as_str().expect("an address").to_owned();
        ((of("address"), of("admin")), rest)
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }

    fn output_and_code(mut self) -> (String, Option<i32>) {
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut self.0.stdout.take().expect("piped"), &mut printed).expect("text");
        (printed, self.0.wait().expect("it ends").code())
    }
}

/// The line of `printed` that is a key.
pub(crate) fn key_in(printed: &str) -> Option<&str> {
    printed.lines().map(str::trim).find(|line| line.starts_with("bd_live_"))
}

#[test]
fn only_the_first_start_prints_a_key_and_it_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(folder.path());
    let address = daemon.address();
    // The key is printed before the log says that the daemon listens.
    let mut stdout = BufReader::new(daemon.0.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("curl") {
        assert_ne!(stdout.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    let key = key_in(&printed).expect("a key").to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (status, body) = runtime.block_on(async {
        let photo = reqwest::multipart::Part::bytes(fs::read(photo("coffee.jpg")).unwrap());
        let request = http_client()
            .build()
            .expect("a client")
            .post(format!("http://{address}/remove"))
            .bearer_auth(&key)
            .multipart(reqwest::multipart::Form::new().part("file", photo))
            .timeout(Duration::from_secs(120));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap())
    });
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert!(body.starts_with(b"\x89PNG"));
    daemon.signal("TERM");
    daemon.0.stdout = None;
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));

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
        let mut daemon = Daemon(
            backdrop()
                .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
                .arg(&data_dir)
                .env("BACKDROP_LOG_FORMAT", "json")
                .stdout(stdout)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
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
        daemon.signal("TERM");
        assert_eq!(daemon.0.wait().unwrap().code(), Some(0), "{name}");
    }
}

#[test]
fn a_configured_first_key_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon(
        backdrop()
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path())
            .env("BACKDROP_LOG_FORMAT", "json")
            .env("BACKDROP_BOOTSTRAP_KEY", "bd_live_0123456789abcdefghijABCDEFGHIJ01")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    daemon.address();
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
    daemon.signal("TERM");
    let (_, code) = daemon.output_and_code();
    assert_eq!(code, Some(0), "it drained");
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

#[test]
fn no_password_or_query_of_a_url_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let key = "bd_live_0123456789abcdefghijABCDEFGHIJ01";
    let variables = [("BACKDROP_LOG_FILTER", "trace"), ("BACKDROP_BOOTSTRAP_KEY", key)];
    let mut daemon = Daemon::start_with(folder.path(), &variables);
    let ((address, _), log) = daemon.addresses_and_log();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = http_client().build().expect("a client");
        for scheme in ["https", "http", "ftp"] {
            for host in ["127.0.0.1", "nowhere.invalid", "[::1"] {
                let url = format!("{scheme}://user:HIDDEN@{host}/a.jpg?token=HIDDEN#HIDDEN");
                for (path, member) in [("/remove", "url"), ("/remove", "mask_url"), ("/video/remove", "webhook_url")] {
                    let body = serde_json::json!({ "url": "https://127.0.0.1/a.jpg", member: url });
                    let request = client.post(format!("http://{address}{path}")).bearer_auth(key).json(&body);
                    let status = request.send().await.unwrap().status();
                    assert!(status.is_client_error(), "{path} {url}: {status}");
                }
            }
        }
    });
    daemon.signal("TERM");
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    let logged = log.join().expect("no panic inside");
    assert!(logged.iter().any(|line| line.contains("\"DEBUG\"") && line.contains("/remove")), "{logged:?}");
    if let Some(line) = logged.iter().find(|line| line.contains("HIDDEN")) {
        panic!("{line}");
    }
}
