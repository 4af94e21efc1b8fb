//! `/presets`: bundles of fields that an account has saved.

use crate::account::presets::{By, Draft, MAX_PAGE, Page, PresetError, params};
use crate::http::Caller;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::json;
use crate::http::response::{self, Reply};
use crate::recipe::{ENDPOINTS, Endpoint, FieldError, Fields};
use crate::store::{Preset, UnixSeconds};
use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

/// Lists, saves or deletes.
pub(in crate::http) async fn answer(
    facade: &Facade,
    caller: &Caller,
    exchange: &mut Exchange,
) -> Result<Reply, ApiError> {
    if exchange.method == Method::POST {
        save(facade, caller, exchange).await
    } else if exchange.method == Method::DELETE {
        delete(facade, caller, exchange).await
    } else {
        list(facade, caller, exchange).await
    }
}

async fn list(facade: &Facade, caller: &Caller, exchange: &Exchange) -> Result<Reply, ApiError> {
    let (mut limit, mut cursor) = (MAX_PAGE, None);
    for (name, value) in query(exchange) {
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
    let Page { presets, next } = facade.app.presets.list(&caller.account, cursor.as_deref(), limit).await?;
    let mut body = json!({ "presets": presets.iter().map(shown).collect::<Vec<_>>() });
    if let Some(next) = next {
        body["next_cursor"] = next.into();
    }
    Ok(response::json(StatusCode::OK, &body))
}

async fn save(facade: &Facade, caller: &Caller, exchange: &mut Exchange) -> Result<Reply, ApiError> {
    json::only(&exchange.headers)?;
    let object = json::read(&mut exchange.body).await?;
    let received = exchange.body.received();
    let mut draft = Draft::default();
    let (mut name, mut endpoint) = (None, None);
    for (member, value) in object.unique()? {
        if !MEMBERS.contains(&member.as_str()) {
            return Err(FieldError::unknown(&member, MEMBERS).into());
        }
        if is_absent(&value) {
            continue;
        }
        let text = |expected: &str| {
            let text = value.as_str().map(|text| text.trim().to_owned());
            text.ok_or_else(|| FieldError::invalid(&member, &value.to_string(), expected))
        };
        match member.as_str() {
            "id" => draft.id = Some(text("the id of a preset")?),
            "name" => name = Some(text("a name of 1 to 100 characters")?),
            "endpoint" => {
                let path = text("the path of an endpoint that takes presets")?;
                endpoint = Some(ENDPOINTS.iter().find(|endpoint| endpoint.path == path).ok_or_else(|| {
                    FieldError::invalid("endpoint", &path, "the path of an endpoint that takes presets")
                })?);
            }
            "params" => match value {
                Value::Object(members) => draft.params = members,
                other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                    return Err(FieldError::invalid("params", &other.to_string(), "an object").into());
                }
            },
            // The times of a record that is sent back: they are the store's to say.
            _ => {}
        }
    }
    draft.name = name.ok_or_else(|| FieldError::Missing { param: "name".to_owned() })?;
    draft.endpoint = endpoint.map(|endpoint: &Endpoint| endpoint.path.to_owned());
    if let Some(id_or_name) = &draft.id
        && let Some(found) = facade.app.presets.find_by(&caller.account, id_or_name, By::Id).await?
    {
        draft.id = Some(found.id);
    }
    let check = |draft: &Draft| judge(endpoint, &draft.params);
    let preset = facade.app.presets.save(&caller.account, draft, UnixSeconds::now(), check).await?;
    response::timed_json(StatusCode::OK, &shown(&preset), received.elapsed())
}

