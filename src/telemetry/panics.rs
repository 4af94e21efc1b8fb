//! The message of a caught panic.

use std::any::Any;

/// The text a panic was raised with, or `no message` when its payload is not a string.
#[must_use]
pub fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
