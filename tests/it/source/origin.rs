//! An HTTPS origin on the loopback with valid and invalid answers.
//!
//! It has a thread and a runtime of its own, so that tests of every kind can use it: async ones, blocking ones, and
//! those that run the binary. Fetchers reach it only with [`Origin::authority`] in `fetch.private_origins` and
//! [`Origin::authorities_file`] as `fetch.extra_ca`; [`Origin::config`] sets both.

use backdrop::source::FetchConfig;
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::collections::HashMap;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The names in its certificate, beside the loopback's addresses.
pub(crate) const NAMES: [&str; 2] = ["origin.test", "localhost"];

/// Stops a test that hangs.
const LONG: Duration = Duration::from_secs(60);

/// The answer at a path.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// 200 with its length.
    Bytes(Bytes),
    /// 200 in chunks.
    Chunked(Bytes),
    /// 200 without a length: it ends where TLS ends.
    UntilClose(Bytes),
    /// That status and this `location`.
    Redirect(u16, String),
    /// That status with a body that is no picture.
    Status(u16),
    /// 200 with that `content-encoding` header.
    Encoded(&'static str, Bytes),
    /// 200 that announces `announces` bytes, sends these and closes.
    WrongLength {
        /// The announced length.
        announces: usize,
        /// The body.
        sends: Bytes,
    },
    /// 200 with its length, a byte at a time.
    Drip(Bytes, Duration),
    /// 200 in chunks: these bytes, then zeros for ever.
    Endless(Bytes),
    /// 200 with a field of so many bytes.
    LongField(usize),
    /// 200 with so many fields.
    ManyFields(usize),
    /// 200 with its length; then the connection is closed without TLS's close_notify.
    Abrupt(Bytes),
    /// Closes without an answer.
    Hangup,
    /// Never answers.
    Silence,
    /// These bytes are the whole answer.
    Raw(Bytes),
    /// Another answer after a delay.
    After(Duration, Box<Self>),
}

/// A request that the origin received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    /// `/path?query`.
    pub(crate) path: String,
    /// Everything before the body, lines ending in `\r\n`.
    pub(crate) head: String,
    /// As long as `content-length` says.
    pub(crate) body: Vec<u8>,
}

struct Shared {
    routes: Mutex<HashMap<String, Answer>>,
    requests: watch::Sender<Vec<ReceivedRequest>>,
    /// Connections so far, and those that are open.
    connections: watch::Sender<(usize, usize)>,
}

/// Counts an open connection.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.connections.send_modify(|(all, open)| (*all, *open) = (*all + 1, *open + 1));
        Self(shared.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.send_modify(|(_, open)| *open -= 1);
    }
}

/// The origin; dropping it ends it.
pub(crate) struct Origin {
    address: SocketAddr,
    folder: TempDir,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// With a certificate of a new authority.
    pub(crate) fn start<'a>(routes: impl IntoIterator<Item = (&'a str, Answer)>) -> Self {
        let mut authority = CertificateParams::new([]).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("randomness");
        let authority = CertifiedIssuer::self_signed(authority, key).expect("a plain authority");
        let key = KeyPair::generate().expect("randomness");
        let names = NAMES.into_iter().chain(["127.0.0.1", "::1"]).map(str::to_owned);
        let leaf = CertificateParams::new(names.collect::<Vec<_>>()).expect("plain names");
        let certificate = leaf.signed_by(&key, &authority).expect("a plain certificate");
        let folder = tempfile::tempdir().expect("a writable temporary folder");
        std::fs::write(folder.path().join("authority.pem"), authority.pem()).expect("a writable temporary folder");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS #8");
        let mut tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().to_vec().into()], key)
            .expect("they belong together");
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let routes = routes.into_iter().map(|(path, answer)| (path.to_owned(), answer)).collect();
        let shared = Arc::new(Shared {
            routes: Mutex::new(routes),
            requests: watch::Sender::default(),
            connections: watch::Sender::default(),
        });

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        // Bound before this returns.
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("it is bound");
        let (stop, stopped) = oneshot::channel();
        let (acceptor, serving) = (TlsAcceptor::from(Arc::new(tls)), shared.clone());
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a runtime is there");
                tokio::select! {
                    () = accept(&listener, &acceptor, &serving) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, folder, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Changes the answer at `path`.
    pub(crate) fn set(&self, path: &str, answer: Answer) {
        self.shared.routes.lock().expect("no panic inside").insert(path.to_owned(), answer);
    }

    /// Its URL by address.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Its URL by a name, one of [`NAMES`] or another.
    pub(crate) fn url_by_name(&self, name: &str, path: &str) -> String {
        format!("https://{name}:{}{path}", self.address.port())
    }

    /// `host:port` of [`Origin::url`], as `fetch.private_origins` takes it.
    pub(crate) fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The PEM file of the authority that signed its certificate, for `fetch.extra_ca`.
    pub(crate) fn authorities_file(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// Settings that allow it by address and by [`NAMES`].
    pub(crate) fn config(&self) -> FetchConfig {
        let names = NAMES.iter().map(|name| format!("{name}:{}", self.port()));
        FetchConfig {
            private_origins: names.chain([self.authority()]).collect(),
            extra_ca: Some(self.authorities_file()),
            ..FetchConfig::default()
        }
    }

    /// The requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.requests.borrow().clone()
    }

    /// The number of connections so far, with or without TLS.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.borrow().0
    }

    /// Waits for a request of `path`.
    pub(crate) async fn wait_for(&self, path: &str) {
        let mut requests = self.shared.requests.subscribe();
        let found = requests.wait_for(|requests| requests.iter().any(|request| request.path == path));
        let _ = timeout(LONG, found).await.unwrap_or_else(|_| panic!("no request of {path} came"));
    }

    /// Waits until no connection is open.
    pub(crate) async fn wait_until_idle(&self) {
        let mut connections = self.shared.connections.subscribe();
        let _ = timeout(LONG, connections.wait_for(|(_, open)| *open == 0)).await.expect("a connection stays open");
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(ended.is_none_or(|ended| ended.is_ok()), "the origin panicked");
        }
    }
}

