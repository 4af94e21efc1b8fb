//! Listeners: accepting, the protocol, shutting down.
//!
//! One listener speaks HTTP/1.1 and HTTP/2, told apart by the first bytes: behind TLS, where ALPN has settled it, as
//! without (h2c with prior knowledge).

use super::client_address::{Ends, Network, is_trusted};
use super::config::HttpConfig;
use super::connection::{Activity, Watched};
use super::connection_limits::{Admission, ConnectionLimits};
use super::drain::{Drain, Phase};
use super::exchange::{self, Service};
use super::head_check::MAX_HEAD;
use super::head_refusal::WithEnvelopes;
use super::proxy_protocol;
use super::tls::{Listener, Tls};
use super::write_progress::StreamExecutor;
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

/// The head of an HTTP/2 request beyond which h2 answers by an empty 431 of its own. The one that is documented is
/// smaller, and answered with an envelope.
const MAX_HTTP2_HEAD: u32 = 2 * MAX_HEAD;

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;

/// What an HTTP/2 client may send before it has to wait: enough that an upload is not slowed by the round trip
/// (a megabyte at 50 ms is 160 Mbit/s), and for the connection a bound on what is held unread.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// What h2 takes of one reply before the socket does, whatever window the client has opened.
const STREAM_SEND_BUFFER: usize = 64 * 1024;

/// What the system takes of a connection's replies before they are under way: enough for a fast reader, and little
/// enough that a slow one is seen to take something (half of it within `reply_timeout`).
#[cfg(target_os = "linux")]
const UNSENT: u32 = 64 * 1024;

/// How long a connection past its age still has for what its client sent before it knew.
const AGE_GRACE: Duration = Duration::from_secs(5);

/// The pause after a connection could not be accepted: it doubles with each failure in a row.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Which connections a listener takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intake {
    /// At once.
    pub(super) connections: usize,
    /// Of one client address, where that is bounded.
    pub(super) per_address: Option<usize>,
    /// Whether trusted proxies begin theirs with a PROXY header.
    pub(super) proxy_protocol: bool,
}

/// Serves `listener` until `stop`, then lets the requests under way end for `grace`. Where the service drains, it goes on
/// accepting connections meanwhile, on which requests are answered 503.
pub(super) async fn run<S: Service>(
    listener: Listener,
    service: Arc<S>,
    config: Arc<HttpConfig>,
    intake: Intake,
    grace: Duration,
    stop: impl Future<Output = ()>,
) {
    let Listener { tcp: listener, tls } = listener;
    let limits = ConnectionLimits::new(S::NAME, intake.connections, intake.per_address);
    let (protocol, proxy_protocol, drain) = (protocol(&config), intake.proxy_protocol, Drain::new(S::DRAINS));
    let host = Arc::new(Host { protocol, service, config, tls, proxy_protocol, drain });
    let mut connections = JoinSet::new();
    let deadline = {
        let mut drained = pin!(async {
            stop.await;
            let deadline = tokio::time::Instant::now() + grace;
            if S::DRAINS {
                // What is still under way by then is cut below.
                let _ = tokio::time::timeout_at(deadline, host.drain.drain()).await;
            }
            deadline
        });
        // Kept from turn to turn: a connection that waits for its place must not be lost.
        let mut accepting = pin!(accept(&listener, &limits, &host.config));
        loop {
            let Arrival { stream, ends, admission, activity } = tokio::select! {
                biased;
                deadline = &mut drained => break deadline,
                Some(_) = connections.join_next() => continue,
                arrival = &mut accepting => arrival,
            };
            accepting.set(accept(&listener, &limits, &host.config));
            let host = host.clone();
            connections.spawn(async move { host.serve_connection(stream, ends, admission, activity).await });
        }
    };
    // From here on the system refuses new connections instead of queueing them.
    drop(listener);
    host.drain.close();
    let under_way = connections.len();
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout_at(deadline, ended).await.is_err() {
        warn!(listener = S::NAME, under_way, "connections did not end in time and were cut");
    } else {
        info!(listener = S::NAME, "closed");
    }
    connections.shutdown().await;
}

/// What every connection of a listener is served with.
struct Host<S> {
    protocol: Builder<StreamExecutor>,
    service: Arc<S>,
    config: Arc<HttpConfig>,
    tls: Option<Tls>,
    proxy_protocol: bool,
    drain: Drain,
}

impl<S: Service> Host<S> {
    /// One connection, from its first byte to its end.
    async fn serve_connection(
        self: &Arc<Self>,
        stream: TcpStream,
        ends: Ends,
        mut admission: Admission,
        activity: Activity,
    ) {
        let (age, evicted) = (Instant::now() + self.config.max_connection_age, admission.evicted());
        // One clock for the handshake and the first head, so that TLS does not double what a slow client has.
        tokio::select! {
            // In this order: a request that has arrived begins before the connection could be closed as idle.
            biased;
            () = self.negotiate_and_serve(stream, ends, &mut admission, &activity, age) => {}
            () = activity.over(&self.config) => debug!("connection timed out"),
            () = evicted => {}
            () = overdue(&activity, age) => debug!("connection past its age was cut"),
        }
        // The descriptor is closed before its place is free.
        drop(admission);
    }

