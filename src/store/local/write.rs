//! Submits one change to the store and awaits its commit.

use tokio::sync::oneshot;

use crate::store::{Change, Rows, StateStore, WriteError};

/// Submits `change` and waits until it is durable. `committed` is called with the written rows, in commit order and before
/// this returns, also when this future is dropped; it runs on the store's thread and must be short. It is dropped without
/// a call when the change does not happen.
pub(in crate::store) async fn write_change(
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
                // Before the reply: what the closure holds is released when the caller continues.
                Err(_) => drop(committed),
            }
            // The caller may be gone; the change happened all the same.
            drop(reply.send(result));
        }),
    );
    Ok(answer.await.map_err(|_| WriteError::Closed)??)
}
