//! Calls of the queue from asynchronous code.

use crate::store::{BulkQueue, OpenError};
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A queue in a database. Clones share its connection.
#[derive(Clone, Debug)]
pub struct Queue {
    queue: Arc<BulkQueue>,
    /// The connection has one call at a time. The others wait for their turn here, where a cancelled one costs nothing, and not
    /// each on a thread. Where one fails because the database does not answer, those that waited for it fail at once.
    turn: Arc<Mutex<()>>,
}

impl From<BulkQueue> for Queue {
    fn from(queue: BulkQueue) -> Self {
        Self { queue: Arc::new(queue), turn: Arc::default() }
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
        let queue = Arc::clone(&self.queue);
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let worked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&queue)
        });
        worked
            .await
            .map_err(|error| OpenError::Io { path: self.queue.name().into(), source: io::Error::other(error) })?
    }
}
