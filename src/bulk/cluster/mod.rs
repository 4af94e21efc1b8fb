//! Bulk runs over many machines: one command queues the objects in chunks, workers process them, and the command writes one
//! report. For a run that was requested over HTTP a daemon does the command's part.
//!
//! ```text
//! list → filter → reserve key → skip │ chunks in PostgreSQL │ claim → Executor, as on one machine → report rows of the chunk
//! the enqueuing command (`enqueue`)  │ `store::BulkQueue`   │ any number of workers (`worker`)
//!                                    └────────────────────────→ the enqueuing command again (`follow`): one report
//! ```
//!
//! A worker sends the report rows of its chunk with every heartbeat. When it dies, another one claims the chunk after the lease
//! and skips the objects that have rows, or whose stored results show that they are done. A chunk's end is refused from
//! a worker that lost its lease, so each object is in the report once.

mod enqueue;
mod follow;
mod queued_tasks;
mod worker;

pub use enqueue::{Enqueued, enqueue, listed};
pub use follow::{FollowEnd, Followed, follow};
pub use worker::{EXCLUSION, Prepare, PreparedRun, Worker};
