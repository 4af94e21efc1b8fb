//! Accounts and their keys: who a caller is.
//!
//! [`Keys`] answers "whose token is this?" from memory and changes accounts and keys durably through the store.
//! [`admin`] is the same for operators: a small JSON interface that the daemon serves on its admin listener and the
//! command line calls, in its own process or over that listener.

pub mod admin;
mod api_key;
pub mod features;
mod index;
mod keys;
pub mod price;
mod text;

pub use crate::store::{Account, Key, Plan};
pub use api_key::{ApiKey, ApiKeyError, Mode};
pub use keys::{CreatedKey, KeyInfo, Keys, KeysError};
pub use text::{AccountName, InvalidText, Label};

/// The account that a daemon creates on an empty store, and the one that a key belongs to unless another is named.
pub const DEFAULT_ACCOUNT: &str = "default";
