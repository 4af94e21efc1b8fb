//! One listener: accepts connections, serves HTTP/1.1 and HTTP/2 on them, shuts down gracefully.
//!
//! The protocol is detected from the first bytes, behind TLS (where ALPN has negotiated it) as without (h2c with prior
//! knowledge).

use super::client_address::{ConnectionAddresses, Network, is_trusted};
use super::drain::{Drain, Phase};
use super::head_refusal::{ConnectionStream, MAX_HEAD};
use super::limits::{ConnectionLimits, ConnectionPlace};
use super::proxy_protocol;
use super::timeouts::Activity;
use super::tls::{Listener, Tls};
use super::write_progress::StreamExecutor;
use crate::http::config::HttpConfig;
use crate::http::request_context::{self, Service};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

/// The size of an HTTP/2 head beyond which h2 answers an empty 431. The documented limit is smaller and answered with an envelope.
const MAX_HTTP2_HEAD: u32 = 2 * MAX_HEAD;

/// Concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;

/// Flow-control windows of HTTP/2: large enough that an upload is not limited by the round trip (a megabyte at 50 ms is
/// 160 Mbit/s), and for the connection a bound on unread bytes.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Bytes of a reply that h2 buffers ahead of the socket, for any window of the client.
const STREAM_SEND_BUFFER: usize = 64 * 1024;

/// Unsent bytes that the system buffers for a connection: enough for a fast reader, and few enough that a slow one shows
/// progress (half of them within `reply_timeout`).
#[cfg(target_os = "linux")]
const UNSENT: u32 = 64 * 1024;

/// How long a connection past its age still serves what its client sent before it learned of the end.
const AGE_GRACE: Duration = Duration::from_secs(5);

/// The pause after a failed accept; it doubles with each failure in a row.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The limits of a listener's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerLimits {
    /// Concurrent connections.
    pub(crate) connections: usize,
    /// Connections of one client address; `None` without a limit.
    pub(crate) per_address: Option<usize>,
    /// Whether connections of trusted proxies begin with a PROXY header.
    pub(crate) proxy_protocol: bool,
    /// How long requests in flight may take to end at shutdown.
    pub(crate) grace: Duration,
}

impl ListenerLimits {
    /// Limits of an admin listener.
    pub(crate) const fn of_admin(connections: usize) -> Self {
        Self { connections, per_address: None, proxy_protocol: false, grace: Duration::from_secs(2) }
    }
}

/// Serves `listener` until `stop` resolves, with the number of its connections in `open`, then lets the requests in flight
/// complete within the grace period. While a service drains, connections are still accepted, and their requests are answered 503.
pub(crate) async fn run<S: Service>(
    listener: Listener,
    service: Arc<S>,
    config: Arc<HttpConfig>,
    listener_limits: ListenerLimits,
    open: watch::Sender<usize>,
    stop: impl Future<Output = ()>,
) {
    let Listener { tcp: listener, tls } = listener;
    let limits = ConnectionLimits::new(S::NAME, listener_limits.connections, listener_limits.per_address);
    let (protocol, proxy_protocol, drain) = (protocol(&config), listener_limits.proxy_protocol, Drain::new(S::DRAINS));
    let server = Arc::new(ConnectionServer { protocol, service, config, tls, proxy_protocol, drain });
    let mut connections = JoinSet::new();
    let deadline = {
        let mut drained = pin!(async {
            stop.await;
            let deadline = tokio::time::Instant::now() + listener_limits.grace;
            if S::DRAINS {
                // Requests that are still in flight at the deadline are aborted below.
                let _ = tokio::time::timeout_at(deadline, server.drain.drain()).await;
            }
            deadline
        });
        // Kept across iterations: a connection that waits for its place must not be lost.
        let mut accepting = pin!(accept(&listener, &limits, &server.config));
        loop {
            open.send_if_modified(|open| std::mem::replace(open, connections.len()) != connections.len());
            let accepted = tokio::select! {
                biased;
                deadline = &mut drained => break deadline,
                Some(_) = connections.join_next() => continue,
                accepted = &mut accepting => accepted,
            };
            accepting.set(accept(&listener, &limits, &server.config));
            let server = server.clone();
            connections.spawn(async move { server.serve_connection(accepted).await });
        }
    };
    // From here on the system refuses new connections.
    drop(listener);
    server.drain.close();
    let in_flight = connections.len();
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout_at(deadline, ended).await.is_err() {
        warn!(listener = S::NAME, in_flight, "connections did not end in time and were closed");
    } else {
        info!(listener = S::NAME, "closed");
    }
    connections.shutdown().await;
}

