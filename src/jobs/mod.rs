//! Work that outlives its request: queued in the store, done on the engine's bulk lane, fetched when it is done.

pub mod results;
pub mod secret;
pub mod webhook_sender;