async fn accept(listener: &TcpListener, acceptor: &TlsAcceptor, shared: &Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (open, acceptor, shared) = (Open::new(shared), acceptor.clone(), shared.clone());
        tokio::spawn(async move {
            let _open = open;
            // Tests check errors at the client.
            let _ = serve(stream, &acceptor, &shared).await;
        });
    }
}

async fn serve(stream: TcpStream, acceptor: &TlsAcceptor, shared: &Shared) -> std::io::Result<()> {
    let (mut from, mut to) = tokio::io::split(acceptor.accept(stream).await?);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or_default()];
    from.read_exact(&mut body).await?;
    let answer = shared.routes.lock().expect("no panic inside").get(&path).cloned().unwrap_or(Answer::Status(404));
    shared.requests.send_modify(|requests| requests.push(ReceivedRequest { path, head, body }));
    tokio::select! {
        answered = send(&mut to, answer) => answered?,
        () = disconnected(&mut from) => {}
    }
    Ok(())
}

/// Returns when the client disconnects.
async fn disconnected(from: &mut (impl AsyncRead + Unpin)) {
    let mut bytes = [0; 64];
    while from.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// Sends the answer; returns only where the answer closes the connection.
async fn send(to: &mut (impl AsyncWrite + Unpin), mut answer: Answer) -> std::io::Result<()> {
    while let Answer::After(wait, next) = answer {
        sleep(wait).await;
        answer = *next;
    }
    let fields = match &answer {
        Answer::Bytes(body) | Answer::Drip(body, _) | Answer::Abrupt(body) => {
            format!("200 OK\r\ncontent-length: {}", body.len())
        }
        Answer::Chunked(_) | Answer::Endless(_) => "200 OK\r\ntransfer-encoding: chunked".to_owned(),
        Answer::UntilClose(_) => "200 OK\r\nconnection: close".to_owned(),
        Answer::Redirect(status, location) => {
            format!("{status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0")
        }
        Answer::Status(status) => format!("{status} As Configured\r\ncontent-length: 4"),
        Answer::Encoded(encoding, body) => {
            format!("200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}", body.len())
        }
        Answer::WrongLength { announces, .. } => format!("200 OK\r\ncontent-length: {announces}"),
        Answer::LongField(size) => format!("200 OK\r\ncontent-length: 0\r\nx-long: {}", "a".repeat(*size)),
        Answer::ManyFields(count) => format!("200 OK\r\ncontent-length: 0{}", "\r\nx-many: a".repeat(*count)),
        Answer::Hangup | Answer::Silence | Answer::Raw(_) | Answer::After(..) => String::new(),
    };
    if !fields.is_empty() {
        to.write_all(format!("HTTP/1.1 {fields}\r\ncontent-type: image/png\r\n\r\n").as_bytes()).await?;
    }
    match answer {
        Answer::Bytes(body) | Answer::Encoded(_, body) => to.write_all(&body).await?,
        Answer::Chunked(body) => {
            for part in body.chunks(16 << 10) {
                chunk(to, part).await?;
            }
            chunk(to, &[]).await?;
        }
        Answer::Endless(body) => {
            chunk(to, &body).await?;
            loop {
                chunk(to, &[0; 16 << 10]).await?;
            }
        }
        Answer::Drip(body, pause) => {
            for byte in body {
                to.write_all(&[byte]).await?;
                to.flush().await?;
                sleep(pause).await;
            }
        }
        Answer::Status(_) => to.write_all(b"nope").await?,
        Answer::UntilClose(body) | Answer::WrongLength { sends: body, .. } | Answer::Raw(body) => {
            to.write_all(&body).await?;
            return to.shutdown().await;
        }
        Answer::Abrupt(body) => {
            to.write_all(&body).await?;
            return to.flush().await;
        }
        Answer::Hangup => return to.shutdown().await,
        Answer::Redirect(..) | Answer::LongField(_) | Answer::ManyFields(_) | Answer::Silence | Answer::After(..) => {}
    }
    to.flush().await?;
    pending().await
}

async fn chunk(to: &mut (impl AsyncWrite + Unpin), data: &[u8]) -> std::io::Result<()> {
    to.write_all(format!("{:x}\r\n", data.len()).as_bytes()).await?;
    to.write_all(data).await?;
    to.write_all(b"\r\n").await
}
