//! The `StateStore` on PostgreSQL: the same changes and records as in redb, on a server that outlives the daemon's machine.
//!
//! Any number of processes change the database. Their transactions have one order, and each writes its rows to a log of
//! commits, by which the others keep their copies in memory up to date (`commit_log.rs`, `writer.rs`). What must not depend on
//! a copy that lags behind is checked again in the transaction: quotas and `Idempotency-Key`s
//! ([`BillCheck`](super::BillCheck)). A process that cannot follow the log any more must end
//! ([`StateStore::is_superseded`](super::StateStore::is_superseded)).
//!
//! A transaction whose outcome is unknown after a lost connection is searched for in the log after reconnecting: a lock shows that
//! the server has ended the old session, its commit included.
//!
//! A job belongs to the daemon that created it, which has its clip, until that daemon's lease has ended (`locks.rs`).
//!
//! The queue of bulk runs lies beside the state, in tables that no daemon's memory copies: any process may use it.

mod bill_batch;
mod bulk_jobs;
mod bulk_queue;
mod bulk_removal;
mod calls;
mod commit_log;
mod connect;
mod daemon_id;
mod locks;
mod migrations;
mod reads;
mod schema;
mod store;
mod tables;
mod writer;

pub use bulk_jobs::{BULK_ID_PREFIX, BulkJob, BulkJobCreated, BulkJobEnd, BulkLead, NewBulkJob};
pub use bulk_queue::{
    BULK_LEASE, BulkQueue, BulkRun, BulkRunState, BulkStatus, ChunkEnd, ChunkProgress, Claim, NewChunk,
};
pub use connect::{ServerError, StoreConfig};
pub use store::{PostgresServer, PostgresStore};
