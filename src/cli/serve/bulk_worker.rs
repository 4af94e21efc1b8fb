//! Processes queued bulk runs in a daemon, beside its requests.

use crate::bulk::StopSignal;
use crate::bulk::cluster::Worker;
use crate::cli::bulk::{RunPreparation, SharedEngine};
use crate::cli::exit_code::Failure;
use crate::cli::local_engine::LocalEngine;
use crate::config::Config;
use crate::engine::Engine;
use crate::model::device::ActiveDevice;
use crate::store::BulkQueue;
use crate::telemetry::with_causes;
use std::io;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// The pause before a database that is away is tried again, or a worker that ended by an error, such as a full disk.
const PAUSE: Duration = Duration::from_secs(5);

/// A worker on a thread of its own.
pub(super) struct BulkWorker {
    stop: StopSignal,
    /// Closed when the worker ends.
    ended: oneshot::Receiver<()>,
}

impl BulkWorker {
    /// Starts a worker with the engine of the daemon if `jobs.bulk_pictures` is set. `stop` ends it: pictures in progress are
    /// finished.
    ///
    /// # Errors
    /// When the system has no further thread.
    pub(super) fn start(
        config: &Config,
        engine: &Engine,
        device: &ActiveDevice,
        queue: BulkQueue,
        stop: StopSignal,
    ) -> io::Result<Option<Self>> {
        if config.jobs.bulk_pictures == 0 {
            return Ok(None);
        }
        let (runtime, (ending, ended)) = (Handle::current(), oneshot::channel());
        let (config, engine, device, stopped) = (config.clone(), engine.clone(), device.clone(), stop.clone());
        let run = move || {
            runtime.block_on(work(config, engine, device, queue, stopped));
            drop::<oneshot::Sender<()>>(ending);
        };
        std::thread::Builder::new().name("bulk-worker".into()).spawn(run)?;
        Ok(Some(Self { stop, ended }))
    }

    /// Waits for its end after the stop signal; what is not finished `until` then is left to the end of its lease.
    pub(super) async fn join(self, until: Instant) {
        self.stop.request();
        // Its thread does not keep the process alive.
        let _ = timeout_at(until, self.ended).await;
    }
}

async fn work(config: Config, engine: Engine, device: ActiveDevice, queue: BulkQueue, stop: StopSignal) {
    let jobs = config.jobs.bulk_pictures;
    let load = async || LocalEngine::on(engine.clone(), device.clone(), &config).await;
    let Some(engine) = retried(&stop, "bulk runs wait: the network cannot be loaded yet", load).await else { return };
    let name = format!("daemon/{}", std::process::id());
    let prepare = RunPreparation::new(SharedEngine::of(config, engine));
    let worker = Worker { queue: &queue, name: &name, jobs, prepare: &prepare, stop: &stop };
    let mut last = String::new();
    while let Err(error) = worker.run().await {
        let error = with_causes(&error).to_string();
        if error != last {
            tracing::error!(error, "bulk runs wait: their worker ended, and is started again");
            last = error;
        }
        tokio::select! {
            () = stop.requested() => break,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Repeats `attempt` until it succeeds, and logs the first failure; `None` at the stop signal.
async fn retried<T>(stop: &StopSignal, warning: &str, attempt: impl AsyncFn() -> Result<T, Failure>) -> Option<T> {
    let mut has_failed = false;
    loop {
        match attempt().await {
            Ok(outcome) => return Some(outcome),
            Err(error) if !std::mem::replace(&mut has_failed, true) => {
                tracing::warn!(error = with_causes(&*error), "{warning}");
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.requested() => return None,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
