//! The admin listener of a daemon that waits for its database: alive, and not ready.
//!
//! The API's listener is not bound while the daemon waits, so that a load balancer that only connects treats the daemon as absent.

use crate::http::admin::{refuse_foreign, status};
use crate::http::config::HttpConfig;
use crate::http::connection::descriptors;
use crate::http::connection::server::{self, ListenerLimits};
use crate::http::reply::{ApiError, Reply, Result};
use crate::http::request_context::{RequestContext, Service};
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// A waiting daemon's admin listener. Dropped, it takes no further connections.
#[derive(Debug)]
pub struct Standby {
    _stop: oneshot::Sender<()>,
}

/// The service while the daemon waits, with further host names of the listener.
struct Waiting(Vec<String>);

/// Answers health checks on `admin` until the first value is dropped. The second value is the listener, for the service after the wait.
///
/// # Errors
/// When the listener cannot be shared.
pub fn stand_by(admin: TcpListener, config: &HttpConfig) -> io::Result<(Standby, TcpListener)> {
    let admin = admin.into_std()?;
    let shared = TcpListener::from_std(admin.try_clone()?)?;
    let service = Arc::new(Waiting(config.admin_hosts.clone()));
    let limits = ListenerLimits::of_admin(descriptors::shares(config.max_connections).admin);
    let (stop, stopped) = oneshot::channel();
    let stopped = async {
        // Nothing is sent: the sender is dropped.
        let _ = stopped.await;
    };
    let open = watch::Sender::new(0);
    tokio::spawn(server::run(shared.into(), service, Arc::new(config.clone()), limits, open, stopped));
    Ok((Standby { _stop: stop }, TcpListener::from_std(admin)?))
}

impl Service for Waiting {
    const NAME: &'static str = "admin";
    const LOGGED: bool = false;

    async fn answer(&self, context: &mut RequestContext) -> Result<Reply> {
        context.endpoint = "admin";
        refuse_foreign(context, &self.0)?;
        match context.uri.path() {
            "/livez" => Ok(status("alive")),
            _ => Err(ApiError::unavailable("waiting for the database")),
        }
    }
}
