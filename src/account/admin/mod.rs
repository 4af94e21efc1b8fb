//! Accounts and keys for operators: a small JSON interface.
//!
//! ```text
//! POST   /accounts           {"name","plan"[,"generates"][,"model"]}   201 account
//! GET    /accounts                                                     200 {"accounts":[…]}
//! PATCH  /accounts/{name}    {["plan"][,"generates"][,"model"]}        200 account
//! POST   /keys               {"account","label","test", bounds}        201 key with its secret, in `key`, this once
//! GET    /keys[?account=]                                              200 {"keys":[…]}
//! PATCH  /keys/{id}          {bounds}                                  200 key
//! POST   /keys/{id}/rotate   {["keep_old_for"]}                        201 key with another secret, as above
//! DELETE /keys/{id}                                                    200 key, with `revoked_at`
//! ```
//!
//! Bounds of a key are `expires_in` (`"30d"`) or `expires_at`, `images_per_month` and `scopes` (`["remove"]`), each where
//! it is sent; `null`, and no scope, take a bound away.
//!
//! One function answers it. The daemon serves it on its admin listener behind a token ([`Admin`]) that it
//! leaves in its data directory ([`Door`]); the command line calls it there, or in its own process when no daemon holds
//! the store ([`Link`]).

mod door;
mod link;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api_key::{random_text, same_secret};
use super::{
    Account, AccountModel, AccountName, CreatedKey, DEFAULT_ACCOUNT, InvalidBound, InvalidText, Key, KeyBounds,
    KeyChange, Keys, Label, Mode, Plan, Scopes, WriteError, key_bounds,
};
use crate::store::{ChangeError, UnixSeconds};
pub use door::{Door, PublishedDoor};
pub use link::{Link, LinkError};

/// The secret that opens the admin interface of one run of the daemon.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// A new one from the operating system's randomness.
    #[must_use]
    pub fn generate() -> Self {
        Self(random_text(43))
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What the interface answers: a status, and the JSON body that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// Body; an error is `{"error":{"code","message"[,"param"]}}`.
    pub body: Value,
    /// The methods that the path does have, for a 405's `Allow`.
    pub allow: Option<&'static str>,
}

/// The interface as a daemon serves it.
#[derive(Clone, Debug)]
pub struct Admin {
    keys: Keys,
    token: AdminToken,
}

impl Admin {
    /// Serves `keys` to whoever holds `token`.
    #[must_use]
    pub const fn new(keys: Keys, token: AdminToken) -> Self {
        Self { keys, token }
    }

    /// Whether a path belongs to this interface; ask before reading a body for it.
    #[must_use]
    pub fn owns(path: &str) -> bool {
        Route::of(path).is_some()
    }

