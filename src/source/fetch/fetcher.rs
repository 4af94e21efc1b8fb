//! The HTTPS client for callers' URLs, which are treated as hostile.
//!
//! Only `https` is allowed, and only public addresses ([`is_global`]) other than this machine's, including IP literals.
//! A name is resolved once, every address is checked, and the connection goes to the checked addresses, so DNS
//! rebinding has no effect; after resolution only TLS uses the name. Proxy variables of the environment are ignored;
//! there are no cookies or sessions. One redirect is followed, after equal checks. One deadline covers the whole
//! fetch. The size of the response header and of the body is bounded. A body must not be encoded (so there is no decompression bomb),
//! and is aborted when its first bytes are not the beginning of a picture. Clips are fetched into a channel, and webhook messages are
//! posted without following redirects, under the other rules.
//!
//! No task is spawned: dropping the future closes the connection. Lookups are the exception, see `resolve`.
//!
//! [`is_global`]: crate::source::global_address::is_global

use super::address_policy::AddressPolicy;
use super::body::{MemoryBudget, read_clip, read_picture};
use super::error::{FetchConfigError, FetchError};
use super::response::{Checked, check_response};
use crate::codec;
use crate::image::SourceUrl;
use crate::source::config::FetchConfig;
use crate::source::resolve::{Resolve, SystemResolver};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HOST, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, future, io};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Host, Position};

/// Maximum size of a response header in bytes.
const MAX_HEADER_BYTES: usize = 32 << 10;

const MAX_HEADER_FIELDS: usize = 100;

/// Minimum time for an address; above it, addresses share the remaining time equally, as in Go's dialer.
const MIN_ATTEMPT: Duration = Duration::from_secs(2);

/// Time limit for clips, which may be twenty times as large as pictures.
const CLIP_TIMEOUT: Duration = Duration::from_secs(60);

/// The formats decoded here, then any: some origins choose the format by it.
const PICTURES: &str = "image/jpeg, image/png, image/webp, image/heic, */*;q=0.1";
const AGENT: &str = concat!("backdrop/", env!("CARGO_PKG_VERSION"));

/// Fetches callers' URLs. Clones share their state.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<Inner>,
    max_bytes: usize,
}

struct Inner {
    timeout: Duration,
    addresses: AddressPolicy,
    tls: TlsConnector,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Fetcher");
        debug.field("timeout", &self.inner.timeout).field("max_bytes", &self.max_bytes);
        debug.field("addresses", &self.inner.addresses).finish()
    }
}

impl Fetcher {
    /// A fetcher with the system's resolver. Reads `extra_ca`.
    ///
    /// # Errors
    /// See [`FetchConfigError`].
    pub fn new(config: &FetchConfig) -> Result<Self, FetchConfigError> {
        Self::with_resolver(config, Arc::new(SystemResolver::default()))
    }

    /// A fetcher with another resolver, whose results are checked like the system's.
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
            addresses: AddressPolicy::new(config, resolver),
            tls: Arc::new(config.tls()?).into(),
        };
        Ok(Self { inner: Arc::new(inner), max_bytes: codec::Limits::default().max_bytes })
    }

    /// Sets the maximum size of a picture in bytes; the API's by default.
    #[must_use]
    pub const fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Maximum size of a picture in bytes.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Fetches a picture, recognised by its first bytes, of 1 to `max_bytes` bytes. Dropping the future disconnects.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch(&self, url: &SourceUrl) -> Result<Bytes, FetchError> {
        let read = |body| read_picture(body, self.max_bytes, None);
        self.inner.get(url, PICTURES, self.inner.timeout, read).await
    }

    /// As [`Fetcher::fetch`], but reserves memory in `budget` for each chunk before it is kept.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch_with_budget(&self, url: &SourceUrl, budget: &dyn MemoryBudget) -> Result<Bytes, FetchError> {
        let read = |body| read_picture(body, self.max_bytes, Some(budget));
        self.inner.get(url, PICTURES, self.inner.timeout, read).await
    }

    /// As [`Fetcher::fetch`], with another maximum size and timeout.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch_within(
        &self,
        url: &SourceUrl,
        max_bytes: usize,
        timeout: Duration,
    ) -> Result<Bytes, FetchError> {
        self.inner.get(url, PICTURES, timeout, |body| read_picture(body, max_bytes, None)).await
    }

    /// Streams at most `max_bytes` of any content into a channel, within a minute. Dropping the future disconnects.
    ///
    /// # Errors
    /// See [`FetchError`]; chunks received before stay in the channel.
    pub async fn fetch_clip(
        &self,
        url: &SourceUrl,
        max_bytes: usize,
        chunks: &mpsc::Sender<Bytes>,
    ) -> Result<(), FetchError> {
        self.inner.get(url, "video/*, image/gif", CLIP_TIMEOUT, |body| read_clip(body, max_bytes, chunks)).await
    }

    /// Posts `body` and returns the response's status, without following redirects. Dropping the future disconnects.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn post(
        &self,
        url: &SourceUrl,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<StatusCode, FetchError> {
        let deadline = Instant::now() + timeout;
        let mut request = request(url, Method::POST, Full::new(body))?;
        request.headers_mut().extend(headers);
        let status = self.inner.exchange(url, request, deadline, async |response| Ok(response.status()));
        timeout_at(deadline, status).await.map_err(|_| FetchError::TimedOut(timeout))?
    }

    /// Whether `url` is refused without a lookup: its host is a denied or non-public IP literal.
    #[must_use]
    pub fn refuses(&self, url: &SourceUrl) -> bool {
        let port = url.as_url().port_or_known_default().unwrap_or(443);
        url.as_url().host().is_some_and(|host| self.inner.addresses.refuses_literal(&host.to_owned(), port))
    }
}

