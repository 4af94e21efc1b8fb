//! `backdrop config`: prints the effective configuration.

use super::config_args::EngineArgs;
use super::exit_code::{Failure, Outcome};
use super::stdout;
use clap::Args;

#[derive(Args, Debug)]
pub(super) struct ShowConfig {
    #[command(flatten)]
    engine_args: EngineArgs,
    /// Print JSON instead of TOML
    #[arg(long)]
    json: bool,
}

impl ShowConfig {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.engine_args.load(&[])?;
        if self.json {
            stdout::print_json(&config)?;
        } else {
            stdout::print_line(toml::to_string(&config)?.trim_end())?;
        }
        Ok(Outcome::Done)
    }
}
