//! Accounts: authentication, plans, quotas, billing, rate limits and presets of API callers.
//!
//! [`Services`] is all of it on one store:
//! - [`Keys`] authenticates tokens from memory, and changes accounts and keys durably through the store.
//! - [`Billing`] reserves and bills images against quotas; [`IdempotencyKeys`] keeps a repeated request from being billed
//!   again.
//! - [`Presets`] are request parameters that an account saved.
//! - [`BackdropQuota`] limits the generated backdrops of a day, for all accounts together.
//!
//! [`rate_limit`] limits the calls of a key, in memory only. [`plan`] and [`price`] are rules without state: the plan that
//! a request needs, and its price. [`admin`] is the interface for operators, served by the daemon on its admin listener
//! and called by the command line.

pub mod admin;
mod api_key;
mod backdrop_quota;
mod billing;
mod idempotency;
mod key_cache;
mod key_info;
mod key_restrictions;
mod keys;
#[cfg(test)]
mod memory_store;
mod names;
pub mod plan;
pub mod presets;
pub mod price;
pub mod rate_limit;
mod scopes;
mod services;
mod store_write;

pub use crate::store::{Account, AccountModel, Key};
pub(crate) use api_key::random_text;
pub use api_key::{ApiKey, ApiKeyError, Mode};
pub use backdrop_quota::{BackdropQuota, BackdropQuotaExhausted, BackdropReservation};
pub use billing::{Billed, Billing, BillingError, Payer, QuotaExhausted, QuotaKind, Reservation, UsageSummary};
pub use idempotency::{BilledPictures, Claim, ClaimGuard, IdempotencyKeys};
pub use key_info::KeyInfo;
pub use key_restrictions::{KeyRestrictions, KeyUpdate};
pub use keys::{CreatedKey, Keys};
pub use names::{AccountName, IdempotencyKey, InvalidText, Label, PresetName};
pub use plan::Plan;
pub use presets::Presets;
pub use scopes::{InvalidRestriction, Scopes};
pub use services::Services;
pub use store_write::WriteError;
pub(crate) use store_write::write_change;

/// The account that a daemon creates on an empty store, and the default account of a new key.
pub const DEFAULT_ACCOUNT: &str = "default";
