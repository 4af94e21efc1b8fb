//! `backdrop bulk`: runs the pipeline over object storage.

mod cluster_run;
mod dry_run;
mod lead;
mod pipeline_processor;
mod preset;
mod progress;
mod queue_commands;
mod report_command;
mod report_file;
mod result_parameters;
mod run_command;
mod run_requests;
mod run_spec;
mod summary;

use super::exit_code::{Failure, Outcome};
pub(super) use lead::Leader;
pub(super) use pipeline_processor::SharedEngine;
pub(super) use queue_commands::open_queue;
pub(super) use run_requests::RunRequests;
pub(super) use run_spec::RunPreparation;

use clap::{Args, Subcommand};
use queue_commands::QueueCommand;
use report_command::MergeCommand;
use run_command::RunCommand;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "FROM and TO are folders, s3://bucket/folder, gs://bucket/folder or az://container/folder. \
    Credentials are read from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; GOOGLE_APPLICATION_CREDENTIALS; \
    AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY. AWS_ENDPOINT_URL names another S3 server; without TLS it \
    needs AWS_ALLOW_HTTP=true. AWS_SKIP_SIGNATURE=true reads public buckets.")]
pub(super) struct Bulk {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunCommand,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Merge reports, such as those of the shards of a run, into one with one row per object
    Report(MergeCommand),
    #[command(flatten)]
    Queue(QueueCommand),
}

impl Bulk {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Some(Command::Report(command)) => command.run(),
            Some(Command::Queue(command)) => command.run(&self.run.config()?),
            None => self.run.run(),
        }
    }
}
