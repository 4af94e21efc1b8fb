//! Bulk runs over many machines: one command queues the objects in chunks, workers process them, and the command writes one
//! report. A daemon takes the command's part for a run that was requested over HTTP.
//!
//! ```text
//! list → filter → reserve key → skip │ chunks in PostgreSQL │ claim → Executor, as on one machine → report rows of the chunk
//! the enqueuing command (`enqueue`)  │ `store::BulkQueue`   │ any number of workers (`worker`)
//!                                    └────────────────────────→ the enqueuing command again (`follow`): one report
//! ```
//!
//! A worker sends the report rows of its chunk with every heartbeat. After its crash and the end of the lease another worker claims
//! the chunk, and skips the objects that have rows or stored results. The end of a chunk is refused from a worker that lost its lease,
//! so each object is in the report once.

mod enqueue;
mod follow;
mod queued_tasks;
mod worker;

pub use enqueue::{Enqueued, enqueue, listed};
pub use follow::{FollowEnd, Followed, follow};
pub use worker::{Exclusions, Prepare, PreparedRun, Worker};
