//! The memory budget of fetched bodies.

use futures_util::future::BoxFuture;

/// Memory for a body that is being received.
pub trait MemoryBudget: Send + Sync {
    /// Reserves `bytes` more; may wait.
    ///
    /// # Errors
    /// When there is no memory; the fetch is then aborted.
    fn reserve(&self, bytes: usize) -> BoxFuture<'_, Result<(), OutOfMemory>>;
}

/// The budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget is exhausted")]
pub struct OutOfMemory;
