//! The command line interface, one module per subcommand.
//!
//! Results go to standard output (as JSON with `--json`), progress and errors to standard error. Exit codes:
//! 0 all done, 1 some inputs failed, 2 could not run.

#![warn(clippy::print_stderr, reason = "`print_stderr!` does not panic where standard error is closed or full")]

// First, for its macro.
#[macro_use]
mod stderr;

mod accounts;
mod admin_api;
mod bench;
mod bulk;
mod completions;
mod config_args;
mod contact_sheet;
mod doctor;
mod endpoint_args;
mod eval;
mod exit_code;
mod fields;
mod health;
mod keys;
mod local_engine;
mod man;
mod models;
mod picture_args;
mod pipe;
mod progress;
mod remove;
mod serve;
mod show_config;
mod signals;
mod stdout;
mod store;
#[cfg(test)]
mod test_files;
mod text_table;
mod watch;
mod work;

use crate::codec::sandbox;
use clap::{CommandFactory, Parser, Subcommand};
use exit_code::exit_code;
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
    /// Process files, folders, globs, https URLs or standard input, without a server
    Remove(remove::Remove),
    /// Print the endpoints, or the fields of one with their values
    Fields(fields::ListFields),
    /// Process the pictures of a folder as they appear, until Ctrl-C
    Watch(watch::Watch),
    /// Process all pictures of a bucket or folder, resumable, on one or several machines
    Bulk(bulk::Bulk),
    /// Process the runs that `bulk --cluster` queues in a database, on any number of machines, until a signal
    Work(work::Work),
    /// Measure the quality of the weights on folders with image/ and mask/
    Eval(eval::Eval),
    /// Measure speed: the pipeline in this process, or a running daemon
    Bench(bench::Bench),
    /// Add, list, check and remove models, and import weights of the built-in network
    Models(models::Models),
    /// Create, list, restrict, rotate and revoke API keys
    Keys(keys::Keys),
    /// Create, list and change accounts
    Accounts(accounts::Accounts),
    /// Check, export and import the store of accounts, keys, presets and usage
    Store(store::Store),
    /// Print the effective configuration, with secrets masked
    Config(show_config::ShowConfig),
    /// Check what this machine and its configuration lack, and how to get it
    Doctor(doctor::Doctor),
    /// Query the readiness of the daemon that uses the data directory
    Health(health::Health),
    /// Print the completions of a shell
    Completions(completions::Completions),
    /// Write the manual pages
    Man(man::Man),
    /// Decode pictures for another process of this program, without any right
    #[command(hide = true)]
    DecodeWorker,
    /// Answer the requests of another program on standard input, for the Python package
    #[command(hide = true)]
    Pipe(pipe::Pipe),
}

impl Cli {
    /// Whether this process gives up all its rights, for which it must have one thread.
    #[must_use]
    pub const fn is_decode_worker(&self) -> bool {
        matches!(self.command, Command::DecodeWorker)
    }

    /// Runs the command to its exit code.
    #[must_use]
    pub fn run(self) -> ExitCode {
        exit_code(match self.command {
            Command::DecodeWorker => return sandbox::run(),
            Command::Keys(keys) => keys.run(),
            Command::Accounts(accounts) => accounts.run(),
            Command::Store(store) => store.run(),
            Command::Serve(serve) => serve.run(),
            Command::Remove(remove) => remove.run(),
            Command::Pipe(pipe) => pipe.run(),
            Command::Fields(fields) => fields.run(),
            Command::Bulk(bulk) => bulk.run(),
            Command::Work(work) => work.run(),
            Command::Eval(eval) => eval.run(),
            Command::Bench(bench) => bench.run(),
            Command::Models(models) => models.run(),
            Command::Config(config) => config.run(),
            Command::Watch(watch) => watch.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Health(health) => health.run(),
            Command::Completions(completions) => completions.run(Self::command()),
            Command::Man(man) => man.run(Self::command()),
        })
    }
}

/// A variable of the environment that is no setting: batch services assign shards by variables, and the configuration names the
/// variables of the image APIs' keys.
#[expect(clippy::disallowed_methods, reason = "settings are read by `config`")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
