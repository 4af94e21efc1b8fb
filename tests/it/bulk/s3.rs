//! A small S3 server on the loopback with configurable faults. Its subset of the API is also that of Google Cloud Storage.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::command::backdrop;

/// A fault of one reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Answers this status.
    Status(u16),
    /// Closes the connection without an answer.
    Reset,
    /// Announces the whole body and sends half of it.
    Truncated,
    /// Announces and sends half of the body.
    Short,
    /// Replies after a delay.
    Slow(Duration),
}

/// An object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    pub(crate) bytes: Vec<u8>,
    /// `content-type`, `x-amz-meta-…` and `x-goog-meta-…`.
    pub(crate) headers: BTreeMap<String, String>,
    /// A false size for the listing.
    pub(crate) listed_size: Option<u64>,
    version: u64,
}

#[derive(Debug, Default)]
struct Shared {
    objects: Mutex<BTreeMap<String, Object>>,
    faults: Mutex<HashMap<(String, String), VecDeque<Fault>>>,
    requests: Mutex<Vec<(String, String)>>,
}

/// The server, with one bucket, `shop`. Ends with the process.
pub(crate) struct S3 {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// Keys of one page of a listing: small, so that every test sees several.
const PAGE: usize = 7;

impl S3 {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { address, shared }
    }

    /// `backdrop bulk` with this server as S3.
    pub(crate) fn bulk(&self) -> Command {
        let mut command = backdrop();
        command
            .arg("bulk")
            .env("AWS_ENDPOINT", format!("http://{}", self.address))
            .envs([("AWS_ALLOW_HTTP", "true"), ("AWS_REGION", "us-east-1")])
            .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")])
            .env("GOOGLE_SERVICE_ACCOUNT_KEY", self.google_account());
        command
    }

    /// A Google service account with this server as endpoint, without a token.
    fn google_account(&self) -> String {
        serde_json::json!({
            "gcs_base_url": format!("http://{}", self.address),
            "disable_oauth": true,
            "client_email": "test@example.org",
            "private_key": "none",
            "private_key_id": "none",
        })
        .to_string()
    }

    /// Stores an object.
    pub(crate) fn put(&self, key: &str, bytes: Vec<u8>) {
        self.shared.store(key, Object { bytes, ..Object::default() });
    }

    /// Sets a false size for the listing.
    pub(crate) fn set_listed_size(&self, key: &str, size: u64) {
        self.shared.objects.lock().unwrap().get_mut(key).expect("it is there").listed_size = Some(size);
    }

    /// The stored objects.
    pub(crate) fn objects(&self) -> BTreeMap<String, Object> {
        self.shared.objects.lock().unwrap().clone()
    }

    /// Adds faults for the next requests with this method and key, in order.
    pub(crate) fn fail(&self, method: &str, key: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut all = self.shared.faults.lock().unwrap();
        all.entry((method.to_owned(), key.to_owned())).or_default().extend(faults);
    }

    /// Removes the remaining faults.
    pub(crate) fn recover(&self) {
        self.shared.faults.lock().unwrap().clear();
    }

    /// Methods and keys of the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.shared.requests.lock().unwrap())
    }
}

struct Request {
    method: String,
    key: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Shared {
    fn store(&self, key: &str, object: Object) {
        let mut objects = self.objects.lock().unwrap();
        let version = objects.get(key).map_or(1, |old| old.version + 1);
        objects.insert(key.to_owned(), Object { version, ..object });
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            if self.answer(&request, stream).is_none() {
                return;
            }
        }
    }

