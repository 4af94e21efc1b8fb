//! moto as the object store of a test: an S3 server from PyPI, which `make cluster-test` installs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::postgres::stable_port;

/// A running server with the bucket `results`. Stopped when it is dropped.
pub(crate) struct Moto {
    process: Child,
    port: u16,
}

impl Moto {
    /// Starts the program that `BACKDROP_TEST_MOTO` names; `None` where the tests run without one.
    #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
    pub(crate) fn start() -> Option<Self> {
        let program = PathBuf::from(std::env::var_os("BACKDROP_TEST_MOTO")?);
        let port = stable_port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { process: command.spawn().expect("moto starts"), port };
        let start = Instant::now();
        while !server.create_bucket() {
            assert!(start.elapsed() < Duration::from_secs(60), "moto creates no bucket");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    fn create_bucket(&self) -> bool {
        let Ok(mut connection) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let head = "PUT /results HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        connection.write_all(head.as_bytes()).and_then(|()| connection.read_to_string(&mut answer)).is_ok()
            && answer.starts_with("HTTP/1.1 200 ")
    }

    /// The variables by which a daemon stores its results there.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let pairs = [
            ("BACKDROP_JOBS_RESULTS", "s3://results/jobs"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        let address = ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port));
        pairs.into_iter().map(|(name, value)| (name, value.to_owned())).chain([address]).collect()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
