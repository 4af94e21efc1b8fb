//! Runs the public and the admin listener until shutdown.

use super::server::{self, ListenerLimits};
use super::tls::Listener;
use super::{descriptors, idle};
use crate::http::admin::Admin;
use crate::http::app::App;
use crate::http::bulk_runs::BulkRuns;
use crate::http::config::{HttpConfig, LimitsConfig};
use crate::http::state::ApiState;
use crate::jobs::JobsConfig;
use crate::store::{BULK_ID_PREFIX, BulkRunState, BulkStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Serves both listeners until `shutdown` resolves, or the daemon is idle for `idle_exit`. Then readiness fails,
/// requests in flight complete within the grace period while further ones are answered 503, the listeners close, and
/// this returns. The listeners are bound before, so that callers can connect while the network is being loaded; their
/// requests wait for it.
pub async fn serve(
    config: HttpConfig,
    limits: LimitsConfig,
    app: App,
    public: impl Into<Listener>,
    admin: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let config = Arc::new(config);
    let draining = Arc::new(AtomicBool::new(false));
    let (public_is_closed, admin_stopped) = oneshot::channel::<()>();
    let admin_service = Arc::new(Admin::new(app.clone(), draining.clone(), config.admin_hosts.clone()));
    let (jobs, bulk) = (app.jobs.clone(), app.bulk.clone());
    let public_service = Arc::new(ApiState::new(app, config.clone(), &limits));
    let shares = descriptors::shares(config.max_connections);
    let public_limits = ListenerLimits {
        connections: shares.public,
        per_address: Some(config.max_connections_per_address),
        proxy_protocol: config.proxy_protocol,
        grace: config.shutdown_grace,
    };
    let admin_limits = ListenerLimits::of_admin(shares.admin);
    let admin_limits = ListenerLimits { grace: config.shutdown_grace.min(admin_limits.grace), ..admin_limits };
    let open = watch::Sender::new(0);
    let is_busy = || async { jobs.has_unfinished().await || has_bulk_work(bulk.as_ref()).await };
    let idle = idle::idle_for(config.idle_exit, open.subscribe(), is_busy);
    let stop_public = async {
        tokio::select! {
            () = shutdown => {}
            () = idle => tracing::info!("idle: ending until the next connection"),
        }
        draining.store(true, Ordering::Relaxed);
    };
    let public = server::run(public.into(), public_service, config.clone(), public_limits, open, stop_public);
    let stop_admin = async {
        // Nothing is sent: the sender is dropped.
        let _ = admin_stopped.await;
    };
    let admin = server::run(admin.into(), admin_service, config, admin_limits, watch::Sender::new(0), stop_admin);
    // The admin listener closes last: operators may watch the other one drain.
    let public_then_stop = async {
        public.await;
        drop(public_is_closed);
    };
    tokio::join!(public_then_stop, admin);
}

/// Whether the database has bulk work in which this daemon takes part.
///
/// From the database, not from what this daemon has claimed: between two chunks it has none, and a daemon that ended then
/// would leave the rest of the run until the next connection starts one.
async fn has_bulk_work(bulk: Option<&BulkRuns>) -> bool {
    let Some(BulkRuns { queue, config, .. }) = bulk else { return false };
    // As of jobs: where the database cannot be read there may be some.
    queue.status(None).await.map_or(true, |runs| runs.iter().any(|run| takes_part(config, run)))
}

/// Whether a daemon with this configuration processes pictures of the run, or leads it to its end.
fn takes_part(config: &JobsConfig, run: &BulkStatus) -> bool {
    let (is_worker, is_leader) = (config.bulk_pictures > 0, !config.bulk_places.is_empty());
    // A daemon leads runs that were started over HTTP; a command leads its own. A run with its report is removed.
    let is_led = is_leader && run.id.starts_with(BULK_ID_PREFIX);
    match run.state {
        BulkRunState::Running => is_led || is_worker && run.open_chunks > 0,
        // Pictures in progress are finished, and the report of a cancelled run is written.
        BulkRunState::Cancelled => is_led || is_worker && run.claimed_chunks > 0,
        BulkRunState::Paused => is_worker && run.claimed_chunks > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_busy_with_the_bulk_runs_that_it_processes_or_leads() {
        let of = |bulk_pictures, places: &[&str]| {
            let bulk_places = places.iter().map(|&account| (account.to_owned(), Vec::new())).collect();
            JobsConfig { bulk_pictures, bulk_places, ..JobsConfig::default() }
        };
        let (neither, worker, leader) = (of(0, &[]), of(2, &[]), of(0, &["shop"]));
        let run = |id: &str, state, open_chunks, claimed_chunks| BulkStatus {
            id: id.to_owned(),
            state,
            open_chunks,
            claimed_chunks,
            ..BulkStatus::default()
        };
        use BulkRunState::{Cancelled, Paused, Running};
        for (run, of_worker, of_leader) in [
            (run("0a1b2c", Running, 1, 0), true, false),
            (run("0a1b2c", Running, 0, 0), false, false),
            (run("0a1b2c", Paused, 1, 0), false, false),
            (run("0a1b2c", Paused, 1, 1), true, false),
            (run("0a1b2c", Cancelled, 1, 1), true, false),
            (run("bulk_0a1b2c", Running, 1, 1), true, true),
            (run("bulk_0a1b2c", Running, 0, 0), false, true),
            (run("bulk_0a1b2c", Cancelled, 1, 0), false, true),
            (run("bulk_0a1b2c", Paused, 1, 0), false, false),
        ] {
            let busy = [&neither, &worker, &leader].map(|config| takes_part(config, &run));
            assert_eq!(busy, [false, of_worker, of_leader], "{run:?}");
        }
    }
}
