//! Bulk runs: process pictures from one place in object storage to another.
//!
//! ```text
//! list → filter → shard → reserve key → skip │ check, fetch → process → put → report row
//! one stream, never collected                │ bounded concurrency; downloads wait in bounded memory for a worker
//! ```
//!
//! Per object a run holds a few 16-byte hashes: the result keys in use, and the objects that earlier runs finished. A
//! million keys take less than 200 MB.
//!
//! A run resumes from its report. A row is written once its result is stored, so a killed run repeats at most the
//! objects it had in flight. In stores that keep metadata, each result also records its source, version and parameters,
//! so a run can be resumed after its report was lost.
//!
//! The per-picture work is a [`Processor`]; this module depends neither on the pipeline nor on a terminal. [`cluster`] has runs
//! over many machines.

pub mod cluster;
mod dry_run;
mod executor;
mod failure;
mod filter;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod glob_alternatives;
mod hash;
mod key_template;
mod locations;
mod options;
mod path_glob;
mod planner;
mod previous_runs;
mod processor;
mod progress;
mod rate;
mod report_log;
mod report_merge;
mod report_reader;
mod report_row;
mod result_metadata;
mod run;
mod run_error;
mod shard;
mod stop_signal;
mod summary;
mod transfer;

pub use dry_run::{DryRun, dry_run};
pub use failure::{Code, Failure};
pub use filter::{GlobError, KeyFilter, has_image_extension};
pub use key_template::{KeyTemplate, KeyTemplateError};
pub use locations::{Locations, LocationsError};
pub use options::{RunOptions, Selection};
pub use processor::{ProcessError, Processed, Processor};
pub use progress::{Counters, ListingTotal, Observer};
pub use rate::Rate;
pub use report_log::ReportLog;
pub use report_merge::{ReportTotals, csv_path, merge_reports};
pub use report_reader::ReportError;
pub use report_row::{ReportRow, StageTimes, Status, milliseconds, object_version};
pub use run::Run;
pub use run_error::RunError;
pub use shard::{Shard, ShardError};
pub use stop_signal::StopSignal;
pub use summary::Summary;
pub use transfer::{Fetched, fetch};
