//! Listeners: accepting, the protocol, shutting down.
//!
//! One listener speaks HTTP/1.1 and HTTP/2, told apart by the first bytes: behind TLS, where ALPN has settled it, as
//! without (h2c with prior knowledge).

use super::config::HttpConfig;
use super::connection::{Activity, Watched};
use super::exchange::{self, Service};
use super::tls::Listener;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

/// The head of a request; browsers send under 4 KiB. On HTTP/1.1 this is the connection's buffer, which also takes the
/// body piece by piece.
const MAX_HEAD: u32 = 64 * 1024;

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;

/// What an HTTP/2 client may send before it has to wait: enough that an upload is not slowed by the round trip
/// (a megabyte at 50 ms is 160 Mbit/s), and for the connection a bound on what is held unread.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Serves `listener` until `stop`, then lets the requests under way end for `grace`.
pub(super) async fn run<S: Service>(
    listener: Listener,
    service: Arc<S>,
    config: Arc<HttpConfig>,
    max_connections: usize,
    grace: Duration,
    stop: impl Future<Output = ()>,
) {
    let Listener { tcp: listener, tls } = listener;
    let host = Arc::new(Host { protocol: protocol(), service, config });
    let places = Arc::new(Semaphore::new(max_connections));
    let graceful = GracefulShutdown::new();
    let (open, closing) = watch::channel(());
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let (host, tls, watcher, mut closing) = (host.clone(), tls.clone(), graceful.watcher(), closing.clone());
        connections.spawn(async move {
            // One clock for the handshake and the first head, so that TLS does not double what a slow client has.
            let activity = Activity::new(Instant::now());
            let conversation = async {
                let Some(tls) = tls else { return host.speak(stream, peer, &activity, watcher).await };
                let secured = tokio::select! {
                    secured = tls.accept(stream) => secured,
                    // Nothing was asked yet, so nothing is lost.
                    _ = closing.changed() => None,
                };
                if let Some(stream) = secured {
                    host.speak(stream, peer, &activity, watcher).await;
                }
            };
            tokio::select! {
                () = conversation => {}
                () = activity.over(&host.config) => debug!("connection timed out"),
            }
            drop(place);
        });
    }
    // From here on the system refuses new connections instead of queueing them for nobody.
    drop((listener, open));
    let under_way = connections.len();
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        warn!(listener = S::NAME, under_way, "connections did not end in time and were cut");
    } else {
        info!(listener = S::NAME, "closed");
    }
    connections.shutdown().await;
}

/// What every connection of a listener is served with.
struct Host<S> {
    protocol: Builder<TokioExecutor>,
    service: Arc<S>,
    config: Arc<HttpConfig>,
}

impl<S: Service> Host<S> {
    /// Answers the requests of one connection to its end.
    async fn speak<I>(&self, stream: I, peer: IpAddr, activity: &Activity, watcher: Watcher)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(Watched::new(stream, activity.clone()));
        let answer = service_fn(|request| {
            let busy = activity.begin(request.version());
            let (service, config) = (self.service.clone(), self.config.clone());
            async move { Ok::<_, Infallible>(exchange::answer(&*service, request, peer, busy, &config).await) }
        });
        if let Err(error) = watcher.watch(self.protocol.serve_connection(io, answer).into_owned()).await {
            debug!(%error, "connection ended");
        }
    }
}

/// The next connection and where it comes from. A place is taken before, so that the bound holds; beyond it the system queues.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Replies are written whole; waiting to fill a segment only delays their end.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "no TCP_NODELAY");
            }
            Some((stream, peer.ip(), place))
        }
        Err(error) => {
            warn!(%error, "could not accept a connection");
            // Out of file descriptors, mostly: without a pause this would spin until one is free.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

fn protocol() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // `connection.rs` keeps this clock.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    builder
}