/// Connects to the first of `addresses` that accepts, in their order.
async fn connect(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
        let time = deadline.saturating_duration_since(Instant::now());
        let share = time / u32::try_from(left).unwrap_or(u32::MAX);
        match timeout(share.max(MIN_ATTEMPT), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

/// Builds a request for `url` with `host` and `user-agent`.
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
    /// Gets `url` or its redirect target and reads the body with `read`, all within `timeout`.
    async fn get<T, F: Future<Output = Result<T, FetchError>>>(
        &self,
        url: &SourceUrl,
        accept: &'static str,
        timeout: Duration,
        read: impl Fn(Incoming) -> F,
    ) -> Result<T, FetchError> {
        let deadline = Instant::now() + timeout;
        let fetched = timeout_at(deadline, async {
            match self.get_once(url, accept, deadline, &read).await? {
                Checked::Body(content) => Ok(content),
                Checked::Redirect(next) => match self.get_once(&next, accept, deadline, &read).await? {
                    Checked::Body(content) => Ok(content),
                    Checked::Redirect(_) => Err(FetchError::RedirectedTwice),
                },
            }
        });
        fetched.await.map_err(|_| FetchError::TimedOut(timeout))?
    }

    /// One request, from name resolution to the last byte.
    async fn get_once<T, F: Future<Output = Result<T, FetchError>>>(
        &self,
        url: &SourceUrl,
        accept: &'static str,
        deadline: Instant,
        read: impl Fn(Incoming) -> F,
    ) -> Result<Checked<T>, FetchError> {
        let mut request = request(url, Method::GET, Full::default())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let receive = async |response| match check_response(url, response)? {
            Checked::Body(body) => read(body).await.map(Checked::Body),
            Checked::Redirect(next) => Ok(Checked::Redirect(next)),
        };
        self.exchange(url, request, deadline, receive).await
    }

    /// Connects to the checked addresses of `url`, sends a request, and passes the response to `receive`.
    async fn exchange<T>(
        &self,
        url: &SourceUrl,
        request: Request<Full<Bytes>>,
        deadline: Instant,
        receive: impl AsyncFnOnce(Response<Incoming>) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let address = url.as_url();
        let host = address.host().ok_or(FetchError::HostName)?;
        let port = address.port_or_known_default().unwrap_or(443);
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.to_owned()).map_err(|_| FetchError::HostName)?,
            Host::Ipv4(ip) => IpAddr::from(ip).into(),
            Host::Ipv6(ip) => IpAddr::from(ip).into(),
        };
        let addresses = self.addresses.resolve(host, port).await?;
        let stream = connect(&addresses, deadline).await.map_err(FetchError::Connect)?;
        let stream = self.tls.connect(name, stream).await.map_err(FetchError::Tls)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_header_size(MAX_HEADER_BYTES)
            .max_headers(MAX_HEADER_FIELDS)
            .max_buf_size(2 * MAX_HEADER_BYTES)
            // Some origins write such spaces.
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(FetchError::Http)?;
        let exchange = async { receive(sender.send_request(request).await.map_err(FetchError::Http)?).await };
        // Driven here instead of in a task, so that it ends with this future. `exchange` reports its errors.
        let driver = async {
            let _ = connection.await;
            future::pending::<Infallible>().await
        };
        tokio::select! {
            response = exchange => response,
            never = driver => match never {},
        }
    }
}
