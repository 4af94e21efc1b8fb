//! moto as the object store of a test: an S3 server from PyPI, which `make cluster-test` installs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, RequestBuilder};

use super::postgres::stable_port;

/// The `Authorization` of requests to S3. moto does not check the signature.
const AUTHORIZATION: &str =
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// A running server with the bucket `results`. Stopped when it is dropped.
pub(crate) struct Moto {
    process: Child,
    port: u16,
}

impl Moto {
    /// Starts the program that `BACKDROP_TEST_MOTO` names; `None` without the variable.
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

    /// Stores an object of the bucket.
    pub(crate) async fn put(&self, client: &Client, key: &str, bytes: Vec<u8>) {
        answered(client.put(self.url(&format!("/{key}"))).body(bytes)).await;
    }

    /// The objects of the bucket below a prefix, at most a thousand, by their keys without the prefix.
    pub(crate) async fn objects(&self, client: &Client, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let listing = answered(client.get(self.url(&format!("?list-type=2&prefix={prefix}")))).await;
        let listing = String::from_utf8(listing).expect("XML");
        let mut objects = BTreeMap::new();
        for rest in listing.split("<Key>").skip(1) {
            let (key, _) = rest.split_once("</Key>").expect("the end of the key");
            let bytes = answered(client.get(self.url(&format!("/{key}")))).await;
            objects.insert(key.strip_prefix(prefix).expect("the prefix").to_owned(), bytes);
        }
        objects
    }

    fn url(&self, of: &str) -> String {
        format!("http://127.0.0.1:{}/results{of}", self.port)
    }

    /// The environment variables by which a daemon stores its results in the bucket.
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

/// The body of a response of S3.
async fn answered(request: RequestBuilder) -> Vec<u8> {
    let response = request.header("Authorization", AUTHORIZATION).send().await.expect("an answer");
    let (status, body) = (response.status(), response.bytes().await.expect("a body"));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    body.into()
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
