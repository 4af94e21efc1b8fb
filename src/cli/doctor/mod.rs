//! `backdrop doctor`: checks this machine and its configuration, with a remedy for each fault.

mod check;
mod daemon;
mod processing;
mod system;

use super::config_args::EngineArgs;
use super::exit_code::{Failure, Outcome};
use super::{local_engine, stdout};
use check::{Check, Status};
use clap::Args;
use serde_json::json;

#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl Doctor {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let checks = self.checks()?;
        let report = json!({ "version": env!("CARGO_PKG_VERSION"), "checks": checks });
        let text = || checks.iter().map(Check::text).collect::<Vec<_>>().join("\n");
        stdout::print_result(self.json, &report, text)?;
        Ok(Outcome::of(checks.iter().any(|check| check.status == Status::Failed)))
    }

    fn checks(&self) -> Result<Vec<Check>, Failure> {
        let config = match self.engine_args.load(&[]) {
            Ok(config) => config,
            Err(problems) => {
                let remedy = "correct it; backdrop.toml.example lists every setting";
                // The other checks need the settings.
                return Ok(vec![Check::failed("configuration", problems.to_string(), remedy)]);
            }
        };
        let mut checks = vec![
            Check::ok("configuration", "valid"),
            processing::processor(),
            local_engine::block_on(processing::network(&config))?,
            processing::models(&config),
            processing::clips(&config.video),
            processing::heic(),
            system::data_dir(&config.data_dir, config.jobs.min_free_megabytes),
            daemon::store(&config),
        ];
        checks.extend(daemon::tls(&config.server).into_iter().chain(daemon::idle_exit(&config.server)));
        checks.push(system::open_files(config.server.max_connections));
        checks.push(system::memory(&config));
        checks.push(system::certificate_authorities());
        Ok(checks)
    }
}
