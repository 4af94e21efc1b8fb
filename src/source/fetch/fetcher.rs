//! Fetching a URL that a caller sent, as if it were hostile.
//!
//! Only `https`; only public addresses ([`is_global`]) that are not this machine's own, IP literals too. A name is resolved once, every answer is
//! checked, and the connection goes to the very addresses that were checked, so a name that changes its answer gains
//! nothing; the name itself serves TLS alone. Proxies of the environment are not looked at, cookies and sessions not
//! kept. One redirect is followed, after all the same checks. One deadline runs over everything. The body is counted
//! while it is read, may not be encoded (nothing is unpacked, so nothing unfolds), and is given up at its first bytes
//! when they are not those of a picture. The head of an answer is bounded too. Clips are fetched in the same way, into a
//! channel; a message to a caller's server is posted in the same way too, and a redirect is not followed.
//!
//! No task is spawned: dropping the future ends the connection. (A lookup by the system's resolver is the exception,
//! see `resolve`.)

use super::address::{carried_v4, is_global};
use super::address_range::AddressRange;
use super::config::FetchConfig;
use super::interfaces;
use super::resolve::{Resolve, System};
use crate::codec::{self, DecodeError};
use crate::image::{SourceUrl, UrlError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HOST, HeaderValue, LOCATION, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::collections::HashSet;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, future, io};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Host, Position};

/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 32 << 10;

/// Header fields of an answer.
const HEAD_FIELDS: usize = 100;

/// An address that does not answer gets its part of the time that is left, but so much at least (as Go's dialer does).
const SHARE: Duration = Duration::from_secs(2);

/// A clip is twenty times as large as a picture may be.
const CLIP_TIMEOUT: Duration = Duration::from_secs(60);

const AGENT: &str = concat!("backdrop/", env!("CARGO_PKG_VERSION"));

