//! Runs the public and the admin listener until shutdown.

use super::admin::Admin;
use super::app::App;
use super::config::{HttpConfig, LimitsConfig};
use super::descriptors;
use super::idle;
use super::public::Public;
use super::server::{self, ListenerLimits};
use super::tls::Listener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// How long admin requests in flight may take to end at shutdown.
const ADMIN_GRACE: Duration = Duration::from_secs(2);

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
    let (stop_admin, admin_stopped) = oneshot::channel::<()>();
    let admin_service = Arc::new(Admin::new(app.clone(), draining.clone(), config.admin_hosts.clone()));
    let grace = config.shutdown_grace;
    let (jobs, billing) = (app.jobs.clone(), app.billing.clone());
    let public_service = Arc::new(Public::new(app, config.clone(), &limits));
    let shares = descriptors::shares(config.max_connections);
    let public_limits = ListenerLimits {
        connections: shares.public,
        per_address: Some(config.max_connections_per_address),
        proxy_protocol: config.proxy_protocol,
    };
    let admin_limits = ListenerLimits { connections: shares.admin, per_address: None, proxy_protocol: false };
    let open = watch::Sender::new(0);
    let is_busy = move || {
        let (jobs, has_deferred_bills) = (jobs.clone(), billing.deferred_bills() > 0);
        async move { has_deferred_bills || jobs.has_unfinished().await }
    };
    let idle = idle::idle_for(config.idle_exit, open.subscribe(), is_busy);
    let stop_public = async {
        tokio::select! {
            () = shutdown => {}
            () = idle => tracing::info!("idle: ending until the next connection"),
        }
        draining.store(true, Ordering::Relaxed);
    };
    let public = server::run(public.into(), public_service, config.clone(), public_limits, grace, open, stop_public);
    let admin_stop_signal = async {
        // A dropped sender means the same as a sent message.
        let _ = admin_stopped.await;
    };
    let (admin_grace, admin_open) = (grace.min(ADMIN_GRACE), watch::Sender::new(0));
    let admin = server::run(
        admin.into(),
        admin_service,
        config.clone(),
        admin_limits,
        admin_grace,
        admin_open,
        admin_stop_signal,
    );
    // The admin listener closes last: operators may watch the other one drain.
    let public_then_stop = async {
        public.await;
        drop(stop_admin);
    };
    tokio::join!(public_then_stop, admin);
}
