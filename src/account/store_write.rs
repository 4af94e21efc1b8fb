//! Submits one change to the store and awaits its commit.

use tokio::sync::oneshot;

use crate::store::{Change, ChangeError, Rows, StateStore};

/// Why a change did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The store refused or failed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The store was closed during the change; it may or may not have happened.
    #[error("the store was closed")]
    Closed,
}

/// Submits `change` and waits until it is durable. `committed` is called with the written rows, in commit order and before
/// this returns, also when this future is dropped; it runs on the store's thread and must be short. It is dropped without
/// a call when the change does not happen.
pub(crate) async fn write_change(
    store: &dyn StateStore,
    change: Change,
    committed: impl FnOnce(&Rows) + Send + 'static,
) -> Result<Rows, WriteError> {
    let answer = submit_change(store, change, committed, |_| {});
    Ok(answer.await.map_err(|_| WriteError::Closed)??)
}

/// Submits `change`, and returns where its outcome will be. `ended` is called with that after `committed`, before the caller has it.
pub(crate) fn submit_change(
    store: &dyn StateStore,
    change: Change,
    committed: impl FnOnce(&Rows) + Send + 'static,
    ended: impl FnOnce(&Result<Rows, ChangeError>) + Send + 'static,
) -> oneshot::Receiver<Result<Rows, ChangeError>> {
    let (reply, answer) = oneshot::channel();
    store.submit(
        change,
        Box::new(move |result| {
            match &result {
                Ok(rows) => committed(rows),
                // Before the reply: what the closure holds is released when the caller continues.
                Err(_) => drop(committed),
            }
            ended(&result);
            // The caller may be gone; the change happened all the same.
            drop(reply.send(result));
        }),
    );
    answer
}
