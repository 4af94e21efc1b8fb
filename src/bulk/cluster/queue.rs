//! Calls of the queue from asynchronous code.

use crate::store::{BulkQueue, OpenError};
use std::io;
use std::sync::Arc;

/// A queue in a database. Clones share its connection.
#[derive(Clone, Debug)]
pub struct Queue(Arc<BulkQueue>);

impl From<BulkQueue> for Queue {
    fn from(queue: BulkQueue) -> Self {
        Self(Arc::new(queue))
    }
}

impl Queue {
    /// Runs `work` on a thread that may block.
    ///
    /// # Errors
    /// Those of `work`.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&BulkQueue) -> Result<T, OpenError> + Send + 'static,
    ) -> Result<T, OpenError> {
        let queue = Arc::clone(&self.0);
        let worked = tokio::task::spawn_blocking(move || work(&queue)).await;
        worked.map_err(|error| OpenError::Io { path: self.0.name().into(), source: io::Error::other(error) })?
    }
}
