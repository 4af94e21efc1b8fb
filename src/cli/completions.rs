//! `backdrop completions SHELL`: prints the completions of a shell.

use super::exit_code::{Failure, Outcome};
use super::stdout;
use clap::{Args, Command};
use clap_complete::Shell;

#[derive(Args, Debug)]
pub(super) struct Completions {
    /// Shell to complete in
    shell: Shell,
}

impl Completions {
    /// Prints the completions of `command`.
    pub(super) fn run(self, mut command: Command) -> Result<Outcome, Failure> {
        let mut script = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        stdout::print_line(String::from_utf8(script)?.trim_end())?;
        Ok(Outcome::Done)
    }
}
