//! Results of jobs: stores finished files in a local folder or an object store, and issues expiring URLs for them.
//!
//! Without `jobs.results` they are in the folder `results` of the data directory, and the daemon serves them under
//! `/results/`: a path that it has signed opens one file until a given time, without an API key. With an object store the
//! provider signs. A result is stored atomically.
//!
//! Where several daemons use one database, the clip of an unfinished job is stored in the location of the results as
//! `<job id>.input`, for whichever daemon claims the job (`jobs/create.rs`). It is deleted at the end of its job. A crash
//! between storing the clip and recording the job leaves it without a job: a lifecycle rule of the bucket may delete
//! objects `*.input` that are older than two days.

mod download;
mod error;
mod folder;
mod object_name;
mod service;
mod signed_path;
#[cfg(test)]
mod tests;
mod upload;

pub use error::ResultsError;
pub use folder::StoredResult;
pub use object_name::disposition;
pub use service::{ResultUrl, Results};
pub use signed_path::RESULTS_PATH;