    /// `None` closes the connection.
    fn answer(&self, request: &Request, mut to: &TcpStream) -> Option<()> {
        let Request { method, key, .. } = request;
        self.requests.lock().unwrap().push((method.clone(), key.clone()));
        let fault = self.faults.lock().unwrap().get_mut(&(method.clone(), key.clone())).and_then(VecDeque::pop_front);
        match fault {
            Some(Fault::Status(status)) => return send(to, status, &[], b"<Error/>"),
            Some(Fault::Reset) => return None,
            Some(Fault::Slow(wait)) => std::thread::sleep(wait),
            Some(Fault::Truncated | Fault::Short) | None => {}
        }
        match method.as_str() {
            "PUT" => {
                let kept = |name: &str| {
                    name == "content-type" || name.starts_with("x-amz-meta-") || name.starts_with("x-goog-meta-")
                };
                let headers = request.headers.clone().into_iter().filter(|(name, _)| kept(name)).collect();
                self.store(key, Object { bytes: request.body.clone(), headers, ..Object::default() });
                send(to, 200, &[("ETag", etag(&self.objects.lock().unwrap()[key], key))], b"")
            }
            "GET" if request.query.contains_key("list-type") => {
                send(to, 200, &[("Content-Type", "application/xml".into())], self.list(&request.query).as_bytes())
            }
            "GET" | "HEAD" => {
                let Some(object) = self.objects.lock().unwrap().get(key).cloned() else {
                    return send(to, 404, &[], if method == "HEAD" { b"" } else { b"<Error/>" });
                };
                let mut headers =
                    vec![("ETag", etag(&object, key)), ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT".to_owned())];
                headers.extend(object.headers.iter().map(|(name, value)| (name.as_str(), value.clone())));
                if method == "HEAD" {
                    headers.push(("Content-Length", object.bytes.len().to_string()));
                    return send(to, 200, &headers, b"");
                }
                let whole = object.bytes.len();
                let range = request.headers.get("range").and_then(|range| {
                    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
                    Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?.min(whole - 1)))
                });
                let (status, body) = match range {
                    Some((first, last)) => {
                        headers.push(("Content-Range", format!("bytes {first}-{last}/{whole}")));
                        (206, &object.bytes[first..=last])
                    }
                    None => (200, &object.bytes[..]),
                };
                match fault {
                    Some(Fault::Truncated) => {
                        headers.push(("Content-Length", body.len().to_string()));
                        write_head(to, status, &headers)?;
                        to.write_all(&body[..body.len() / 2]).ok()?;
                        None
                    }
                    Some(Fault::Short) => send(to, status, &headers, &body[..body.len() / 2]),
                    _ => send(to, status, &headers, body),
                }
            }
            _ => send(to, 405, &[], b""),
        }
    }

    fn list(&self, query: &HashMap<String, String>) -> String {
        let objects = self.objects.lock().unwrap();
        let prefix = query.get("prefix").cloned().unwrap_or_default();
        let after = query.get("continuation-token").cloned().unwrap_or_default();
        let mut keys = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let page: Vec<_> = keys.by_ref().take(PAGE).collect();
        let rows: String = page
            .iter()
            .map(|(key, object)| {
                format!(
                    "<Contents><Key>{}</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                    in_xml(key),
                    in_xml(&etag(object, key)),
                    object.listed_size.unwrap_or(object.bytes.len() as u64)
                )
            })
            .collect();
        let more = keys.next().is_some();
        let token = page
            .last()
            .filter(|_| more)
            .map(|(key, _)| format!("<NextContinuationToken>{}</NextContinuationToken>", in_xml(key)));
        format!(
            "<?xml version=\"1.0\"?><ListBucketResult><Name>shop</Name><IsTruncated>{more}</IsTruncated>{}{rows}</ListBucketResult>",
            token.unwrap_or_default()
        )
    }
}

/// Made of key, size and version, so that it changes with the content.
fn etag(object: &Object, key: &str) -> String {
    format!("\"{:x}-{}-{}\"", key.len(), object.bytes.len(), object.version)
}

fn in_xml(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            c if c.is_control() => format!("&#x{:x};", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let key = decoded(path.strip_prefix("/shop").unwrap_or(path));
    let key = key.strip_prefix('/').unwrap_or(&key).to_owned();
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = query.map(|(name, value)| (decoded(name), decoded(value))).collect();
    Some(Request { method, key, query, headers, body })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = (*first == b'%').then(|| std::str::from_utf8(&after[..2]).unwrap());
        match escaped {
            Some(digits) => {
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn write_head(mut to: &TcpStream, status: u16, headers: &[(&str, String)]) -> Option<()> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    to.write_all(format!("HTTP/1.1 {status} X\r\n{headers}\r\n").as_bytes()).ok()
}

fn send(mut to: &TcpStream, status: u16, headers: &[(&str, String)], body: &[u8]) -> Option<()> {
    let mut headers = headers.to_vec();
    if !headers.iter().any(|(name, _)| *name == "Content-Length") {
        headers.push(("Content-Length", body.len().to_string()));
    }
    write_head(to, status, &headers)?;
    to.write_all(body).ok()
}
