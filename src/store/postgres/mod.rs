//! The `StateStore` on PostgreSQL: the same changes and records as in redb, on a server that outlives the daemon's machine.
//!
//! One daemon at a time owns the database, by a session-level advisory lock on the connection that writes: no other daemon
//! can have written, so its copies in memory are the truth, as on redb. A second daemon waits for the lock and takes over
//! when the first is gone. A daemon that lost its connection takes the lock again; when another one had it in between,
//! its copies are stale and it must end ([`StateStore::is_superseded`](super::StateStore::is_superseded)).
//!
//! A transaction whose outcome is unknown after a lost connection is queried after reconnecting: each counts itself, and the lock
//! cannot be had before the server has ended the old session, its commit included.
//!
//! The queue of bulk runs lies beside the state, in tables that no daemon's memory copies: any process may use it.

mod bulk_queue;
mod connect;
mod migrations;
mod reads;
mod store;
mod tables;
mod writer;

pub use bulk_queue::{
    BULK_LEASE, BulkQueue, BulkRun, BulkRunState, BulkStatus, ChunkEnd, ChunkProgress, Claim, NewChunk,
};
pub use connect::{ServerError, StoreConfig};
pub use store::{PostgresServer, PostgresStore};