    /// Answers a request: `target` is its path with the query, `authorization` the header.
    pub async fn answer(&self, method: &Method, target: &str, authorization: Option<&str>, body: &[u8]) -> Reply {
        if !authorization.and_then(bearer).is_some_and(|token| same_secret(token, &self.token.0)) {
            let message = "missing or wrong admin token; it is in admin.token in the data directory";
            return Reply::error(StatusCode::UNAUTHORIZED, "unauthorized", message, None);
        }
        operate(&self.keys, method, target, body).await
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Reply {
    fn new(status: StatusCode, body: Value) -> Self {
        Self { status, body, allow: None }
    }

    fn error(status: StatusCode, code: &str, message: &str, param: Option<&str>) -> Self {
        let mut error = json!({"code": code, "message": message});
        if let Some(param) = param {
            error["param"] = param.into();
        }
        Self::new(status, json!({ "error": error }))
    }

    fn invalid(param: Option<&str>, message: &str) -> Self {
        Self::error(StatusCode::BAD_REQUEST, "invalid_parameter", message, param)
    }

    fn not_found(message: &str) -> Self {
        Self::error(StatusCode::NOT_FOUND, "not_found", message, None)
    }
}

impl From<WriteError> for Reply {
    fn from(error: WriteError) -> Self {
        let message = error.to_string();
        let (status, code) = match error {
            WriteError::Change(
                ChangeError::AccountExists(_)
                | ChangeError::KeyExists
                | ChangeError::KeyRevoked(_)
                | ChangeError::KeyRotated(_)
                | ChangeError::PresetNameTaken(_)
                | ChangeError::TooManyPresets(_)
                | ChangeError::JobExists(_)
                | ChangeError::JobNameTaken(_)
                | ChangeError::TooManyJobs { .. }
                | ChangeError::JobState { .. },
            ) => (StatusCode::CONFLICT, "conflict"),
            WriteError::Change(
                ChangeError::NoSuchAccount(_)
                | ChangeError::NoSuchKey(_)
                | ChangeError::NoSuchPreset(_)
                | ChangeError::NoSuchJob(_),
            ) => (StatusCode::NOT_FOUND, "not_found"),
            WriteError::Change(ChangeError::Busy | ChangeError::Unavailable(_)) | WriteError::Closed => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
            WriteError::Change(ChangeError::Storage(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        };
        Self::error(status, code, &message, None)
    }
}

/// The paths of the interface.
enum Route<'a> {
    Accounts,
    Account(&'a str),
    Keys,
    Key(&'a str),
    Rotation(&'a str),
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        match path {
            "/accounts" => Some(Self::Accounts),
            "/keys" => Some(Self::Keys),
            _ => {
                let (collection, item) = path.strip_prefix('/')?.split_once('/')?;
                let rotated = item.strip_suffix("/rotate").filter(|id| !id.is_empty());
                match (collection, rotated) {
                    ("accounts", _) if !item.is_empty() => Some(Self::Account(item)),
                    ("keys", Some(id)) => Some(Self::Rotation(id)),
                    ("keys", None) if !item.is_empty() => Some(Self::Key(item)),
                    _ => None,
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAccount {
    name: String,
    plan: Plan,
    #[serde(default)]
    generates: bool,
    #[serde(default)]
    model: Word,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountChange {
    plan: Option<Plan>,
    generates: Option<bool>,
    model: Option<Word>,
}

/// A model as operators write it.
#[derive(Default)]
struct Word(AccountModel);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map(Self)
            .map_err(|expected| serde::de::Error::custom(format_args!("invalid `model` ({expected})")))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NewKey {
    account: String,
    label: String,
    test: bool,
    expires_in: Option<String>,
    expires_at: Option<String>,
    images_per_month: Option<u64>,
    scopes: Vec<String>,
}

impl Default for NewKey {
    fn default() -> Self {
        Self {
            account: DEFAULT_ACCOUNT.into(),
            label: String::new(),
            test: false,
            expires_in: None,
            expires_at: None,
            images_per_month: None,
            scopes: Vec::new(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BoundsChange {
    expires_in: Option<String>,
    #[serde(deserialize_with = "sent")]
    expires_at: Option<Option<String>>,
    #[serde(deserialize_with = "sent")]
    images_per_month: Option<Option<u64>>,
    #[serde(deserialize_with = "sent")]
    scopes: Option<Option<Vec<String>>>,
}

/// Separates what was sent as `null` from what was not sent.
fn sent<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rotated {
    keep_old_for: Option<String>,
}

/// Answers one request of a caller who may do anything here.
async fn operate(keys: &Keys, method: &Method, target: &str, body: &[u8]) -> Reply {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let Some(route) = Route::of(path) else {
        return Reply::not_found("no such path on the admin interface");
    };
    let answer = match route {
        Route::Keys if method == Method::GET => list_keys(keys, query),
        _ if !query.is_empty() => Err(Reply::invalid(None, "only GET /keys takes a query, `account`")),
        Route::Keys if method == Method::POST => create_key(keys, body).await,
        Route::Key(id) if method == Method::DELETE => revoke_key(keys, id).await,
        Route::Key(id) if method == Method::PATCH => change_key(keys, id, body).await,
        Route::Rotation(id) if method == Method::POST => rotate_key(keys, id, body).await,
        Route::Accounts if method == Method::GET => Ok(list_accounts(keys)),
        Route::Accounts if method == Method::POST => create_account(keys, body).await,
        Route::Account(name) if method == Method::PATCH => change_account(keys, name, body).await,
        Route::Keys | Route::Accounts => Err(method_not_allowed("GET, POST")),
        Route::Key(_) => Err(method_not_allowed("DELETE, PATCH")),
        Route::Rotation(_) => Err(method_not_allowed("POST")),
        Route::Account(_) => Err(method_not_allowed("PATCH")),
    };
    answer.unwrap_or_else(|error| error)
}

fn list_keys(keys: &Keys, query: &str) -> Result<Reply, Reply> {
    let account = match query.split_once('=') {
        Some(("account", name)) => Some(name),
        None if query.is_empty() => None,
        _ => return Err(Reply::invalid(None, "unknown query parameter (expected `account`)")),
    };
    if let Some(name) = account
        && keys.account(name).is_none()
    {
        return Err(WriteError::Change(ChangeError::NoSuchAccount(name.into())).into());
    }
    let listed: Vec<Value> = keys.list(account).iter().map(key_json).collect();
    Ok(Reply::new(StatusCode::OK, json!({ "keys": listed })))
}

async fn create_key(keys: &Keys, body: &[u8]) -> Result<Reply, Reply> {
    let new: NewKey = if body.is_empty() { NewKey::default() } else { parse(body)? };
    let account = AccountName::try_from(new.account.as_str()).map_err(|error| invalid_text("account", error))?;
    let label = Label::try_from(new.label.as_str()).map_err(|error| invalid_text("label", error))?;
    let bounds = KeyBounds {
        expires_at: expiry(new.expires_in.as_deref(), new.expires_at.as_deref())?,
        images_per_month: new.images_per_month,
        scopes: Scopes::of(&new.scopes).map_err(|error| invalid_bound("scopes", &error))?,
    };
    if bounds.expires_at.is_some_and(|at| at <= UnixSeconds::now()) {
        return Err(Reply::invalid(Some("expires_at"), "`expires_at` has passed"));
    }
    let mode = if new.test { Mode::Test } else { Mode::Live };
    Ok(reply_with_secret(&keys.create_bounded(&account, label, mode, bounds).await?))
}

async fn change_key(keys: &Keys, id: &str, body: &[u8]) -> Result<Reply, Reply> {
    let BoundsChange { expires_in, expires_at, images_per_month, scopes } = parse(body)?;
    let never = expires_in.is_none() && expires_at == Some(None);
    let expires_at = expiry(expires_in.as_deref(), expires_at.flatten().as_deref())?.map(Some);
    let scopes = scopes.map(|scopes| Scopes::of(&scopes.unwrap_or_default())).transpose();
    let scopes = scopes.map_err(|error| invalid_bound("scopes", &error))?;
    let change = KeyChange { expires_at: expires_at.or(never.then_some(None)), images_per_month, scopes };
    if change == KeyChange::default() {
        let message = "nothing to change (expected `expires_in`, `expires_at`, `images_per_month` or `scopes`)";
        return Err(Reply::invalid(None, message));
    }
    Ok(Reply::new(StatusCode::OK, key_json(&keys.set(id, change).await?)))
}

/// The expiry of a key, from a duration or a time.
fn expiry(duration: Option<&str>, time: Option<&str>) -> Result<Option<UnixSeconds>, Reply> {
    let (param, read) = match (duration, time) {
        (Some(_), Some(_)) => {
            return Err(Reply::invalid(Some("expires_in"), "`expires_in` and `expires_at` exclude each other"));
        }
        (Some(duration), None) => ("expires_in", key_bounds::after(duration, UnixSeconds::now())),
        (None, Some(time)) => ("expires_at", key_bounds::time(time)),
        (None, None) => return Ok(None),
    };
    read.map(Some).map_err(|error| invalid_bound(param, &error))
}

async fn rotate_key(keys: &Keys, id: &str, body: &[u8]) -> Result<Reply, Reply> {
    let Rotated { keep_old_for } = if body.is_empty() { Rotated::default() } else { parse(body)? };
    let keep_until = keep_old_for.map(|duration| key_bounds::after(&duration, UnixSeconds::now())).transpose();
    let keep_until = keep_until.map_err(|error| invalid_bound("keep_old_for", &error))?;
    Ok(reply_with_secret(&keys.rotate(id, keep_until).await?))
}

fn reply_with_secret(CreatedKey { key, secret }: &CreatedKey) -> Reply {
    let mut created = key_json(key);
    created["key"] = secret.expose().into();
    Reply::new(StatusCode::CREATED, created)
}

async fn revoke_key(keys: &Keys, id: &str) -> Result<Reply, Reply> {
    Ok(Reply::new(StatusCode::OK, key_json(&keys.revoke(id).await?)))
}

fn list_accounts(keys: &Keys) -> Reply {
    let listed: Vec<Value> = keys.accounts().iter().map(account_json).collect();
    Reply::new(StatusCode::OK, json!({ "accounts": listed }))
}

async fn create_account(keys: &Keys, body: &[u8]) -> Result<Reply, Reply> {
    let new: NewAccount = parse(body)?;
    let name = AccountName::try_from(new.name.as_str()).map_err(|error| invalid_text("name", error))?;
    Ok(Reply::new(
        StatusCode::CREATED,
        account_json(&keys.create_account(name, new.plan, new.generates, new.model.0).await?),
    ))
}

async fn change_account(keys: &Keys, name: &str, body: &[u8]) -> Result<Reply, Reply> {
    let AccountChange { plan, generates, model } = parse(body)?;
    if plan.is_none() && generates.is_none() && model.is_none() {
        return Err(Reply::invalid(None, "nothing to change (expected `plan`, `generates` or `model`)"));
    }
    let model = model.map(|Word(model)| model);
    Ok(Reply::new(StatusCode::OK, account_json(&keys.set_account(name, plan, generates, model).await?)))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Reply> {
    serde_json::from_slice(body).map_err(|error| Reply::invalid(None, &format!("invalid JSON body: {error}")))
}

fn invalid_text(param: &str, error: InvalidText) -> Reply {
    Reply::invalid(Some(param), &format!("invalid `{param}` ({error})"))
}

fn invalid_bound(param: &str, error: &InvalidBound) -> Reply {
    Reply::invalid(Some(param), &format!("invalid `{param}` ({error})"))
}

fn method_not_allowed(allow: &'static str) -> Reply {
    let message = format!("this path allows {allow}");
    let reply = Reply::error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &message, None);
    Reply { allow: Some(allow), ..reply }
}

fn key_json(key: &Key) -> Value {
    json!({
        "id": key.id,
        "account": key.account,
        "label": key.label,
        "test": key.test,
        "created_at": key.created_at.to_string(),
        "revoked_at": key.revoked_at.map(|time| time.to_string()),
        "last_used_at": key.last_used_at.map(|time| time.to_string()),
        "expires_at": key.expires_at.map(|time| time.to_string()),
        "images_per_month": key.images_per_month,
        "scopes": key.scopes,
        "old_secret_until": key.previous.map(|previous| previous.until.to_string()),
    })
}

fn account_json(account: &Account) -> Value {
    json!({
        "name": account.name,
        "plan": account.plan.name(),
        "generates": account.generates,
        "model": account.model.name(),
        "created_at": account.created_at.to_string(),
    })
}