/// What all connections of a listener share.
struct ConnectionServer<S> {
    protocol: Builder<StreamExecutor>,
    service: Arc<S>,
    config: Arc<HttpConfig>,
    tls: Option<Tls>,
    proxy_protocol: bool,
    drain: Drain,
}

impl<S: Service> ConnectionServer<S> {
    /// Serves one connection to its end or its timeout.
    async fn serve_connection(self: &Arc<Self>, Accepted { stream, addresses, mut place }: Accepted) {
        let age = Instant::now() + self.config.max_connection_age;
        let (activity, evicted) = (place.activity().clone(), place.evicted());
        // One timeout for the handshake and the first head, so that TLS does not double the time of a slow client.
        tokio::select! {
            // In this order: a request that has arrived begins before the connection can be closed as idle.
            biased;
            () = self.negotiate_and_serve(stream, addresses, &mut place, age) => {}
            () = activity.timed_out(&self.config) => debug!("connection timed out"),
            () = evicted => {}
            () = overdue(&activity, age) => debug!("connection past its age was closed"),
        }
        // The socket is closed before its place is freed.
        drop(place);
    }

    /// PROXY header and TLS handshake, where the listener has them, then HTTP.
    async fn negotiate_and_serve(
        self: &Arc<Self>,
        mut stream: TcpStream,
        addresses: ConnectionAddresses,
        place: &mut ConnectionPlace,
        age: Instant,
    ) {
        let mut phase = self.drain.phase();
        let addresses = tokio::select! {
            addresses = self.client_addresses(&mut stream, addresses, place) => addresses,
            // No request has begun, so none is aborted.
            _ = phase.wait_for(|phase| *phase == Phase::Closing) => None,
        };
        let Some(addresses) = addresses else { return };
        let activity = place.activity();
        let Some(tls) = &self.tls else { return self.serve_http(stream, addresses, activity, age, phase).await };
        let secured = tokio::select! {
            secured = tls.accept(stream) => secured,
            _ = phase.wait_for(|phase| *phase == Phase::Closing) => None,
        };
        if let Some(stream) = secured {
            self.serve_http(stream, addresses, activity, age, phase).await;
        }
    }

    /// The addresses of the connection, behind a proxy the client's; `None` where it is not to be served.
    async fn client_addresses(
        &self,
        stream: &mut TcpStream,
        addresses: ConnectionAddresses,
        place: &mut ConnectionPlace,
    ) -> Option<ConnectionAddresses> {
        if !self.proxy_protocol || !is_trusted(&self.config.trusted_proxies, addresses.peer) {
            return Some(addresses);
        }
        let named = proxy_protocol::read(stream).await;
        let named =
            named.inspect_err(|error| debug!(proxy = %addresses.peer, %error, "connection without a PROXY header"));
        let Some(peer) = named.ok()? else { return Some(addresses) };
        let is_counted = !is_trusted(&self.config.trusted_proxies, peer);
        (!is_counted || place.recount_for(Network::of(peer))).then_some(ConnectionAddresses { peer, ..addresses })
    }

