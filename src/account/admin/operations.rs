//! Executes the requests of the admin interface: lists, creates, changes, rotates and revokes accounts and keys.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::reply::{Reply, account_json, invalid_value, key_json, method_not_allowed};
use super::request::{AccountUpdateBody, KeyUpdateBody, NewAccountBody, NewKeyBody, RotateBody, parse, parse_optional};
use super::route::route;
use crate::account::key_restrictions::{parse_duration, parse_time};
use crate::account::{AccountModel, AccountName, CreatedKey, KeyRestrictions, KeyUpdate, Keys, Label, Scopes};
use crate::store::{ChangeError, UnixSeconds};

/// Executes one request of an authorized caller.
pub(super) async fn handle(keys: &Keys, method: &Method, target: &str, body: &[u8]) -> Reply {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let Some((route, methods, id)) = route(path) else {
        return Reply::not_found("no such path on the admin interface");
    };
    let answer = match (method.as_str(), route) {
        ("GET", "/keys") => list_keys(keys, query).await,
        _ if !query.is_empty() => Err(Reply::invalid(None, "only GET /keys takes a query, `account`")),
        ("POST", "/keys") => create_key(keys, body).await,
        ("DELETE", "/keys/{id}") => revoke_key(keys, id).await,
        ("PATCH", "/keys/{id}") => change_key(keys, id, body).await,
        ("POST", "/keys/{id}/rotate") => rotate_key(keys, id, body).await,
        ("GET", "/accounts") => list_accounts(keys).await,
        ("POST", "/accounts") => create_account(keys, body).await,
        ("PATCH", "/accounts/{id}") => change_account(keys, id, body).await,
        _ => Err(method_not_allowed(methods)),
    };
    answer.unwrap_or_else(|error| error)
}

async fn list_keys(keys: &Keys, query: &str) -> Result<Reply, Reply> {
    let account = match query.split_once('=') {
        Some(("account", name)) => Some(name),
        None if query.is_empty() => None,
        _ => return Err(Reply::invalid(None, "unknown query parameter (expected `account`)")),
    };
    if let Some(name) = account
        && keys.store().account(name).await.map_err(Reply::unreadable)?.is_none()
    {
        return Err(ChangeError::NoSuchAccount(name.into()).into());
    }
    let listed: Vec<Value> =
        keys.store().keys(account).await.map_err(Reply::unreadable)?.iter().map(key_json).collect();
    Ok(Reply::new(StatusCode::OK, json!({ "keys": listed })))
}

async fn create_key(keys: &Keys, body: &[u8]) -> Result<Reply, Reply> {
    let new: NewKeyBody = parse_optional(body)?;
    let account = AccountName::try_from(new.account.as_str()).map_err(|error| invalid_value("account", &error))?;
    let label = Label::try_from(new.label.as_str()).map_err(|error| invalid_value("label", &error))?;
    let restrictions = KeyRestrictions {
        expires_at: expiry(new.expires_in.as_deref(), new.expires_at.as_deref())?,
        images_per_month: new.images_per_month,
        scopes: Scopes::of(&new.scopes).map_err(|error| invalid_value("scopes", &error))?,
    };
    if restrictions.expires_at.is_some_and(|at| at <= UnixSeconds::now()) {
        return Err(Reply::invalid(Some("expires_at"), "`expires_at` has passed"));
    }
    Ok(reply_with_secret(&keys.create(&account, label, new.test, restrictions).await?))
}

async fn change_key(keys: &Keys, id: &str, body: &[u8]) -> Result<Reply, Reply> {
    let KeyUpdateBody { expires_in, expires_at, images_per_month, scopes } = parse(body)?;
    let never = expires_in.is_none() && expires_at == Some(None);
    let expires_at = expiry(expires_in.as_deref(), expires_at.flatten().as_deref())?.map(Some);
    let scopes = scopes.map(|scopes| Scopes::of(&scopes.unwrap_or_default())).transpose();
    let scopes = scopes.map_err(|error| invalid_value("scopes", &error))?.map(Scopes::into_names);
    let update = KeyUpdate { expires_at: expires_at.or(never.then_some(None)), images_per_month, scopes };
    if update == KeyUpdate::default() {
        let message = "nothing to change (expected `expires_in`, `expires_at`, `images_per_month` or `scopes`)";
        return Err(Reply::invalid(None, message));
    }
    Ok(Reply::new(StatusCode::OK, key_json(&keys.set(id, update).await?)))
}

/// The expiry of a key, from a duration or a time, not both.
fn expiry(duration: Option<&str>, time: Option<&str>) -> Result<Option<UnixSeconds>, Reply> {
    let (param, read) = match (duration, time) {
        (Some(_), Some(_)) => {
            return Err(Reply::invalid(Some("expires_in"), "`expires_in` and `expires_at` exclude each other"));
        }
        (Some(duration), None) => ("expires_in", parse_duration(duration, UnixSeconds::now())),
        (None, Some(time)) => ("expires_at", parse_time(time)),
        (None, None) => return Ok(None),
    };
    read.map(Some).map_err(|error| invalid_value(param, &error))
}

async fn rotate_key(keys: &Keys, id: &str, body: &[u8]) -> Result<Reply, Reply> {
    let RotateBody { keep_old_for } = parse_optional(body)?;
    let keep_until = keep_old_for.map(|duration| parse_duration(&duration, UnixSeconds::now())).transpose();
    let keep_until = keep_until.map_err(|error| invalid_value("keep_old_for", &error))?;
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

async fn list_accounts(keys: &Keys) -> Result<Reply, Reply> {
    let listed: Vec<Value> =
        keys.store().accounts().await.map_err(Reply::unreadable)?.iter().map(account_json).collect();
    Ok(Reply::new(StatusCode::OK, json!({ "accounts": listed })))
}

async fn create_account(keys: &Keys, body: &[u8]) -> Result<Reply, Reply> {
    let new: NewAccountBody = parse(body)?;
    let name = AccountName::try_from(new.name.as_str()).map_err(|error| invalid_value("name", &error))?;
    let model = model_of(new.model)?.unwrap_or_default();
    Ok(Reply::new(StatusCode::CREATED, account_json(&keys.create_account(name, new.plan, new.generates, model).await?)))
}

async fn change_account(keys: &Keys, name: &str, body: &[u8]) -> Result<Reply, Reply> {
    let AccountUpdateBody { plan, generates, model } = parse(body)?;
    if plan.is_none() && generates.is_none() && model.is_none() {
        return Err(Reply::invalid(None, "nothing to change (expected `plan`, `generates` or `model`)"));
    }
    let account = keys.set_account(name, plan, generates, model_of(model)?).await?;
    Ok(Reply::new(StatusCode::OK, account_json(&account)))
}

fn model_of(name: Option<String>) -> Result<Option<AccountModel>, Reply> {
    name.map(|name| name.parse()).transpose().map_err(|expected: &str| invalid_value("model", &expected))
}
