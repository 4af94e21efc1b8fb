//! `backdrop config`: what is in force.

use super::exit::{Failure, Outcome};
use super::print;
use super::settings::Settings;
use clap::Args;

#[derive(Args, Debug)]
pub(super) struct ShowConfig {
    #[command(flatten)]
    settings: Settings,
    /// Print JSON in place of TOML
    #[arg(long)]
    json: bool,
}

impl ShowConfig {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let config = self.settings.load(&[])?;
        if self.json {
            print::json(&config)?;
        } else {
            print::line(toml::to_string(&config)?.trim_end())?;
        }
        Ok(Outcome::Done)
    }
}
