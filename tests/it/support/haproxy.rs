//! HAProxy in front of the daemons of a test, from the settings in `deploy/haproxy.cfg`, with the PROXY protocol to the daemons.

use std::fmt::Write;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::postgres::stable_port;

const PROGRAMS: [&str; 3] = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy", "/usr/bin/haproxy"];

/// The address that the balancer connects from. A daemon that expects the PROXY protocol from this address alone also answers
/// tests directly.
pub(crate) const SOURCE: &str = "127.0.0.2";

/// A running balancer. Stopped when it is dropped.
pub(crate) struct Balancer {
    process: Child,
    folder: TempDir,
    port: u16,
}

impl Balancer {
    /// Starts a balancer for daemons with these ports of the API and of the admin interface.
    pub(crate) fn start(daemons: &[[u16; 2]]) -> Self {
        let program = PROGRAMS.iter().find(|program| Path::new(program).exists());
        let program = program.expect("HAProxy is missing; `make test-packages` installs it");
        let (folder, port) = (tempfile::tempdir().expect("a temporary folder"), stable_port());
        let settings = folder.path().join("haproxy.cfg");
        fs::write(&settings, settings_for(port, daemons)).expect("it is written");
        let log = File::create(folder.path().join("log")).expect("a log");
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(settings).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        let process = command.spawn().expect("it starts");
        let mut balancer = Self { process, folder, port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let has_ended = balancer.process.try_wait().expect("its state is known").is_some();
            let is_late = start.elapsed() > Duration::from_secs(60);
            assert!(!has_ended && !is_late, "HAProxy does not listen: {}", balancer.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        balancer
    }

    /// The address of the API.
    pub(crate) fn api(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The example with this port and these daemons.
fn settings_for(port: u16, daemons: &[[u16; 2]]) -> String {
    let example = include_str!("../../../deploy/haproxy.cfg");
    let (settings, _) = example.split_once("\n  server ").expect("the example has servers");
    assert!(settings.contains("bind :8080"), "the example has another port");
    let mut settings = settings.replace("bind :8080", &format!("bind 127.0.0.1:{port}"));
    for (number, [api, admin]) in daemons.iter().enumerate() {
        let server = format!("127.0.0.1:{api} port {admin} source {SOURCE} send-proxy-v2");
        write!(settings, "\n  server daemon-{number} {server}").expect("a string takes everything");
    }
    settings + "\n"
}