/// Why a URL was not fetched: for the log. A caller learns the [`FetchFailure`] and nothing more: which addresses can be
/// reached from here is not theirs to find out.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The resolver failed.
    #[error("the host's name was not resolved")]
    Resolve(#[source] io::Error),
    /// The resolver knows the name and no address.
    #[error("the host's name has no address")]
    NoAddress,
    /// One of the host's addresses, at least, is not public.
    #[error("address {0} is not public")]
    PrivateAddress(IpAddr),
    /// One of the host's addresses, at least, is in `fetch.deny`.
    #[error("address {0} is denied")]
    DeniedAddress(IpAddr),
    /// One of the host's addresses, at least, is this machine's.
    #[error("address {0} is this machine's own")]
    OwnAddress(IpAddr),
    /// Which addresses are this machine's could not be found out.
    #[error("the addresses of this machine are unknown")]
    Interfaces(#[source] io::Error),
    /// None of the addresses took the connection.
    #[error("connection failed")]
    Connect(#[source] io::Error),
    /// A host name that no certificate can hold.
    #[error("the host's name is not one of the DNS")]
    HostName,
    /// The handshake failed; the certificate most often.
    #[error("TLS failed")]
    Tls(#[source] io::Error),
    /// An address that HTTP cannot ask for.
    #[error("not a path of HTTP")]
    Request(#[source] http::Error),
    /// The connection broke, or what came is not HTTP, or has too long a head.
    #[error("HTTP failed")]
    Http(#[source] hyper::Error),
    /// Neither 200 nor a redirect.
    #[error("origin answered {0}")]
    Status(StatusCode),
    /// A redirect to what is no address, or not an `https` one.
    #[error("redirected to {0}")]
    Redirect(UrlError),
    /// A redirect after a redirect.
    #[error("redirected more than once")]
    RedirectedTwice,
    /// An encoding that was not asked for.
    #[error("content-encoding {0:?}")]
    Encoded(HeaderValue),
    /// More bytes than an input may have.
    #[error("more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Nothing, or something that the codec does not read.
    #[error("no picture came")]
    NotAPicture(#[source] DecodeError),
    /// There is no memory for the bytes.
    #[error("no room for what came")]
    NoRoom,
    /// Whoever was to take the bytes did not.
    #[error("what came was not taken")]
    NotTaken,
    /// The deadline passed.
    #[error("not there within {0:?}")]
    TimedOut(Duration),
}

/// What a caller learns of a fetch that failed. All that concerns the host's address is one class, so that a name
/// without an address, an address that is not public and a closed port are answered alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFailure {
    /// There is no public address, or none that takes a connection.
    Address,
    /// It took too long.
    Timeout,
    /// The TLS handshake failed.
    Tls,
    /// The host did not answer with a file.
    Status,
    /// More bytes than are taken.
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// What came is no picture that is read here.
    NotAPicture,
    /// There was no memory for what came.
    NoRoom,
}

impl FetchFailure {
    /// Every class that `fetch_failed` has as its `reason`.
    pub const REASONS: [&'static str; 4] = ["address", "timeout", "tls", "status"];
}

impl FetchError {
    /// What a caller learns of it.
    #[must_use]
    pub fn failure(&self) -> FetchFailure {
        match self {
            Self::Connect(error) if error.kind() == io::ErrorKind::TimedOut => FetchFailure::Timeout,
            Self::Resolve(_)
            | Self::NoAddress
            | Self::PrivateAddress(_)
            | Self::DeniedAddress(_)
            | Self::OwnAddress(_)
            | Self::Interfaces(_)
            | Self::Connect(_)
            | Self::HostName => FetchFailure::Address,
            Self::TimedOut(_) => FetchFailure::Timeout,
            Self::Tls(_) => FetchFailure::Tls,
            Self::Request(_)
            | Self::Http(_)
            | Self::Status(_)
            | Self::Redirect(_)
            | Self::RedirectedTwice
            | Self::Encoded(_)
            | Self::NotTaken => FetchFailure::Status,
            Self::TooLarge { limit } => FetchFailure::TooLarge { limit: *limit },
            Self::NotAPicture(_) => FetchFailure::NotAPicture,
            Self::NoRoom => FetchFailure::NoRoom,
        }
    }

    /// The value of the label `reason` of a metric.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Resolve(_) | Self::NoAddress | Self::HostName => "dns",
            Self::PrivateAddress(_) => "private_address",
            Self::DeniedAddress(_) => "denied_address",
            Self::OwnAddress(_) | Self::Interfaces(_) => "own_address",
            Self::Connect(_) => "connect",
            Self::Tls(_) => "tls",
            Self::Request(_) | Self::Http(_) => "http",
            Self::Status(_) => "status",
            Self::Redirect(_) | Self::RedirectedTwice => "redirect",
            Self::Encoded(_) => "encoding",
            Self::TooLarge { .. } => "too_large",
            Self::NotAPicture(_) => "not_a_picture",
            Self::NoRoom => "no_room",
            Self::NotTaken => "not_taken",
            Self::TimedOut(_) => "timeout",
        }
    }
}

/// Memory for bytes on their way.
pub trait Room: Send + Sync {
    /// Takes room for `bytes` more, and may wait for it.
    ///
    /// # Errors
    /// When there is none; the fetch is given up then.
    fn grow(&self, bytes: usize) -> BoxFuture<'_, Result<(), NoRoom>>;
}

/// There is no room for more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for more")]
pub struct NoRoom;

/// Why no fetcher can be made.
#[derive(Debug, thiserror::Error)]
pub enum FetchConfigError {
    /// What [`FetchConfig::validate`] says.
    #[error("{0}")]
    Invalid(String),
    /// `extra_ca` cannot be read.
    #[error("fetch.extra_ca: {} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// `extra_ca` is not PEM.
    #[error("fetch.extra_ca: {} is not a PEM file", .0.display())]
    NotPem(PathBuf, #[source] pem::Error),
    /// `extra_ca` holds no certificate.
    #[error("fetch.extra_ca: {} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// A certificate in `extra_ca`, or TLS itself, is unusable.
    #[error("TLS for fetching cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Fetches callers' URLs. Clones share everything.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<Inner>,
    max_bytes: usize,
}

struct Inner {
    timeout: Duration,
    private_origins: HashSet<(Host, u16)>,
    denied: Vec<AddressRange>,
    /// The addresses of this machine.
    own: fn() -> io::Result<Vec<IpAddr>>,
    resolver: Arc<dyn Resolve>,
    tls: TlsConnector,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { timeout, private_origins, .. } = &*self.inner;
        let mut debug = f.debug_struct("Fetcher");
        debug.field("timeout", timeout).field("max_bytes", &self.max_bytes).field("private_origins", private_origins);
        debug.finish_non_exhaustive()
    }
}

/// What one request came to.
enum Answer<T> {
    Here(T),
    Elsewhere(SourceUrl),
}

impl Fetcher {
    /// With the system's resolver. Reads `extra_ca`.
    ///
    /// # Errors
    /// See [`FetchConfigError`].
    pub fn new(config: &FetchConfig) -> Result<Self, FetchConfigError> {
        Self::with_resolver(config, Arc::new(System::default()))
    }

    /// With another resolver, whose answers are believed no more than the system's.
    ///
    /// # Errors
    /// See [`FetchConfigError`].
    pub fn with_resolver(config: &FetchConfig, resolver: Arc<dyn Resolve>) -> Result<Self, FetchConfigError> {
        let mistakes = config.validate();
        if !mistakes.is_empty() {
            return Err(FetchConfigError::Invalid(mistakes.join("; ")));
        }
        let inner = Inner {
            timeout: config.timeout,
            private_origins: config.origins().into_iter().collect(),
            denied: config.deny.clone(),
            own: interfaces::addresses,
            resolver,
            tls: Arc::new(tls(config.extra_ca.as_deref())?).into(),
        };
        Ok(Self { inner: Arc::new(inner), max_bytes: codec::Limits::default().max_bytes })
    }

    /// The same for pictures of up to so many bytes; by default as many as the API takes.
    #[must_use]
    pub const fn up_to(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// The bytes behind `url`: those of a picture by their beginning, as many as an input may have, at least one.
    /// Dropping the future ends everything.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch(&self, url: &SourceUrl) -> Result<Bytes, FetchError> {
        let take = |body| read(body, self.max_bytes, None);
        self.inner.follow(url, "image/*", self.inner.timeout, take).await
    }

    /// As [`Fetcher::fetch`], with room taken for each piece before it is kept.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch_into(&self, url: &SourceUrl, room: &dyn Room) -> Result<Bytes, FetchError> {
        let take = |body| read(body, self.max_bytes, Some(room));
        self.inner.follow(url, "image/*", self.inner.timeout, take).await
    }

    /// As [`Fetcher::fetch`], with other bounds: `max_bytes` at most, within `limit`.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch_within(&self, url: &SourceUrl, max_bytes: usize, limit: Duration) -> Result<Bytes, FetchError> {
        self.inner.follow(url, "image/*", limit, |body| read(body, max_bytes, None)).await
    }

    /// Sends the bytes behind `url`, whatever they are and `limit` at most, into a channel as they come, within a
    /// minute. Dropping the future ends everything.
    ///
    /// # Errors
    /// See [`FetchError`]; what has come before stays in the channel.
    pub async fn fetch_clip(
        &self,
        url: &SourceUrl,
        limit: usize,
        into: &mpsc::Sender<Bytes>,
    ) -> Result<(), FetchError> {
        self.inner.follow(url, "video/*, image/gif", CLIP_TIMEOUT, |body| pour(body, limit, into)).await
    }

    /// Posts `body` and gives the status of the answer, whatever it is; a redirect is not followed. Dropping the future
    /// ends everything.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn post(
        &self,
        url: &SourceUrl,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<StatusCode, FetchError> {
        let deadline = Instant::now() + limit;
        let mut request = request(url, Method::POST, Full::new(body))?;
        request.headers_mut().extend(headers);
        let asked = self.inner.ask(url, request, deadline, async |response| Ok(response.status()));
        timeout_at(deadline, asked).await.map_err(|_| FetchError::TimedOut(limit))?
    }

    /// Whether `url` can be refused without a lookup: it is an address that is denied or not public.
    #[must_use]
    pub fn refuses(&self, url: &SourceUrl) -> bool {
        let ip = match url.as_url().host() {
            Some(Host::Ipv4(ip)) => ip.into(),
            Some(Host::Ipv6(ip)) => ip.into(),
            Some(Host::Domain(_)) | None => return false,
        };
        let port = url.as_url().port_or_known_default().unwrap_or(443);
        let is_listed = || url.as_url().host().is_some_and(|host| self.inner.is_listed(&host.to_owned(), port));
        self.inner.is_denied(ip) || (!is_global(ip) && !is_listed())
    }
}

/// A request for `url`, as every one of ours begins.
fn request(url: &SourceUrl, method: Method, body: Full<Bytes>) -> Result<Request<Full<Bytes>>, FetchError> {
    let address = url.as_url();
    Request::builder()
        .method(method)
        .uri(&address[Position::BeforePath..Position::AfterQuery])
        .header(HOST, &address[Position::BeforeHost..Position::AfterPort])
        .header(USER_AGENT, AGENT)
        .body(body)
        .map_err(FetchError::Request)
}

impl Inner {
    /// Gets `url`, or what it redirects to, and has `take` read the body: all of it within `limit`.
    async fn follow<T, F: Future<Output = Result<T, FetchError>>>(
        &self,
        url: &SourceUrl,
        accept: &'static str,
        limit: Duration,
        take: impl Fn(Incoming) -> F,
    ) -> Result<T, FetchError> {
        let deadline = Instant::now() + limit;
        let fetched = timeout_at(deadline, async {
            match self.get(url, accept, deadline, &take).await? {
                Answer::Here(taken) => Ok(taken),
                Answer::Elsewhere(next) => match self.get(&next, accept, deadline, &take).await? {
                    Answer::Here(taken) => Ok(taken),
                    Answer::Elsewhere(_) => Err(FetchError::RedirectedTwice),
                },
            }
        });
        fetched.await.map_err(|_| FetchError::TimedOut(limit))?
    }

    /// One request, from the name to the last byte.
    async fn get<T, F: Future<Output = Result<T, FetchError>>>(
        &self,
        url: &SourceUrl,
        accept: &'static str,
        deadline: Instant,
        take: impl Fn(Incoming) -> F,
    ) -> Result<Answer<T>, FetchError> {
        let mut request = request(url, Method::GET, Full::default())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let judged = async |response| match judge(url, response)? {
            Answer::Here(body) => take(body).await.map(Answer::Here),
            Answer::Elsewhere(next) => Ok(Answer::Elsewhere(next)),
        };
        self.ask(url, request, deadline, judged).await
    }

    /// Connects to where `url` is, after the checks, sends a request, and hands over what is answered.
    async fn ask<T>(
        &self,
        url: &SourceUrl,
        request: Request<Full<Bytes>>,
        deadline: Instant,
        judged: impl AsyncFnOnce(Response<Incoming>) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let address = url.as_url();
        let host = address.host().ok_or(FetchError::HostName)?;
        let port = address.port_or_known_default().unwrap_or(443);
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.to_owned()).map_err(|_| FetchError::HostName)?,
            Host::Ipv4(ip) => IpAddr::from(ip).into(),
            Host::Ipv6(ip) => IpAddr::from(ip).into(),
        };
        let addresses = self.addresses(host, port).await?;
        let stream = connect(&addresses, deadline).await.map_err(FetchError::Connect)?;
        let stream = self.tls.connect(name, stream).await.map_err(FetchError::Tls)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_header_size(HEAD_BYTES)
            .max_headers(HEAD_FIELDS)
            .max_buf_size(2 * HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(FetchError::Http)?;
        let exchange = async { judged(sender.send_request(request).await.map_err(FetchError::Http)?).await };
        // Driven here rather than in a task, so that it ends with this future. Its own end is the exchange's to tell.
        let driven = async {
            let _ = connection.await;
            future::pending::<Infallible>().await
        };
        tokio::select! {
            answer = exchange => answer,
            never = driven => match never {},
        }
    }

    /// Whether the operator has let callers reach this origin.
    fn is_listed(&self, host: &Host, port: u16) -> bool {
        self.private_origins.iter().any(|(listed, at)| listed == host && *at == port)
    }

    /// Whether the operator has excluded this address, or the one that it carries.
    fn is_denied(&self, ip: IpAddr) -> bool {
        self.denied
            .iter()
            .any(|range| range.contains(ip) || carried_v4(ip).any(|carried| range.contains(carried.into())))
    }

    /// Refuses the addresses of this machine. They are listed at each connection, because they change.
    async fn refuse_own(&self, found: &[IpAddr]) -> Result<(), FetchError> {
        let own = spawn_blocking(self.own).await.map_err(io::Error::other).flatten().map_err(FetchError::Interfaces)?;
        let is_own = |ip: &&IpAddr| own.contains(ip) || carried_v4(**ip).any(|ip| own.contains(&ip.into()));
        found.iter().find(is_own).map_or(Ok(()), |ip| Err(FetchError::OwnAddress(*ip)))
    }

    /// Where `host` is, after the checks.
    async fn addresses(&self, host: Host<&str>, port: u16) -> Result<Vec<SocketAddr>, FetchError> {
        let found = match host {
            Host::Domain(name) => self.resolver.resolve(name).await.map_err(FetchError::Resolve)?,
            Host::Ipv4(ip) => vec![ip.into()],
            Host::Ipv6(ip) => vec![ip.into()],
        };
        if found.is_empty() {
            return Err(FetchError::NoAddress);
        }
        // One such answer is enough: a mixed one is an attempt.
        if let Some(ip) = found.iter().find(|ip| self.is_denied(**ip)) {
            return Err(FetchError::DeniedAddress(*ip));
        }
        if !self.is_listed(&host.to_owned(), port) {
            if let Some(ip) = found.iter().find(|ip| !is_global(**ip)) {
                return Err(FetchError::PrivateAddress(*ip));
            }
            self.refuse_own(&found).await?;
        }
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }
}

/// Status and fields: whether the body is what was asked for.
fn judge(url: &SourceUrl, response: Response<Incoming>) -> Result<Answer<Incoming>, FetchError> {
    let (status, headers) = (response.status(), response.headers());
    if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        let location = headers.get(LOCATION).ok_or(FetchError::Status(status))?;
        let location = str::from_utf8(location.as_bytes()).map_err(|_| FetchError::Redirect(UrlError::Malformed))?;
        return url.join(location).map(Answer::Elsewhere).map_err(FetchError::Redirect);
    }
    if status != StatusCode::OK {
        return Err(FetchError::Status(status));
    }
    let identity = |encoding: &&HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
    if let Some(encoding) = headers.get_all(CONTENT_ENCODING).iter().find(|encoding| !identity(encoding)) {
        return Err(FetchError::Encoded(encoding.clone()));
    }
    Ok(Answer::Here(response.into_body()))
}

