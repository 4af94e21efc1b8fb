//! JSON bodies of admin requests: accounts and keys to create or change.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::reply::Reply;
use crate::account::DEFAULT_ACCOUNT;
use crate::store::Plan;

/// `POST /accounts`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewAccountBody {
    pub(super) name: String,
    pub(super) plan: Plan,
    #[serde(default)]
    pub(super) generates: bool,
    pub(super) model: Option<String>,
}

/// `PATCH /accounts/{name}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountUpdateBody {
    pub(super) plan: Option<Plan>,
    pub(super) generates: Option<bool>,
    pub(super) model: Option<String>,
}

/// `POST /keys`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKeyBody {
    #[serde(default = "default_account")]
    pub(super) account: String,
    #[serde(default)]
    pub(super) label: String,
    #[serde(default)]
    pub(super) test: bool,
    pub(super) expires_in: Option<String>,
    pub(super) expires_at: Option<String>,
    pub(super) images_per_month: Option<u64>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

fn default_account() -> String {
    DEFAULT_ACCOUNT.into()
}

/// `PATCH /keys/{id}`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KeyUpdateBody {
    pub(super) expires_in: Option<String>,
    #[serde(deserialize_with = "sent")]
    pub(super) expires_at: Option<Option<String>>,
    #[serde(deserialize_with = "sent")]
    pub(super) images_per_month: Option<Option<u64>>,
    #[serde(deserialize_with = "sent")]
    pub(super) scopes: Option<Option<Vec<String>>>,
}

/// Distinguishes a `null` from a missing member.
fn sent<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// `POST /keys/{id}/rotate`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RotateBody {
    pub(super) keep_old_for: Option<String>,
}

/// Parses a JSON body; an empty one is an empty object.
pub(super) fn parse_optional<T: DeserializeOwned>(body: &[u8]) -> Result<T, Reply> {
    parse(if body.is_empty() { b"{}" } else { body })
}

/// Parses a JSON body.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Reply> {
    serde_json::from_slice(body).map_err(|error| Reply::invalid(None, &format!("invalid JSON body: {error}")))
}
