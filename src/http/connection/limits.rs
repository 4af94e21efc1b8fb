//! Limits the connections of a listener, in all and by client address, by closing idle ones.
//!
//! * Beyond the total, the oldest idle connection that has not carried a valid key is closed in favour of the new one; if all have
//!   carried one, the longest idle connection; if all are in use, the new one waits.
//! * Beyond the limit of an address, a connection of this address is closed by these rules; if all are in use, the new one is closed.
//!
//! Idle means that every request is answered, though unread bodies may still be drained, and no reply is unsent. Without a
//! valid key a connection also counts as idle after [`WITHOUT_KEY`]: such requests are answered at once, and a reply that is
//! not read must not keep a place. Trusted proxies have no limit by address.

use super::client_address::Network;
use super::timeouts::Activity;
use crate::telemetry::metrics;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

/// How long a connection with a valid key keeps its place after its last byte: an active client sends its next request
/// sooner.
const KEEP_AUTHENTICATED: Duration = Duration::from_secs(5);

/// The time that a new connection has at least for its first request. Without it, many new connections would close each
/// other before any of them is served.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// How long requests without a valid key keep their connection's place.
const WITHOUT_KEY: Duration = Duration::from_secs(5);

/// Connections of one address that may still be closing, beyond its limit.
const CLOSING_ALLOWANCE: usize = 16;

/// Pause between two attempts at eviction while all places are taken.
const RETRY: Duration = Duration::from_millis(100);

/// Pause between warnings that an address has too many connections.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// The limits of one listener, and its connections.
#[derive(Debug)]
pub(super) struct ConnectionLimits {
    listener: &'static str,
    places: Arc<Semaphore>,
    per_address: Option<usize>,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// In order of arrival.
    connections: BTreeMap<u64, Arc<OpenConnection>>,
    /// The number of connections of each network, including connections that wait for a place.
    by_network: HashMap<Network, usize>,
    warned: Option<Instant>,
}

#[derive(Debug)]
struct OpenConnection {
    activity: Activity,
    admitted: Instant,
    network: OnceLock<Network>,
    chosen: AtomicBool,
    wake: Notify,
}

/// Counts a connection for its network while it exists.
#[derive(Debug)]
pub(super) struct CountedConnection {
    limits: Arc<ConnectionLimits>,
    network: Option<Network>,
}

/// Holds the place of a connection while it exists.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    counted: CountedConnection,
    id: u64,
    connection: Arc<OpenConnection>,
    _place: OwnedSemaphorePermit,
}

impl ConnectionLimits {
    /// At most `total` connections, and at most `per_address` of one address.
    pub(super) fn new(listener: &'static str, total: usize, per_address: Option<usize>) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(total.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { listener, places, per_address, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection; `None` where its network has too many in use. Without a network it is not counted.
    pub(super) fn count(self: &Arc<Self>, network: Option<Network>) -> Option<CountedConnection> {
        if let (Some(network), Some(limit)) = (network, self.per_address) {
            let mut open = self.open();
            let count = open.by_network.get(&network).copied().unwrap_or_default();
            let is_beyond = count >= limit.saturating_add(CLOSING_ALLOWANCE);
            if count >= limit && (is_beyond || !open.evict(Some(network), Instant::now())) {
                metrics::connection_closed("address_limit");
                if open.warned.is_none_or(|warned| warned.elapsed() >= WARNING_PAUSE) {
                    open.warned = Some(Instant::now());
                    warn!(listener = self.listener, ?network, limit, "too many connections from one address");
                }
                return None;
            }
            open.by_network.insert(network, count + 1);
        }
        Some(CountedConnection { limits: self.clone(), network: network.filter(|_| self.per_address.is_some()) })
    }

    /// Closes an idle connection, if there is one.
    pub(super) fn evict_one(&self) -> bool {
        self.open().evict(None, Instant::now())
    }
}

impl OpenConnections {
    /// Chooses a connection to close, of `network` where one is given.
    fn evict(&mut self, network: Option<Network>, now: Instant) -> bool {
        let is_meant = |connection: &&Arc<OpenConnection>| {
            network.is_none_or(|network| connection.network.get() == Some(&network))
                && !connection.chosen.load(Ordering::Relaxed)
        };
        let meant = self.connections.values().filter(is_meant);
        let idle = meant.filter_map(|connection| Some((connection.idle_since(now)?, connection)));
        // `None` is the least, and of equal ones the first is taken: the oldest.
        let victim = idle.min_by_key(|(since, connection)| connection.activity.state().authenticated.then_some(*since));
        let Some((_, connection)) = victim else { return false };
        connection.chosen.store(true, Ordering::Relaxed);
        connection.wake.notify_one();
        true
    }
}

impl OpenConnection {
    /// Since when it may be closed; `None` while it may not.
    fn idle_since(&self, now: Instant) -> Option<Instant> {
        let activity = self.activity.state();
        let Some(since) = activity.idle_since() else {
            let since = activity.busy_since;
            let keeps_place = activity.authenticated || now.saturating_duration_since(since) < WITHOUT_KEY;
            return (!keeps_place).then_some(since);
        };
        let keeps_place = if activity.authenticated {
            now.saturating_duration_since(since) < KEEP_AUTHENTICATED
        } else {
            !activity.begun && now.saturating_duration_since(self.admitted) < FIRST_REQUEST
        };
        (!keeps_place).then_some(since)
    }
}

impl CountedConnection {
    /// Waits for a place. The connection's timeouts start with it.
    pub(super) async fn admit(self) -> ConnectionPlace {
        let place = loop {
            if let Ok(place) = self.limits.places.clone().try_acquire_owned() {
                break place;
            }
            self.limits.evict_one();
            if let Ok(place) = tokio::time::timeout(RETRY, self.limits.places.clone().acquire_owned()).await {
                break place.expect("the semaphore is never closed");
            }
        };
        let admitted = Instant::now();
        let connection = Arc::new(OpenConnection {
            activity: Activity::new(admitted),
            admitted,
            network: self.network.map(OnceLock::from).unwrap_or_default(),
            chosen: AtomicBool::new(false),
            wake: Notify::new(),
        });
        let mut open = self.limits.open();
        open.next += 1;
        let id = open.next;
        open.connections.insert(id, connection.clone());
        drop(open);
        ConnectionPlace { counted: self, id, connection, _place: place }
    }
}

impl ConnectionPlace {
    /// The activity of the connection.
    pub(super) fn activity(&self) -> &Activity {
        &self.connection.activity
    }

