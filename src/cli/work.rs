//! `backdrop work`: processes the runs that `backdrop bulk --cluster` queues, without HTTP, until a signal.

use super::bulk::{RunPreparation, SharedEngine, open_queue};
use super::config_args::EngineArgs;
use super::exit_code::{Failure, Outcome};
use super::local_engine;
use super::signals::stop_on_signals;
use crate::bulk::cluster::Worker;
use crate::telemetry;
use clap::Args;

#[derive(Args, Debug)]
pub(super) struct Work {
    /// Pictures processed concurrently [default: number of CPUs, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl Work {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.engine_args.load(&[])?;
        telemetry::logging::init(&config.log)?;
        let jobs = self.jobs.map_or_else(local_engine::default_jobs, usize::from);
        local_engine::block_on(async {
            let queue = open_queue(&config).await?;
            let stop = stop_on_signals()?;
            let name = format!("{}/{}", host_name(), std::process::id());
            tracing::info!(worker = name, jobs, "waiting for runs");
            let prepare = RunPreparation::new(SharedEngine::new(config));
            Worker { queue: &queue, name: &name, jobs, prepare: &prepare, stop: &stop }.run().await?;
            Ok(Outcome::Done)
        })?
    }
}

/// The machine's name, for people who read the table of chunks.
fn host_name() -> String {
    sysinfo::System::host_name().unwrap_or_else(|| "worker".to_owned())
}
