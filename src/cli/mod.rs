//! The command line: one binary, one file per subcommand.
//!
//! Results go to standard output (as JSON with `--json`), progress and complaints to standard error. Exit codes:
//! 0 all done, 1 some inputs failed, 2 could not run.

pub mod accounts;
mod bench;
mod bulk;
mod contact_sheet;
mod endpoint;
mod eval;
mod exit;
pub mod keys;
mod operate;
mod print;
mod progress;
mod remove;
mod runtime;
mod serve;
mod set;
mod settings;
mod show_config;
mod store;
mod weights;

use clap::{Args, Parser, Subcommand};
use settings::Places;
use std::process::ExitCode;

/// Cuts subjects out of photos and puts them on new backgrounds.
#[derive(Debug, Parser)]
#[command(name = "backdrop", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 all done, 1 some inputs failed, 2 could not run.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon
    Serve(serve::Serve),
    /// Cut out files, folders, globs or standard input, without a server
    Remove(remove::Remove),
    /// Work on everything in a bucket or folder, resumable, on one machine or many
    Bulk(bulk::Bulk),
    /// Measure the quality of the weights on folders of image/ and mask/
    Eval(eval::Eval),
    /// Measure speed: the pipeline in this process, or a running daemon
    Bench(bench::Bench),
    /// List, verify and import weights
    Weights(weights::Weights),
    /// Create, list and revoke API keys
    Keys(KeysCommand),
    /// Create, list and change accounts
    Accounts(AccountsCommand),
    /// Check, export and import the store of accounts, keys, presets and use
    Store(store::Store),
    /// Print the configuration in force, secrets masked
    Config(show_config::ShowConfig),
}

#[derive(Args, Debug)]
struct KeysCommand {
    #[command(flatten)]
    keys: keys::KeysArgs,
    #[command(flatten)]
    places: Places,
}

#[derive(Args, Debug)]
struct AccountsCommand {
    #[command(flatten)]
    accounts: accounts::AccountsArgs,
    #[command(flatten)]
    places: Places,
}

impl Cli {
    /// Runs the command to its exit code.
    #[must_use]
    pub fn run(self) -> ExitCode {
        exit::code(match self.command {
            Command::Keys(KeysCommand { keys, places }) => match places.load(&[]) {
                Ok(config) => return keys.execute(&config.data_dir),
                Err(problems) => Err(problems.into()),
            },
            Command::Accounts(AccountsCommand { accounts, places }) => match places.load(&[]) {
                Ok(config) => return accounts.execute(&config.data_dir),
                Err(problems) => Err(problems.into()),
            },
            Command::Store(store) => store.run(),
            Command::Serve(serve) => serve.run(),
            Command::Remove(remove) => remove.run(),
            Command::Bulk(bulk) => bulk.run(),
            Command::Eval(eval) => eval.run(),
            Command::Bench(bench) => bench.run(),
            Command::Weights(weights) => weights.run(),
            Command::Config(config) => config.run(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
