//! `backdrop work`: processes the runs that `backdrop bulk --cluster` queues, without HTTP, until a signal.

use super::bulk::{RunPreparation, SharedEngine, open_queue};
use super::config_args::EngineArgs;
use super::exit_code::{Failure, Outcome};
use super::local_engine;
use super::picture_args::JobsArg;
use super::signals::stop_on_signals;
use crate::bulk::cluster::Worker;
use crate::telemetry;
use clap::Args;
use sysinfo::System;

#[derive(Args, Debug)]
pub(super) struct Work {
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl Work {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.engine_args.load(&[])?;
        telemetry::logging::init(&config.log)?;
        let jobs = self.jobs.get();
        local_engine::block_on(async {
            let queue = open_queue(&config).await?;
            let stop = stop_on_signals()?;
            let host = System::host_name().unwrap_or_else(|| "worker".to_owned());
            let name = format!("{host}/{}", std::process::id());
            tracing::info!(worker = name, jobs, "waiting for runs");
            let prepare = RunPreparation::new(SharedEngine::new(config));
            Worker { queue: &queue, name: &name, jobs, prepare: &prepare, stop: &stop }.run().await?;
            Ok(Outcome::Done)
        })?
    }
}