/// The first of `addresses` that takes a connection, tried in their order.
async fn connect(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
        let time = deadline.saturating_duration_since(Instant::now());
        let share = time / u32::try_from(left).unwrap_or(u32::MAX);
        match timeout(share.max(SHARE), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

/// The length that a body is said to have, 0 where nothing is said.
fn declared(body: &Incoming, limit: usize) -> Result<usize, FetchError> {
    let declared = body.size_hint().exact().map_or(Ok(0), usize::try_from).unwrap_or(usize::MAX);
    if declared > limit { Err(FetchError::TooLarge { limit }) } else { Ok(declared) }
}

/// Sends at most `limit` bytes on.
async fn pour(mut body: Incoming, limit: usize, into: &mpsc::Sender<Bytes>) -> Result<(), FetchError> {
    declared(&body, limit)?;
    let mut left = limit;
    while let Some(frame) = body.frame().await {
        // What is not data are trailers.
        let Ok(data) = frame.map_err(FetchError::Http)?.into_data() else { continue };
        left = left.checked_sub(data.len()).ok_or(FetchError::TooLarge { limit })?;
        into.send(data).await.map_err(|_| FetchError::NotTaken)?;
    }
    Ok(())
}

/// At most `limit` bytes that begin like a picture, each piece when there is room for it.
async fn read(mut body: Incoming, limit: usize, room: Option<&dyn Room>) -> Result<Bytes, FetchError> {
    let declared = declared(&body, limit)?;
    let recognised = |bytes: &[u8]| codec::recognise(bytes).map(|_| ()).map_err(FetchError::NotAPicture);
    let (mut bytes, mut known) = (Vec::new(), false);
    while let Some(frame) = body.frame().await {
        // What is not data are trailers.
        let Ok(data) = frame.map_err(FetchError::Http)?.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(FetchError::TooLarge { limit });
        }
        if let Some(room) = room {
            room.grow(data.len()).await.map_err(|NoRoom| FetchError::NoRoom)?;
        }
        let len = bytes.len() + data.len();
        if len > bytes.capacity() {
            // Twice what came, and not what is announced: that may never come.
            let most = if declared == 0 { limit } else { declared.max(len) };
            bytes.reserve_exact((2 * len).min(most) - bytes.len());
        }
        bytes.extend_from_slice(&data);
        if !known && bytes.len() >= codec::SNIFF_BYTES {
            recognised(&bytes)?;
            known = true;
        }
    }
    if !known {
        recognised(&bytes)?;
    }
    Ok(bytes.into())
}

impl FetchConfig {
    /// TLS that trusts whom the fetcher trusts, for addresses of the operator's own.
    pub(crate) fn tls(&self) -> Result<ClientConfig, FetchConfigError> {
        tls(self.extra_ca.as_deref())
    }
}

/// TLS that trusts the built-in roots and those in `extra`. Sessions are not resumed: a fetch leaves nothing behind.
fn tls(extra: Option<&Path>) -> Result<ClientConfig, FetchConfigError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = extra {
        let text = fs::read(path).map_err(|error| FetchConfigError::Unreadable(path.to_owned(), error))?;
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            roots.add(certificate.map_err(|error| FetchConfigError::NotPem(path.to_owned(), error))?)?;
        }
        if roots.len() == before {
            return Err(FetchConfigError::NoCertificate(path.to_owned()));
        }
    }
    // The provider is named: what other crates install as the process's default is their affair.
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// A public address that the test's machine is said to have.
    const OWN: Ipv4Addr = Ipv4Addr::new(203, 1, 2, 3);

    fn own() -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into(), OWN.into(), "2a00:1::7".parse().expect("an address")])
    }

    /// How many addresses `text`, an address, has after the checks.
    async fn addresses(listed: &[&str], own: fn() -> io::Result<Vec<IpAddr>>, text: &str) -> Result<usize, FetchError> {
        let private_origins = listed.iter().map(|text| (*text).to_owned()).collect();
        let config = FetchConfig {
            private_origins,
            deny: vec!["198.18.7.0/24".parse().expect("a range")],
            ..FetchConfig::default()
        };
        let mut inner = Arc::into_inner(Fetcher::new(&config).expect("good settings").inner).expect("no clone");
        inner.own = own;
        let url = SourceUrl::parse(text).expect("a URL");
        let host = url.as_url().host().expect("a host");
        inner.addresses(host, 443).await.map(|addresses| addresses.len())
    }

    #[tokio::test]
    async fn the_machines_own_addresses_are_refused_in_every_notation() {
        for text in [
            "https://203.1.2.3/",
            "https://[2a00:1::7]/",
            "https://[::ffff:203.1.2.3]/",
            "https://[64:ff9b::203.1.2.3]/",
            "https://[2002:cb01:203::1]/",
        ] {
            let refused = addresses(&[], own, text).await;
            assert!(matches!(refused, Err(FetchError::OwnAddress(_))), "{text}: {refused:?}");
        }
        for text in ["https://203.1.2.4/", "https://203.1.2.2/", "https://[2a00:1::8]/"] {
            assert_eq!(addresses(&[], own, text).await.expect("another machine's"), 1, "{text}");
        }
        assert_eq!(addresses(&["203.1.2.3:443"], own, "https://203.1.2.3/").await.expect("listed"), 1);
    }

    #[tokio::test]
    async fn nothing_is_fetched_while_the_machines_addresses_are_unknown() {
        let unknown = || Err(io::Error::other("no netlink"));
        let refused = addresses(&[], unknown, "https://203.1.2.4/").await;
        assert!(matches!(refused, Err(FetchError::Interfaces(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_denied_address_is_refused_in_every_notation_and_when_it_is_listed() {
        for text in ["https://198.18.7.9/", "https://[::ffff:198.18.7.9]/", "https://[2002:c612:709::]/"] {
            let refused = addresses(&["198.18.7.9:443"], own, text).await;
            assert!(matches!(refused, Err(FetchError::DeniedAddress(_))), "{text}: {refused:?}");
        }
    }
}