async fn delete(facade: &Facade, caller: &Caller, exchange: &mut Exchange) -> Result<Reply, ApiError> {
    let mut id = None;
    for (name, value) in query(exchange) {
        match name.as_ref() {
            "id" if value.trim().is_empty() => {}
            "id" if id.is_none() => id = Some(value.trim().to_owned()),
            "id" => return Err(FieldError::Repeated { param: "id".to_owned() }.into()),
            other => return Err(FieldError::unknown(other, ["id"]).into()),
        }
    }
    // A body is read where there is one: it is the documented place.
    if exchange.body.ended().is_none() {
        json::only(&exchange.headers)?;
        for (member, value) in json::read(&mut exchange.body).await?.unique()? {
            match (member.as_str(), value.as_str()) {
                ("id", _) if is_absent(&value) => {}
                ("id", _) if id.is_some() => return Err(FieldError::Repeated { param: member }.into()),
                ("id", Some(text)) => id = Some(text.trim().to_owned()),
                ("id", None) => return Err(FieldError::invalid("id", &value.to_string(), "the id of a preset").into()),
                (..) => return Err(FieldError::unknown(&member, ["id"]).into()),
            }
        }
    }
    let id = id.ok_or_else(|| FieldError::Missing { param: "id".to_owned() })?;
    let found = facade.app.presets.find_by(&caller.account, &id, By::Id).await?;
    let id = found.map_or(id, |found| found.id);
    facade.app.presets.delete(&caller.account, &id).await?;
    Ok(response::json(StatusCode::OK, &json!({ "deleted": true, "id": id })))
}

/// The members of a record.
const MEMBERS: [&str; 6] = ["id", "name", "endpoint", "params", "created_at", "updated_at"];

/// Whether a member is as good as not there.
fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// The parameters of the query string.
pub(super) fn query(exchange: &Exchange) -> url::form_urlencoded::Parse<'_> {
    url::form_urlencoded::parse(exchange.uri.query().unwrap_or_default().as_bytes())
}

/// What a caller sees of a preset.
fn shown(preset: &Preset) -> Value {
    json!({
        "id": preset.id,
        "name": preset.name,
        "endpoint": preset.endpoint,
        "params": params(preset),
        "created_at": preset.created_at.to_string(),
        "updated_at": preset.updated_at.to_string(),
    })
}

/// Refuses params that no endpoint, or not the one that was named, could use.
fn judge(endpoint: Option<&Endpoint>, params: &Map<String, Value>) -> Result<(), FieldError> {
    match endpoint {
        Some(endpoint) => fits(endpoint, params),
        // Without an endpoint each of them has to be good for some.
        None => params.iter().try_for_each(|(name, value)| {
            let mut refusal = None;
            for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.field(name).is_some()) {
                match fits(endpoint, [(name, value)]) {
                    Ok(()) => return Ok(()),
                    Err(error) => refusal = refusal.or(Some(error)),
                }
            }
            Err(refusal.unwrap_or_else(|| {
                let known = ENDPOINTS.iter().flat_map(Endpoint::names).filter(|known| *known != "preset");
                FieldError::unknown(name, known)
            }))
        }),
    }
}

/// Judges stored params like sent fields of `endpoint`.
fn fits<'a>(endpoint: &Endpoint, params: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Result<(), FieldError> {
    let mut fields = Fields::default();
    for (name, value) in params {
        let Some(field) = endpoint.field(name).filter(|field| field.name != "preset") else {
            return Err(FieldError::unknown(name, endpoint.names().filter(|known| *known != "preset")));
        };
        if is_absent(value) {
            continue;
        }
        let text = field.kind.text_of(value);
        let text = text.ok_or_else(|| FieldError::invalid(name, &value.to_string(), field.kind.expected()))?;
        fields.push(name, &text)?;
    }
    endpoint.validate(&Fields::default().over(&fields)).map(|_| ())
}

/// The fields of a preset that `endpoint` has; one that was saved for another endpoint lends what both know.
pub(in crate::http) fn stored_fields(endpoint: &Endpoint, preset: &Preset) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in &params(preset) {
        let Some(field) = endpoint.field(name) else { continue };
        // It was judged when the preset was saved; what has changed since is judged again with the sent fields.
        if let Some(text) = field.kind.text_of(value) {
            let _ = fields.push(name, &text);
        }
    }
    fields
}

impl From<PresetError> for ApiError {
    fn from(error: PresetError) -> Self {
        match error {
            PresetError::Field(error) => error.into(),
            PresetError::NotFound(_) => Self::new(ErrorCode::NotFound, "this account has no such preset").param("id"),
            PresetError::NameTaken(_) => Self::new(ErrorCode::Conflict, error.to_string()).param("name"),
            PresetError::TooMany => Self::new(ErrorCode::Conflict, error.to_string()),
            PresetError::Write(error) => error.into(),
            PresetError::Read(error) => error.into(),
        }
    }
}