    /// Serves the requests of one connection until the client closes it, or gracefully once its age is reached or the
    /// listener closes.
    async fn serve_http<I>(
        self: &Arc<Self>,
        stream: I,
        addresses: ConnectionAddresses,
        activity: &Activity,
        age: Instant,
        mut phase: watch::Receiver<Phase>,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(ConnectionStream::new(stream, activity.clone(), S::LOGGED));
        let answer = service_fn(|request| {
            let busy = activity.begin(request.version());
            let server = self.clone();
            async move {
                let Self { service, config, drain, .. } = &*server;
                Ok::<_, Infallible>(request_context::answer(&**service, request, addresses, busy, config, drain).await)
            }
        });
        let mut connection = pin!(self.protocol.serve_connection(io, answer).into_owned());
        let mut aged = pin!(tokio::time::sleep_until(age.into()));
        let mut is_ending = false;
        // The listener may have begun to close before this connection subscribed.
        phase.mark_changed();
        let ended = loop {
            let may_age = !is_ending;
            let served = poll_fn(|context| {
                let polled = connection.as_mut().poll(context);
                // While draining, an HTTP/1.1 connection ends with its next reply. An HTTP/2 connection gets a GOAWAY, but
                // not before its first request: clients treat that as a failure and reconnect.
                if polled.is_ready() || is_ending || !activity.state().http2 || !self.drain.is_refusing() {
                    return polled;
                }
                is_ending = true;
                connection.as_mut().graceful_shutdown();
                connection.as_mut().poll(context)
            });
            let is_due = tokio::select! {
                // A request that has arrived is answered before the connection ends.
                biased;
                ended = served => break ended,
                () = &mut aged, if may_age => true,
                _ = phase.changed() => *phase.borrow_and_update() == Phase::Closing,
            };
            if is_due && !is_ending {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        };
        if let Err(error) = ended {
            debug!(%error, "connection ended");
        }
    }
}

/// Resolves when a connection past its age is idle, though its client keeps it open.
async fn overdue(activity: &Activity, age: Instant) {
    tokio::time::sleep_until((age + AGE_GRACE).into()).await;
    while activity.state().idle_since().is_none_or(|since| since.elapsed() < AGE_GRACE) {
        tokio::time::sleep(AGE_GRACE).await;
    }
}

/// A new connection, with its place.
struct Accepted {
    stream: TcpStream,
    addresses: ConnectionAddresses,
    place: ConnectionPlace,
}

/// The next connection within the limits. While it waits for its place, the system queues further ones.
async fn accept(listener: &TcpListener, limits: &Arc<ConnectionLimits>, config: &HttpConfig) -> Accepted {
    let mut pause = MIN_PAUSE;
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_connection_error(&error) => {
                debug!(%error, "a connection was closed before it was accepted");
                continue;
            }
            Err(error) => {
                if pause == MIN_PAUSE {
                    warn!(%error, "could not accept a connection");
                }
                // Mostly out of file descriptors. Without a pause this would spin until one is free.
                limits.evict_one();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
                continue;
            }
        };
        pause = MIN_PAUSE;
        // Replies are written whole, so Nagle's algorithm would only delay their end.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "no TCP_NODELAY");
        }
        #[cfg(target_os = "linux")]
        if let Err(error) = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT) {
            debug!(%error, "no TCP_NOTSENT_LOWAT");
        }
        let Ok(local) = stream.local_addr() else { continue };
        let addresses = ConnectionAddresses { peer: peer.ip().to_canonical(), local: local.ip().to_canonical() };
        // Connections of trusted proxies are counted by client, from their PROXY header.
        let is_counted = !is_trusted(&config.trusted_proxies, addresses.peer);
        if let Some(counted) = limits.count(is_counted.then(|| Network::of(addresses.peer))) {
            return Accepted { stream, addresses, place: counted.admit().await };
        }
    }
}

/// Whether the error concerns one connection and not the listener.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn protocol(config: &HttpConfig) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(StreamExecutor { reply_timeout: config.reply_timeout });
    builder
        .http1()
        .timer(TokioTimer::new())
        // `timeouts` implements this timeout.
        .header_read_timeout(None)
        // The buffer also bounds the pieces of the body.
        .max_buf_size(MAX_HEAD as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HTTP2_HEAD)
        .max_send_buf_size(STREAM_SEND_BUFFER)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    builder
}
