//! Accounts: authentication, plans, quotas, billing, rate limits and presets of API callers.
//!
//! State is in a [`Store`](crate::store::Store), which authenticates, admits and bills. Here are
//! - [`Keys`], which creates, changes, rotates and revokes accounts and keys;
//! - [`Presets`], request parameters that an account saved;
//! - [`plan`] and [`price`], rules without state: the plan that a request needs, and its price;
//! - [`admin`], the interface for operators, served by the daemon on its admin listener and called by the command line.

pub mod admin;
mod api_key;
mod key_restrictions;
mod keys;
mod names;
pub mod plan;
pub mod presets;
pub mod price;
mod scopes;

pub use crate::store::{Account, AccountModel, Key, KeyUpdate};
pub(crate) use api_key::random_text;
pub use api_key::{ApiKey, ApiKeyError, token_hash};
pub use key_restrictions::KeyRestrictions;
pub use keys::{CreatedKey, Keys};
pub use names::{AccountName, IdempotencyKey, InvalidText, Label};
pub use plan::Plan;
pub use presets::Presets;
pub use scopes::Scopes;

/// The account that a daemon creates on an empty store, and the default account of a new key.
pub const DEFAULT_ACCOUNT: &str = "default";
