//! `backdrop man DIR`: writes the manual pages of the command and its subcommands.

use super::exit_code::{Failure, Outcome};
use clap::{Args, Command};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct Man {
    /// Folder for backdrop.1 and a page for each subcommand, created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    /// Writes the pages of `command`.
    pub(super) fn run(self, command: Command) -> Result<Outcome, Failure> {
        let failed = |error| format!("cannot write to {}: {error}", self.folder.display());
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        clap_mangen::generate_to(command, &self.folder).map_err(failed)?;
        Ok(Outcome::Done)
    }
}