    /// PROXY header, TLS handshake, HTTP: as far as the listener has them.
    async fn negotiate_and_serve(
        self: &Arc<Self>,
        mut stream: TcpStream,
        ends: Ends,
        admission: &mut Admission,
        activity: &Activity,
        age: Instant,
    ) {
        let mut phase = self.drain.phase();
        let ends = tokio::select! {
            ends = self.client_ends(&mut stream, ends, admission) => ends,
            // No request has begun, so none is lost.
            _ = phase.wait_for(|phase| *phase == Phase::Closing) => None,
        };
        let Some(ends) = ends else { return };
        let Some(tls) = &self.tls else { return self.speak(stream, ends, activity, age, phase).await };
        let secured = tokio::select! {
            secured = tls.accept(stream) => secured,
            _ = phase.wait_for(|phase| *phase == Phase::Closing) => None,
        };
        if let Some(stream) = secured {
            self.speak(stream, ends, activity, age, phase).await;
        }
    }

    /// The ends of the connection, the client's behind a proxy; nothing where it is not to be served.
    async fn client_ends(&self, stream: &mut TcpStream, ends: Ends, admission: &mut Admission) -> Option<Ends> {
        if !self.proxy_protocol || !is_trusted(&self.config.trusted_proxies, ends.peer) {
            return Some(ends);
        }
        let named = proxy_protocol::read(stream).await;
        let named = named.inspect_err(|error| debug!(proxy = %ends.peer, %error, "connection without a PROXY header"));
        let Some(peer) = named.ok()? else { return Some(ends) };
        let is_counted = !is_trusted(&self.config.trusted_proxies, peer);
        (!is_counted || admission.belongs_to(Network::of(peer))).then_some(Ends { peer, ..ends })
    }

    /// Answers the requests of one connection to its end: the client's, or the first chance after its age is reached or
    /// the listener closes.
    async fn speak<I>(
        self: &Arc<Self>,
        stream: I,
        ends: Ends,
        activity: &Activity,
        age: Instant,
        mut phase: watch::Receiver<Phase>,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = Watched::new(stream, activity.clone());
        let io = TokioIo::new(WithEnvelopes::new(stream, activity.clone(), S::LOGGED));
        let answer = service_fn(|request| {
            let busy = activity.begin(request.version());
            let host = self.clone();
            async move {
                let Self { service, config, drain, .. } = &*host;
                Ok::<_, Infallible>(exchange::answer(&**service, request, ends, busy, config, drain).await)
            }
        });
        let mut connection = pin!(self.protocol.serve_connection(io, answer).into_owned());
        let mut aged = pin!(tokio::time::sleep_until(age.into()));
        let mut is_ending = false;
        // The listener may have begun to close before there was a connection to end.
        phase.mark_changed();
        let ended = loop {
            let may_age = !is_ending;
            let served = poll_fn(|context| {
                let polled = connection.as_mut().poll(context);
                // A connection of HTTP/1.1 ends with its next reply. One of HTTP/2 is given a GOAWAY, and not before its
                // first request: a client would take that for a failure and connect again.
                if polled.is_ready() || is_ending || !activity.is_http2() || !self.drain.is_refusing() {
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

/// Ends when a connection that was to end at its age is of no use any more, though its client keeps it.
async fn overdue(activity: &Activity, age: Instant) {
    tokio::time::sleep_until((age + AGE_GRACE).into()).await;
    while activity.idle_since().is_none_or(|since| since.elapsed() < AGE_GRACE) {
        tokio::time::sleep(AGE_GRACE).await;
    }
}

/// A new connection, with its place.
struct Arrival {
    stream: TcpStream,
    ends: Ends,
    admission: Admission,
    activity: Activity,
}

/// The next connection within the limits. Beyond the one that waits for its place the system queues.
async fn accept(listener: &TcpListener, limits: &Arc<ConnectionLimits>, config: &HttpConfig) -> Arrival {
    let mut pause = MIN_PAUSE;
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => {
                debug!(%error, "a connection ended before it was accepted");
                continue;
            }
            Err(error) => {
                if pause == MIN_PAUSE {
                    warn!(%error, "could not accept a connection");
                }
                // Out of file descriptors, mostly. Without a pause this would spin until one is free.
                limits.evict_one();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
                continue;
            }
        };
        pause = MIN_PAUSE;
        // Replies are written whole; waiting to fill a segment only delays their end.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "no TCP_NODELAY");
        }
        #[cfg(target_os = "linux")]
        if let Err(error) = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT) {
            debug!(%error, "no TCP_NOTSENT_LOWAT");
        }
        let Ok(local) = stream.local_addr() else { continue };
        let ends = Ends { peer: peer.ip().to_canonical(), local: local.ip().to_canonical() };
        // Behind a trusted proxy the clients are counted, where it names them.
        let is_counted = !is_trusted(&config.trusted_proxies, ends.peer);
        if let Some(counted) = limits.count(is_counted.then(|| Network::of(ends.peer))) {
            let (admission, activity) = counted.admit().await;
            return Arrival { stream, ends, admission, activity };
        }
    }
}

/// Whether it concerns a connection that its client has given up, and not this listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn protocol(config: &HttpConfig) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(StreamExecutor { reply_timeout: config.reply_timeout });
    builder
        .http1()
        .timer(TokioTimer::new())
        // `connection.rs` keeps this clock.
        .header_read_timeout(None)
        // Which also takes the body piece by piece.
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
