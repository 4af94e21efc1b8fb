//! `backdrop remove`: runs the pipeline over files, folders, globs and URLs, without a server.

mod aux_files;
mod before_after;
mod command;
mod destination;
mod file_io;
mod inputs;
mod report;
mod source_and_sink;

pub(super) use aux_files::AuxFiles;
pub(super) use command::Remove;
