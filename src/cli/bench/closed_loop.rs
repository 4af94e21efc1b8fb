//! Issues a closed loop: each client sends its next query when it has the answer to the last one.

use super::arrivals::PhotoOrder;
use super::query::Query;
use super::target::Target;
use futures_util::future::join_all;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The clients of a closed loop and their queries.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedLoop {
    pub(super) clients: usize,
    pub(super) pictures_per_query: usize,
    /// Queries are sent for at least this time ...
    pub(super) least_time: Duration,
    /// ... and until at least so many pictures were sent.
    pub(super) least_pictures: usize,
}

/// The queries of a run, with their replies.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) queries: Vec<Query>,
    /// From the start to the last answer.
    pub(super) took: Duration,
    /// Whether the run was ended because its result was certain.
    pub(super) stopped_early: bool,
}

/// The queries that the clients share.
struct Schedule {
    load: ClosedLoop,
    started: Instant,
    /// The order of the photos, and how many were sent.
    photos: Mutex<(PhotoOrder, usize)>,
}

impl Schedule {
    /// The photos of the next query; `None` at the end.
    fn next(&self) -> Option<Vec<usize>> {
        let mut photos = self.photos.lock().unwrap_or_else(PoisonError::into_inner);
        let (order, sent) = &mut *photos;
        if self.started.elapsed() >= self.load.least_time && *sent >= self.load.least_pictures {
            return None;
        }
        *sent += self.load.pictures_per_query;
        Some((0..self.load.pictures_per_query).map(|_| order.next()).collect())
    }
}

/// Runs the clients until they are done.
pub(super) async fn run(target: &Arc<Target>, order: PhotoOrder, load: ClosedLoop) -> Issued {
    let started = Instant::now();
    let schedule = Arc::new(Schedule { load, started, photos: Mutex::new((order, 0)) });
    let clients: JoinSet<_> = (0..load.clients).map(|_| client(Arc::clone(target), Arc::clone(&schedule))).collect();
    let queries = clients.join_all().await.concat();
    Issued { queries, took: started.elapsed(), stopped_early: false }
}

async fn client(target: Arc<Target>, schedule: Arc<Schedule>) -> Vec<Query> {
    let mut queries = Vec::new();
    while let Some(photos) = schedule.next() {
        let sent = Instant::now();
        let replies = join_all(photos.iter().map(|&photo| target.send(photo, None))).await;
        queries.push(Query {
            at: sent - schedule.started,
            latency: sent.elapsed(),
            late: replies.iter().map(|reply| reply.waited).max().unwrap_or_default(),
            pixels: photos.iter().map(|&photo| target.photos[photo].pixels).sum(),
            replies,
        });
    }
    queries
}
