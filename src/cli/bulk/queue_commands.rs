//! `backdrop bulk runs|pause|resume|cancel`: lists queued runs and changes their state.

use super::run_spec::RunSpec;
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::text_table::format_table;
use crate::cli::{local_engine, stdout};
use crate::config::Config;
use crate::store::{BulkQueue, BulkRunState, BulkStatus, PostgresServer};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(super) enum QueueCommand {
    /// List the runs in the database that --cluster has queued
    Runs {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let workers finish the pictures in progress of a queued run, and claim no more
    Pause(RunId),
    /// Resume a paused run
    Resume(RunId),
    /// End a queued run; its command writes the report of what is done
    Cancel(RunId),
}

#[derive(Args, Debug)]
pub(super) struct RunId {
    /// The run, as `bulk --cluster` and `bulk runs` name it
    #[arg(value_name = "ID")]
    id: String,
}

impl QueueCommand {
    pub(super) fn run(self, config: &Config) -> Result<Outcome, Failure> {
        local_engine::block_on(async {
            let queue = open_queue(config).await?;
            match self {
                Self::Runs { json } => list(&queue, json).await,
                Self::Pause(RunId { id }) => set_state(&queue, &id, BulkRunState::Paused).await,
                Self::Resume(RunId { id }) => set_state(&queue, &id, BulkRunState::Running).await,
                Self::Cancel(RunId { id }) => set_state(&queue, &id, BulkRunState::Cancelled).await,
            }
        })?
    }
}

/// The queue in the configured database. Creates or upgrades its tables if no daemon uses them.
pub(in crate::cli) async fn open_queue(config: &Config) -> Result<BulkQueue, Failure> {
    let Some(server) = PostgresServer::configured(&config.store)? else {
        return Err("a PostgreSQL database is required: set store.url, or BACKDROP_STORE_URL".into());
    };
    Ok(server.bulk_queue().await?)
}

async fn list(queue: &BulkQueue, json: bool) -> Result<Outcome, Failure> {
    let runs = queue.status(None).await?;
    let row = |run: &BulkStatus| {
        let (from, to) = places(run);
        let objects = format!("{}/{}{}", run.finished, run.objects, if run.is_listed { "" } else { "+" });
        [run.id.clone(), run.state.name().to_owned(), objects, run.claimed_chunks.to_string(), from, to]
    };
    let heading = ["run", "state", "objects", "chunks in work", "from", "to"];
    let as_json = runs.iter().map(run_json).collect::<Value>();
    stdout::print_result(json, &as_json, || format_table(heading, runs.iter().map(row)))?;
    Ok(Outcome::Done)
}

fn run_json(run: &BulkStatus) -> Value {
    let (from, to) = places(run);
    json!({
        "id": run.id,
        "state": run.state.name(),
        "from": from,
        "to": to,
        "created_at": jiff::Timestamp::from_second(run.created_at).ok().map(|at| at.to_string()),
        "listed": run.is_listed,
        "objects": run.objects,
        "finished": run.finished,
        "open_chunks": run.open_chunks,
        "claimed_chunks": run.claimed_chunks,
    })
}

/// Source and destination; empty if this version cannot read the run.
fn places(run: &BulkStatus) -> (String, String) {
    RunSpec::read(&run.spec).map(|spec| (spec.from, spec.to)).unwrap_or_default()
}

async fn set_state(queue: &BulkQueue, id: &str, to: BulkRunState) -> Result<Outcome, Failure> {
    match queue.set_state(id, to).await? {
        None => Err(format!("there is no run {id}; `backdrop bulk runs` lists them").into()),
        Some(before @ BulkRunState::Cancelled) if to != before => {
            Err(format!("the run {id} is {}", before.name()).into())
        }
        Some(_) => {
            print_stderr!("The run {id} is {}", to.name());
            Ok(Outcome::Done)
        }
    }
}
