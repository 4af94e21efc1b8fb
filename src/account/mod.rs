//! Accounts: who a caller is, what they may do, and what they used.
//!
//! [`Services`] is all of it on one store:
//! - [`Keys`] answers "whose token is this?" from memory and changes accounts and keys durably through the store.
//! - [`Ledger`] keeps quotas and bills, [`Requests`] keeps a repeated request from being billed again.
//! - [`Presets`] are parameters that an account saved.
//! - [`Daily`] counts the backdrops that are made in a day, for all accounts together.
//! - [`rate`] bounds how often a key may call; it lives in memory only.
//!
//! [`features`] and [`price`] are rules without state: which plan a request needs, and what it costs. [`admin`] is
//! accounts and keys for operators: a small JSON interface that the daemon serves on its admin listener and the command
//! line calls, in its own process or over that listener.

pub mod admin;
mod api_key;
mod daily;
pub mod features;
mod index;
mod key_bounds;
mod keys;
mod ledger;
#[cfg(test)]
mod memory_store;
pub mod presets;
pub mod price;
pub mod rate;
mod requests;
mod services;
mod text;
mod write;

pub use crate::store::{Account, AccountModel, Key, Plan};
pub(crate) use api_key::random_text;
pub use api_key::{ApiKey, ApiKeyError, Mode};
pub use daily::{Daily, DayExhausted, Place};
pub use key_bounds::{InvalidBound, KeyBounds, KeyChange, Scopes};
pub use keys::{CreatedKey, KeyInfo, Keys};
pub use ledger::{Bound, Ledger, LedgerError, Payer, QuotaExhausted, Reservation, Standing};
pub use presets::Presets;
pub use requests::{Begin, BilledPictures, Permit, Requests};
pub use services::Services;
pub use text::{AccountName, IdempotencyKey, InvalidText, Label, PresetName};
pub use write::WriteError;
pub(crate) use write::write;

/// The account that a daemon creates on an empty store, and the one that a key belongs to unless another is named.
pub const DEFAULT_ACCOUNT: &str = "default";
