//! An HTTP/1.1 client for load tests: a keep-alive connection for each query in flight, up to a bound.

use super::query::{Outcome, Reply};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

const BOUNDARY: &str = "backdrop-bench-5f2c9e1ab7";

type Connection = SendRequest<Full<Bytes>>;

/// The URL to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DaemonUrl {
    authority: String,
    path: String,
}

impl FromStr for DaemonUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: http::Uri = text.parse().map_err(|error| format!("{error}"))?;
        let Some(authority) = uri.authority().filter(|_| uri.scheme_str() == Some("http")) else {
            return Err("expected http://HOST:PORT".to_owned());
        };
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self { authority: format!("{}:{port}", authority.host()), path: uri.path().to_owned() })
    }
}

impl DaemonUrl {
    /// Its path.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether it names an endpoint.
    pub(super) fn has_path(&self) -> bool {
        self.path != "/"
    }

    /// The same daemon at `path`.
    pub(super) fn at(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }
}

impl std::fmt::Display for DaemonUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// Builds a multipart body of fields and files.
pub(super) fn form(fields: &[(String, String)], files: &[(&str, &[u8])]) -> Bytes {
    let mut body = Vec::new();
    let mut part = |head: String, content: &[u8]| {
        body.extend_from_slice(format!("--{BOUNDARY}\r\ncontent-disposition: form-data; {head}\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    };
    for (name, value) in fields {
        part(format!("name=\"{name}\""), value.as_bytes());
    }
    for (name, content) in files {
        let head = format!("name=\"{name}\"; filename=\"photo\"\r\ncontent-type: application/octet-stream");
        part(head, content);
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body.into()
}

/// The connections to a daemon.
pub(super) struct HttpClient {
    url: DaemonUrl,
    authorization: String,
    /// The request body of each photo.
    bodies: Vec<Bytes>,
    idle: Mutex<Vec<Connection>>,
    max_connections: usize,
    free: Semaphore,
    peak: AtomicUsize,
}

impl HttpClient {
    /// A client that sends `bodies` over at most `max_connections` connections at once.
    pub(super) fn new(url: DaemonUrl, key: &str, bodies: Vec<Bytes>, max_connections: usize) -> Self {
        Self {
            url,
            authorization: format!("Bearer {key}"),
            bodies,
            idle: Mutex::default(),
            max_connections,
            free: Semaphore::new(max_connections),
            peak: AtomicUsize::new(0),
        }
    }

    /// The most connections that were in use at once.
    pub(super) fn peak_connections(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Sends one photo, unless no connection is free until `give_up`, and reads the whole response. A failed connection is not used
    /// again.
    pub(super) async fn send(&self, photo: usize, give_up: Option<Instant>) -> Reply {
        let began = Instant::now();
        let place = self.free.acquire();
        let place = match give_up {
            Some(give_up) => timeout_at(give_up.into(), place).await,
            None => Ok(place.await),
        };
        let waited = began.elapsed();
        let Ok(_place) = place.map(|place| place.expect("it is never closed")) else {
            let reason = "not sent: all connections of --max-connections are in use".to_owned();
            return Reply { waited, ..Reply::without_result(Outcome::Failed(reason), Duration::ZERO) };
        };
        self.peak.fetch_max(self.max_connections - self.free.available_permits(), Ordering::Relaxed);
        let started = Instant::now();
        let reply = match self.exchange(&self.bodies[photo]).await {
            Ok((StatusCode::OK, stages, model)) => {
                Reply { stages, model, ..Reply::without_result(Outcome::Done, started.elapsed()) }
            }
            Ok((StatusCode::TOO_MANY_REQUESTS, ..)) => Reply::without_result(Outcome::Refused, started.elapsed()),
            Ok((status, ..)) => Reply::without_result(Outcome::Failed(status.as_str().to_owned()), started.elapsed()),
            Err(reason) => Reply::without_result(Outcome::Failed(reason), started.elapsed()),
        };
        Reply { waited, ..reply }
    }

    async fn exchange(&self, body: &Bytes) -> Result<(StatusCode, Vec<(String, f64)>, Option<String>), String> {
        let mut connection = match self.idle_connection() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let request = Request::post(&self.url.path)
            .header(header::HOST, &self.url.authority)
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"))
            .body(Full::new(body.clone()))
            .map_err(|error| error.to_string())?;
        connection.ready().await.map_err(|error| error.to_string())?;
        let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let (stages, model) = (text("server-timing").map(stages), text("x-service-model").map(str::to_owned));
        response.into_body().collect().await.map_err(|error| error.to_string())?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok((status, stages.unwrap_or_default(), model))
    }

    /// The connection that was used last and is still open.
    fn idle_connection(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|connection| !connection.is_closed())
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream = TcpStream::connect(&self.url.authority).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends when the sender is dropped. The request reports its errors.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Names and milliseconds of a `server-timing` header.
fn stages(header: &str) -> Vec<(String, f64)> {
    let stage = |entry: &str| {
        let (name, parameters) = entry.trim().split_once(';')?;
        let duration = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("dur="))?;
        Some((name.to_owned(), duration.parse().ok()?))
    };
    header.split(',').filter_map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[test]
    fn server_timing_is_parsed_without_entries_that_have_no_duration() {
        assert_eq!(
            stages("decode;dur=1.5, cache, segment;desc=x;dur=20"),
            [("decode".into(), 1.5), ("segment".into(), 20.0)]
        );
    }

    #[test]
    fn a_url_has_a_host_and_defaults_to_port_80() {
        let url: DaemonUrl = "http://localhost".parse().unwrap();
        assert!(!url.has_path());
        assert_eq!(url.at("/remove").to_string(), "http://localhost:80/remove");
        let url: DaemonUrl = "http://[::1]:8080/mask".parse().unwrap();
        assert!(url.has_path());
        assert_eq!(url.to_string(), "http://[::1]:8080/mask");
        assert!("https://localhost".parse::<DaemonUrl>().is_err());
        assert!("localhost:8080".parse::<DaemonUrl>().is_err());
    }

    /// Answers every request of a connection after 50 ms: 200 to the first connection, 429 to the others.
    async fn slow_server(listener: TcpListener) {
        let mut accepted = 0;
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            accepted += 1;
            let status = if accepted == 1 { "200 OK" } else { "429 Too Many Requests" };
            tokio::spawn(async move {
                let mut request = Vec::new();
                while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
                    if !request.ends_with(b"--\r\n") {
                        continue;
                    }
                    request.clear();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    let head = format!("HTTP/1.1 {status}\r\nserver-timing: matte;dur=7\r\ncontent-length: 0\r\n\r\n");
                    stream.write_all(head.as_bytes()).await.expect("an answer");
                }
            });
        }
    }

    #[tokio::test]
    async fn connections_grow_with_the_load_up_to_the_maximum_and_are_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/remove", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(slow_server(listener));
        let client = HttpClient::new(url, "key", vec![form(&[], &[("file", b"x")])], 2);
        assert_eq!(client.send(0, None).await.outcome, Outcome::Done);
        assert_eq!(client.peak_connections(), 1);

        let (a, b, c) = tokio::join!(client.send(0, None), client.send(0, None), client.send(0, None));
        assert_eq!((a.outcome, b.outcome), (Outcome::Done, Outcome::Refused));
        assert_eq!(a.stages, [("matte".to_owned(), 7.0)]);
        assert_eq!(client.peak_connections(), 2);
        assert!(c.waited.min(c.took) >= Duration::from_millis(40), "{:?} {:?}", c.waited, c.took);

        let soon = Some(Instant::now() + Duration::from_millis(10));
        let (_, _, given_up) = tokio::join!(client.send(0, None), client.send(0, None), client.send(0, soon));
        assert!(matches!(given_up.outcome, Outcome::Failed(reason) if reason.starts_with("not sent")));
    }
}
