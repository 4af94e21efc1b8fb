//! The engine of several machines: a PostgreSQL database on which any number of daemons work. None of them holds anything of it.
//!
//! A request is one call of `admit`, one of `claim` where it has an `Idempotency-Key`, and one of `bill`: functions of the schema
//! (`migrations/6.sql` and `7.sql`), each a transaction and a round trip. A bill locks its account's row, so that no quota is exceeded. Jobs,
//! chunks of bulk runs and the leads of bulk runs are claimed under leases by the server's clock.
//!
//! A call that fails because the database is away has not happened; where the connection breaks before the answer it may have
//! ([`ChangeError::Interrupted`](super::ChangeError::Interrupted)): nothing is repeated by itself that would count twice.

mod accounts;
mod bulk_jobs;
mod bulk_queue;
mod bulk_removal;
mod connect;
mod database;
mod error;
mod jobs;
mod migrations;
mod requests;
mod rows;
mod schema;
mod server;
mod transfer;

pub use bulk_jobs::{BULK_ID_PREFIX, BulkJob, BulkJobCreated, BulkJobEnd, BulkLead, NewBulkJob};
pub use bulk_queue::{BULK_LEASE, BulkQueue, BulkRun, BulkRunState, BulkStatus, ChunkClaim, NewChunk};
pub use connect::{PostgresServer, ServerError, StoreConfig};
pub use database::Database;
pub use jobs::JOB_LEASE;
pub(super) use requests::RowClaim;
