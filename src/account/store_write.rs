//! One change of the store, awaited.

use tokio::sync::oneshot;

use crate::store::{Change, ChangeError, Rows, StateStore};

/// Why a change did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The store refused or failed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The store was closed while the change was under way; it may or may not have happened.
    #[error("the store was closed")]
    Closed,
}

/// Submits `change` and waits until it is durable. `committed` gets the rows that it wrote, in commit order and before
/// this returns, also when whoever waits goes away; it runs on the store's thread and must be short. It is dropped
/// without a call when the change does not happen.
pub(crate) async fn write(
    store: &dyn StateStore,
    change: Change,
    committed: impl FnOnce(&Rows) + Send + 'static,
) -> Result<Rows, WriteError> {
    let (reply, answer) = oneshot::channel();
    store.submit(
        change,
        Box::new(move |result| {
            match &result {
                Ok(rows) => committed(rows),
                // Before the answer: whoever waits finds given back what the closure holds.
                Err(_) => drop(committed),
            }
            // Whoever asked may be gone; the change happened all the same.
            drop(reply.send(result));
        }),
    );
    Ok(answer.await.map_err(|_| WriteError::Closed)??)
}
