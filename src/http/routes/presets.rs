//! `/presets`: lists, saves and deletes the presets of an account.

use crate::account::presets::{Draft, LookupBy, MAX_PAGE, Page, params};
use crate::http::admission::Caller;
use crate::http::reply::{self, Reply, Result};
use crate::http::request::json::{self, is_absent};
use crate::http::request::preset_fields;
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::recipe::{ENDPOINTS, Endpoint, FieldError};
use crate::store::{Preset, UnixSeconds};
use hyper::StatusCode;
use serde_json::{Value, json};

/// Lists the presets of the account, a page at a time.
pub(crate) async fn list(state: &ApiState, caller: &Caller, context: &RequestContext) -> Result<Reply> {
    let (mut limit, mut cursor) = (MAX_PAGE, None);
    for (name, value) in context.query() {
        match name.as_ref() {
            "limit" => {
                let number = value.parse().ok().filter(|number| (1..=MAX_PAGE).contains(number));
                limit = number
                    .ok_or_else(|| FieldError::invalid("limit", &value, format!("an integer from 1 to {MAX_PAGE}")))?;
            }
            "cursor" => cursor = Some(value.into_owned()),
            other => return Err(FieldError::unknown(other, ["limit", "cursor"]).into()),
        }
    }
    let Page { presets, next } = state.app.presets.list(&caller.account, cursor.as_deref(), limit).await?;
    let mut body = json!({ "presets": presets.iter().map(to_json).collect::<Vec<_>>() });
    if let Some(next) = next {
        body["next_cursor"] = next.into();
    }
    Ok(reply::json(StatusCode::OK, &body))
}

/// Saves a preset; with an id, overwrites that one.
pub(crate) async fn save(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply> {
    let object = json::read(&context.headers, &mut context.body).await?;
    let received = context.body.received();
    let mut draft = Draft::default();
    let (mut name, mut endpoint) = (None, None);
    for (member, value) in object.unique()? {
        if !MEMBERS.contains(&member.as_str()) {
            return Err(FieldError::unknown(&member, MEMBERS).into());
        }
        if is_absent(&value) {
            continue;
        }
        let text = |expected: &str| json::text(&member, &value, expected);
        match member.as_str() {
            "id" => draft.id = Some(text("the id of a preset")?),
            "name" => name = Some(text("a name of 1 to 100 characters")?),
            "endpoint" => {
                let path = text("the path of an endpoint that takes presets")?;
                endpoint = Some(ENDPOINTS.iter().find(|endpoint| endpoint.path == path).ok_or_else(|| {
                    FieldError::invalid("endpoint", &path, "the path of an endpoint that takes presets")
                })?);
            }
            "params" => draft.params = json::object(&member, value)?,
            // The times of a record that is sent back are ignored; the store sets them.
            _ => {}
        }
    }
    draft.name = name.ok_or_else(|| FieldError::Missing { param: "name".to_owned() })?;
    draft.endpoint = endpoint.map(|endpoint: &Endpoint| endpoint.path.to_owned());
    if let Some(id_or_name) = &draft.id
        && let Some(found) = state.app.presets.find(&caller.account, id_or_name, LookupBy::Id).await?
    {
        draft.id = Some(found.id);
    }
    let check = |draft: &Draft| preset_fields::validate(endpoint, &draft.params);
    let preset = state.app.presets.save(&caller.account, draft, UnixSeconds::now(), check).await?;
    Ok(reply::timed_json(StatusCode::OK, &to_json(&preset), received.elapsed()))
}

/// Deletes a preset, whose id is in the body or in the query.
pub(crate) async fn delete(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply> {
    let mut id = None;
    let mut read = |name: &str, value: &Value| {
        match (name, value.as_str()) {
            ("id", _) if is_absent(value) => {}
            ("id", _) if id.is_some() => return Err(FieldError::Repeated { param: name.to_owned() }),
            ("id", Some(text)) => id = Some(text.trim().to_owned()),
            ("id", None) => return Err(FieldError::invalid("id", &value.to_string(), "the id of a preset")),
            (..) => return Err(FieldError::unknown(name, ["id"])),
        }
        Ok(())
    };
    context.query().try_for_each(|(name, value)| read(&name, &value.into()))?;
    // The documented place is the body.
    if context.body.ended().is_none() {
        let members = json::read(&context.headers, &mut context.body).await?.unique()?;
        members.iter().try_for_each(|(name, value)| read(name, value))?;
    }
    let id = id.ok_or_else(|| FieldError::Missing { param: "id".to_owned() })?;
    let found = state.app.presets.find(&caller.account, &id, LookupBy::Id).await?;
    let id = found.map_or(id, |found| found.id);
    state.app.presets.delete(&caller.account, &id).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "deleted": true, "id": id })))
}

/// The members of a record.
const MEMBERS: [&str; 6] = ["id", "name", "endpoint", "params", "created_at", "updated_at"];

/// A preset as JSON.
fn to_json(preset: &Preset) -> Value {
    json!({
        "id": preset.id,
        "name": preset.name,
        "endpoint": preset.endpoint,
        "params": params(preset),
        "created_at": preset.created_at.to_string(),
        "updated_at": preset.updated_at.to_string(),
    })
}
