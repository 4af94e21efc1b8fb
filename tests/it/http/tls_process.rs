//! TLS of the binary: its flags, the reload on SIGHUP, and a log without keys.

#![cfg(unix)]

use crate::cli::serve::{KEY, serve};
use crate::http::tls_client::Authority;
use crate::support::command::{backdrop, stderr};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LONG: Duration = Duration::from_secs(60);

/// One that is well formed and unknown.
const WRONG_KEY: &str = "bd_live_9876543210jihgfedcbaJIHGFEDCBA98";

/// The log so far, and a signal for its next line.
type Log = Arc<(Mutex<Vec<String>>, Condvar)>;

/// A daemon with TLS, whose log is recorded.
struct Daemon {
    child: Child,
    log: Log,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    fn start(authority: &Authority, data_dir: &Path, filter: &str) -> Self {
        let mut child = serve(backdrop(), data_dir)
            .arg("--tls-cert")
            .arg(authority.certificate())
            .arg("--tls-key")
            .arg(authority.key())
            .env("BACKDROP_LOG_FILTER", filter)
            .env("BACKDROP_BOOTSTRAP_KEY", KEY)
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let log = Log::default();
        let (lines, kept) = (BufReader::new(child.stderr.take().expect("piped")).lines(), log.clone());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.0.lock().expect("no panic inside").push(line);
                kept.1.notify_all();
            }
        });
        Self { child, log }
    }

    /// Waits for the first line that contains `text`.
    fn line(&self, text: &str) -> String {
        let lines = self.log.0.lock().expect("no panic inside");
        let missing = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(text));
        let (lines, waited) = self.log.1.wait_timeout_while(lines, LONG, missing).expect("no panic inside");
        assert!(!waited.timed_out(), "{text:?} is not in the log:\n{}", lines.join("\n"));
        lines.iter().find(|line| line.contains(text)).expect("just found").clone()
    }

    fn address(&self) -> String {
        let event: serde_json::Value = serde_json::from_str(&self.line("\"listening\"")).expect("a JSON line");
        assert_eq!(event["fields"]["tls"], true);
        event["fields"]["address"].as_str().expect("an address").to_owned()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }

    /// Stops it and returns the whole log.
    fn end(mut self) -> Vec<String> {
        self.signal("TERM");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
        self.line("\"stopped\"");
        self.log.0.lock().expect("no panic inside").clone()
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

#[test]
fn sighup_reloads_the_certificate_and_an_invalid_pair_keeps_the_old_one() {
    let (authority, data) = (Authority::new(), tempfile::tempdir().expect("a writable folder"));
    let daemon = Daemon::start(&authority, data.path(), "info");
    let address = daemon.address();
    let certificate = || block_on(async { authority.connect(&address, &["h2"]).await.expect("TLS").certificate() });
    let issued = authority.issue();
    assert_ne!(certificate(), issued);
    daemon.signal("HUP");
    daemon.line("reloaded the TLS certificate");
    assert_eq!(certificate(), issued);

    std::fs::write(authority.certificate(), "half a file").expect("a writable folder");
    daemon.signal("HUP");
    let message = daemon.line("the old one stays");
    assert!(message.contains("ERROR") && message.contains("certificate.pem holds no certificate"), "{message}");
    assert_eq!(certificate(), issued);
    daemon.end();
}

#[test]
fn serve_refuses_to_start_with_an_invalid_certificate_or_key() {
    let (authority, other) = (Authority::new(), Authority::new());
    let data = tempfile::tempdir().expect("a writable folder");
    for (key, message) in [
        (Some(other.key()), "does not belong to the first certificate"),
        (None, "server.tls_key: expected the key of `tls_cert`"),
    ] {
        let mut command = serve(backdrop(), data.path());
        command.arg("--tls-cert").arg(authority.certificate());
        key.into_iter().for_each(|key| {
            command.arg("--tls-key").arg(key);
        });
        let output = command.output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
}

#[test]
fn no_key_is_logged_at_any_level() {
    let (authority, data) = (Authority::new(), tempfile::tempdir().expect("a writable folder"));
    let daemon = Daemon::start(&authority, data.path(), "trace");
    let address = daemon.address();
    block_on(async {
        for protocol in ["h2", "http/1.1"] {
            let mut client = authority.connect(&address, &[protocol]).await.expect("TLS").http().await;
            for (authorization, status) in [
                (format!("Bearer {KEY}"), 400),
                (format!("Bearer {WRONG_KEY}"), 401),
                (format!("Basic {WRONG_KEY}"), 401),
                (WRONG_KEY.to_owned(), 401),
            ] {
                let request = Request::post("/remove").header("authorization", authorization);
                let request = request.header("cookie", WRONG_KEY).header("proxy-authorization", WRONG_KEY);
                let request = request.header("content-type", "multipart/form-data; boundary=B");
                let request = request.body(Full::from(Bytes::from_static(b"--B--\r\n"))).expect("a request");
                let response = client.send(request).await.expect("an answer");
                assert_eq!(response.status(), status, "{:?}", response.body());
            }
        }
        // A key that is sent in the clear by mistake.
        let mut plain = tokio::net::TcpStream::connect(&address).await.expect("a connection");
        let request = format!("GET /docs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n");
        plain.write_all(request.as_bytes()).await.expect("it reads");
        let mut reply = String::new();
        let _ = plain.read_to_string(&mut reply).await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    });
    // Through the admin listener, with its own token; the reply contains a new key.
    let created = backdrop()
        .args(["keys", "create", "--account", "default", "--label", "second", "--data-dir"])
        .arg(data.path())
        .output()
        .expect("the binary starts");
    let printed = String::from_utf8_lossy(&created.stdout).into_owned() + &stderr(&created);
    assert!(created.status.success(), "{printed}");
    let is_key = |word: &&str| word.trim_matches('"').starts_with("bd_live_");
    let new_key = printed.split_whitespace().find(is_key).expect("a key").trim_matches('"').to_owned();

    let discovery = std::fs::read(data.path().join("admin.token")).expect("the daemon runs");
    let discovery: serde_json::Value = serde_json::from_slice(&discovery).expect("JSON");
    let token = discovery["token"].as_str().expect("a token").to_owned();

    let log = daemon.end();
    assert!(log.iter().any(|line| line.contains("answered")) && log.iter().any(|line| line.contains("TRACE")));
    for secret in [&token, &KEY["bd_live_".len()..], &WRONG_KEY["bd_live_".len()..], &new_key["bd_live_".len()..]] {
        let leak = log.iter().find(|line| line.contains(secret));
        assert_eq!(leak, None, "a key is in the log");
    }
}