    /// Counts the connection for the network of the client behind a proxy; false where that has too many in use.
    pub(super) fn recount_for(&mut self, network: Network) -> bool {
        let Some(counted) = self.counted.limits.count(Some(network)) else { return false };
        self.counted = counted;
        self.connection.network.set(network).is_ok()
    }

    /// Resolves when the connection is to be closed in favour of another one.
    pub(super) fn evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        let connection = self.connection.clone();
        async move {
            loop {
                connection.wake.notified().await;
                // A request may have begun since.
                if connection.idle_since(Instant::now()).is_some() {
                    metrics::connection_closed("evicted");
                    debug!("idle connection closed in favour of another one");
                    return;
                }
                connection.chosen.store(false, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.counted.limits.open().connections.remove(&self.id);
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let Some(network) = self.network else { return };
        let mut open = self.limits.open();
        if let Some(count) = open.by_network.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                open.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Version;
    use std::net::IpAddr;

    fn network() -> Network {
        Network::of(IpAddr::from([192, 0, 2, 1]))
    }

    /// A connection that has carried a request.
    async fn admit(limits: &Arc<ConnectionLimits>) -> (ConnectionPlace, Activity) {
        let place = limits.count(Some(network())).expect("not too many").admit().await;
        let activity = place.activity().clone();
        drop(activity.begin(Version::HTTP_11));
        (place, activity)
    }

    fn is_evicted(place: &ConnectionPlace) -> bool {
        let mut evicted = std::pin::pin!(place.evicted());
        evicted.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn the_oldest_idle_connection_without_a_key_is_evicted_first() {
        let limits = ConnectionLimits::new("test", 4, None);
        let mut admitted = Vec::new();
        for _ in 0..4 {
            admitted.push(admit(&limits).await);
        }
        let with_key = admitted[0].1.begin(Version::HTTP_11);
        with_key.mark_authenticated();
        drop(with_key);
        let _busy = admitted[1].1.begin(Version::HTTP_11);
        assert!(limits.evict_one());
        let gone: Vec<_> = admitted.iter().map(|(place, _)| is_evicted(place)).collect();
        assert_eq!(gone, [false, false, true, false]);
    }

    #[tokio::test]
    async fn a_connection_with_a_key_is_evicted_last_and_not_at_once() {
        let limits = ConnectionLimits::new("test", 1, None);
        let (place, activity) = admit(&limits).await;
        let busy = activity.begin(Version::HTTP_11);
        busy.mark_authenticated();
        assert!(!limits.open().evict(None, Instant::now() + 2 * KEEP_AUTHENTICATED), "it has a request");
        drop(busy);
        assert!(!limits.open().evict(None, Instant::now()), "its client may be about to send the next request");
        assert!(limits.open().evict(None, Instant::now() + 2 * KEEP_AUTHENTICATED));
        assert!(!limits.open().evict(None, Instant::now() + 2 * KEEP_AUTHENTICATED), "chosen already");
        drop(place);
    }

    #[tokio::test]
    async fn a_request_that_begins_in_time_cancels_the_eviction() {
        let limits = ConnectionLimits::new("test", 1, None);
        let (place, activity) = admit(&limits).await;
        assert!(limits.evict_one());
        let busy = activity.begin(Version::HTTP_11);
        assert!(!is_evicted(&place));
        assert!(!limits.evict_one());
        drop(busy);
        assert!(limits.evict_one() && is_evicted(&place));
    }

    #[tokio::test]
    async fn a_new_connection_has_time_for_its_first_request() {
        let limits = ConnectionLimits::new("test", 1, None);
        let _place = limits.count(None).expect("not counted").admit().await;
        assert!(!limits.open().evict(None, Instant::now()));
        assert!(limits.open().evict(None, Instant::now() + FIRST_REQUEST));
    }

    #[tokio::test]
    async fn a_body_that_is_drained_after_its_reply_keeps_no_place() {
        let limits = ConnectionLimits::new("test", 1, None);
        let (place, activity) = admit(&limits).await;
        let lingering = activity.begin(Version::HTTP_11).lingering();
        let second = activity.begin(Version::HTTP_2);
        assert!(!limits.evict_one(), "another request has no answer yet");
        drop(second);
        assert!(limits.evict_one() && is_evicted(&place));
        drop(lingering);
        assert!(activity.state().idle_since().is_some());
    }

    #[tokio::test]
    async fn closed_connections_are_not_counted() {
        let limits = ConnectionLimits::new("test", 3, Some(3));
        let counted = admit(&limits).await;
        let mut recounted = limits.count(None).expect("not counted").admit().await;
        assert!(recounted.recount_for(network()));
        assert_eq!(limits.open().by_network.values().sum::<usize>(), 2);
        drop((counted, recounted));
        assert!(limits.open().by_network.is_empty());
        assert!(limits.open().connections.is_empty());
        assert_eq!(limits.places.available_permits(), 3);
    }
}
