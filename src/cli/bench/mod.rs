//! `backdrop bench`: measures latency and throughput of the pipeline, in this process or of a running daemon, in the
//! scenarios of MLPerf LoadGen; `backdrop bench compare` compares two records.

mod arrivals;
mod bootstrap;
mod closed_loop;
mod compare;
mod http_client;
mod machine;
mod open_loop;
mod percentiles;
mod plot;
mod query;
mod rate_search;
mod record;
mod report_html;
mod run_command;
mod scenario;
mod target;
mod text;

use super::exit_code::{Failure, Outcome};
use clap::{Args, Subcommand};
use compare::CompareCommand;
use run_command::RunCommand;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Bench {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunCommand,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare two records of --out: ratios with confidence intervals, so that noise is not taken for a change
    Compare(CompareCommand),
}

impl Bench {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Some(Command::Compare(command)) => command.run(),
            None => self.run.run(),
        }
    }
}
