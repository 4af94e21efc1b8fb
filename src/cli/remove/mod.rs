//! `backdrop remove`: runs the pipeline over files, folders, globs and URLs, without a server.

mod aux_files;
mod before_after;
mod command;
mod destination;
mod file_io;
mod file_version;
mod inputs;
mod parameters_file;
mod report;
mod source_and_sink;
mod task_runner;

pub(super) use aux_files::{AuxFileError, AuxFiles};
pub(super) use command::Remove;
pub(super) use file_io::write_stdout;
pub(super) use file_version::FileVersion;
pub(super) use inputs::Task;
pub(super) use parameters_file::results_since;
pub(super) use report::Entry;
pub(super) use source_and_sink::{Sink, Source};
pub(super) use task_runner::TaskRunner;
