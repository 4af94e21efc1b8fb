//! `backdrop doctor`: checks what this machine and its configuration lack, and how to get it.

mod check;
mod daemon;
mod device;
mod models;
mod picture_formats;
mod system;
mod video_tools;

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
        let failed = checks.iter().filter(|check| check.status == Status::Failed).count();
        if self.json {
            stdout::print_json(&json!({ "version": env!("CARGO_PKG_VERSION"), "checks": checks }))?;
        } else {
            let lines: Vec<_> = checks.iter().map(Check::text).collect();
            stdout::print_line(&lines.join("\n"))?;
        }
        Ok(Outcome::of(failed))
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
        let mut checks = vec![Check::ok("configuration", "valid"), device::processor()];
        checks.push(local_engine::block_on(device::network(&config))?);
        checks.push(models::check(&config));
        checks.push(video_tools::check(&config.video));
        checks.push(picture_formats::heic());
        checks.push(system::data_dir(&config.data_dir, config.jobs.min_free_megabytes));
        checks.push(daemon::store(&config));
        checks.extend(daemon::tls(&config.server));
        checks.extend(daemon::idle_exit(&config.server));
        checks.push(system::open_files(config.server.max_connections));
        checks.push(system::memory(&config));
        checks.push(system::certificate_authorities());
        Ok(checks)
    }
}
