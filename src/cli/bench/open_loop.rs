//! Issues an open loop: queries are sent when they are due, whether or not earlier ones are answered.
//!
//! The latency of a query counts from the time when it was due, so that a service that delays the generator is not measured
//! at a lower load than stated ("coordinated omission", Gil Tene). The delay of the generator is recorded too.

use super::closed_loop::Issued;
use super::query::Query;
use super::target::Target;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

/// Ends a run when more queries than this share of the scheduled ones cannot be answered within the bound any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopRule {
    pub(super) latency_bound: Duration,
    /// So many queries may exceed it.
    pub(super) may_exceed: usize,
}

/// How long after the last arrival a query may still wait for a connection.
const GRACE: Duration = Duration::from_secs(1);

/// Sends one photo at each of these times.
pub(super) async fn run(target: &Arc<Target>, schedule: Vec<(Duration, usize)>, stop_rule: Option<StopRule>) -> Issued {
    let (sender, mut answers) = mpsc::unbounded_channel();
    let stop = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let generator = Generator { target: Arc::clone(target), stop: Arc::clone(&stop), runtime: Handle::current() };
    // On a separate thread: the timer of the runtime counts whole milliseconds.
    let generator = spawn_blocking(move || generator.send_all(started, schedule, sender));
    let (mut queries, mut exceeded) = (Vec::new(), 0);
    while let Some(query) = answers.recv().await {
        if let Some(rule) = stop_rule {
            exceeded += usize::from(!query.is_done() || query.latency > rule.latency_bound);
            if exceeded > rule.may_exceed {
                stop.store(true, Ordering::Relaxed);
            }
        }
        queries.push(query);
    }
    generator.await.expect("the generator does not panic");
    queries.sort_by_key(|query| query.at);
    Issued { queries, took: started.elapsed(), stopped_early: stop.load(Ordering::Relaxed) }
}

struct Generator {
    target: Arc<Target>,
    stop: Arc<AtomicBool>,
    runtime: Handle,
}

impl Generator {
    fn send_all(&self, started: Instant, schedule: Vec<(Duration, usize)>, answers: mpsc::UnboundedSender<Query>) {
        let give_up = schedule.last().map(|(at, _)| started + *at + GRACE);
        for (at, photo) in schedule {
            std::thread::sleep((started + at).saturating_duration_since(Instant::now()));
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let (target, answers) = (Arc::clone(&self.target), answers.clone());
            self.runtime.spawn(async move {
                let sent = started.elapsed();
                let reply = target.send(photo, give_up).await;
                let query = Query {
                    at,
                    latency: started.elapsed().saturating_sub(at),
                    late: sent.saturating_sub(at) + reply.waited,
                    pixels: target.photos[photo].pixels,
                    replies: vec![reply],
                };
                // The receiver waits for all of them.
                let _ = answers.send(query);
            });
        }
    }
}
