//! Bulk runs of keys, as `POST /bulk` and `/jobs` use them: the queue, which account may use which places, and the preparation
//! of a run, which is behind a trait because it needs weights and storage.

use crate::bulk::Selection;
use crate::jobs::JobsConfig;
use crate::recipe::{Endpoint, Fields, Network};
use crate::store::{BulkQueue, NewBulkJob};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A run that a key requests. Its fields are valid, and its places are allowed.
#[derive(Clone, Debug)]
pub struct BulkRequest {
    /// Public id of the key.
    pub key_id: String,
    /// The account of the key.
    pub account: String,
    /// The `Idempotency-Key`.
    pub name: Option<String>,
    /// URL of the place of the pictures.
    pub from: String,
    /// URL of the place of the results.
    pub to: String,
    /// URL of the report; by default an object in the place of the results.
    pub report: Option<String>,
    /// What is done with each picture.
    pub endpoint: &'static Endpoint,
    /// Its fields.
    pub fields: Fields,
    /// The network that cuts out.
    pub network: Network,
    /// The background's file.
    pub background: Option<Bytes>,
    /// The watermark's file.
    pub mark: Option<Bytes>,
    /// Which objects, and how their results are named.
    pub selection: Selection,
}

/// Why a run cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkRefusal {
    /// By this field.
    Parameter {
        /// The field.
        param: &'static str,
        /// The reason, in a sentence.
        message: String,
    },
    /// The operator has not allowed the account the place of this field.
    Forbidden {
        /// The field.
        param: &'static str,
    },
    /// By a fault of the service; for the log.
    Internal(String),
}

/// Prepares runs.
pub trait PrepareBulk: Send + Sync + 'static {
    /// Opens the places of a run and names it. Blocks for a short time.
    ///
    /// # Errors
    /// See [`BulkRefusal`].
    fn prepare(&self, request: BulkRequest) -> Result<NewBulkJob, BulkRefusal>;
}

/// The bulk runs of a database. Clones share them.
#[derive(Clone)]
pub struct BulkRuns {
    /// The runs.
    pub queue: BulkQueue,
    /// Who may start runs, where, and how many.
    pub config: Arc<JobsConfig>,
    /// Prepares a run.
    pub prepare: Arc<dyn PrepareBulk>,
}

impl fmt::Debug for BulkRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkRuns").field("queue", &self.queue).field("config", &self.config).finish_non_exhaustive()
    }
}
