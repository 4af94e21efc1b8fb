//! A request for pictures, read to its end: fields, files and addresses, whichever way they came.

use super::body::{content_type, uncompressed, unsupported};
use super::error::{ApiError, ErrorCode};
use super::exchange::Exchange;
use super::facade::Facade;
use super::form::{self, FILE, FILES, Upload};
use super::upload_memory::{AccountMemory, Share};
use super::{Caller, json, multipart};
use crate::codec::DecodeError;
use crate::image::SourceUrl;
use crate::recipe::{BG_FILE, Endpoint, FieldError, Fields, Input, Kind, MAX_BATCH, Value};
use bytes::Bytes;
use hyper::Uri;
use hyper::header::HeaderMap;
use serde_json::Value as Json;

/// The member that holds an address, and the one that holds a batch of them.
pub(super) const URL: &str = "url";
pub(super) const URLS: &str = "urls";

/// What was sent.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) fields: Fields,
    pub(super) pictures: Pictures,
    /// The background that came with the form.
    pub(super) background: Option<Bytes>,
    /// The files' share of the memory for uploads; to be dropped after them.
    pub(super) share: Share,
}

/// The pictures to work on.
#[derive(Debug)]
pub(super) enum Pictures {
    File(Bytes),
    Files(Vec<Upload>),
    Url(SourceUrl),
    /// As they were sent: a bad one is its row's error.
    Urls(Vec<String>),
}

impl Pictures {
    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        let many = match self {
            Self::File(_) | Self::Url(_) => 1,
            Self::Files(files) => files.len(),
            Self::Urls(urls) => urls.len(),
        };
        u32::try_from(many).expect("at most ten")
    }
}

/// Reads the request to its end. Every name is judged; values of fields are the recipe's business.
pub(super) async fn read(
    facade: &Facade,
    endpoint: &Endpoint,
    caller: &Caller,
    exchange: &mut Exchange,
) -> Result<Submission, ApiError> {
    let place = match endpoint.input {
        Input::File | Input::FileAndBackground | Input::Files => "form fields",
        Input::Url | Input::Urls => "members of a JSON object",
    };
    refuse_query(&exchange.uri, place)?;
    let memory = facade.uploads.of(&caller.account);
    match endpoint.input {
        Input::File | Input::FileAndBackground | Input::Files => {
            read_form(&memory, endpoint, exchange, facade.limits.max_bytes).await
        }
        Input::Url | Input::Urls => read_json(&memory, endpoint, exchange).await,
    }
}

async fn read_form(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    exchange: &mut Exchange,
    max_file: usize,
) -> Result<Submission, ApiError> {
    let boundary = boundary(&exchange.headers)?;
    if exchange.body.announced().is_some_and(|length| length > form::max_body(endpoint.input, max_file) as u64) {
        return Err(form::body_too_large(endpoint.input, max_file));
    }
    let mut form = form::read(&mut exchange.body, &boundary, endpoint, memory, max_file).await?;
    // The fields come first in the order of checks, so that a mistake in them is told whatever the files are.
    judge(endpoint, &form.fields)?;
    let background = form.take(BG_FILE);
    if background.as_ref().is_some_and(Bytes::is_empty) {
        return Err(ApiError::from(DecodeError::Empty).param(BG_FILE));
    }
    let pictures = if endpoint.input == Input::Files {
        if form.files.is_empty() {
            return Err(FieldError::Missing { param: FILES.to_owned() }.into());
        }
        Pictures::Files(form.files)
    } else {
        let file = form.take(FILE).ok_or(FieldError::Missing { param: FILE.to_owned() })?;
        if file.is_empty() {
            return Err(DecodeError::Empty.into());
        }
        Pictures::File(file)
    };
    Ok(Submission { fields: form.fields, pictures, background, share: form.share })
}

async fn read_json(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    exchange: &mut Exchange,
) -> Result<Submission, ApiError> {
    json::only(&exchange.headers)?;
    let object = json::read(&mut exchange.body).await?;
    let name = if endpoint.input == Input::Url { URL } else { URLS };
    let (fields, value) = object.split(&endpoint.fields, name)?;
    judge(endpoint, &fields)?;
    let value = value.ok_or(FieldError::Missing { param: name.to_owned() })?;
    let pictures = if endpoint.input == Input::Url { Pictures::Url(url(&value)?) } else { urls(&value)? };
    Ok(Submission { fields, pictures, background: None, share: memory.share() })
}

/// Judges all fields. What is missing may still come from a preset.
fn judge(endpoint: &Endpoint, fields: &Fields) -> Result<(), FieldError> {
    if fields.get("preset").is_some() { endpoint.judge(fields) } else { endpoint.recipe(fields) }.map(|_| ())
}

/// The address in the member `url`.
pub(super) fn url(value: &Json) -> Result<SourceUrl, FieldError> {
    let refuse = |text: &str| FieldError::invalid(URL, text, <SourceUrl as Value>::KIND.expected());
    let text = <SourceUrl as Value>::KIND.text_of(value).ok_or_else(|| refuse(&value.to_string()))?;
    SourceUrl::parse(&text).map_err(|_| refuse(&text))
}

fn urls(value: &Json) -> Result<Pictures, FieldError> {
    let refuse = || {
        let shown = value.to_string();
        FieldError::invalid(URLS, &shown, format!("an array of 1 to {MAX_BATCH} https URLs"))
    };
    let list = value.as_array().filter(|list| (1..=MAX_BATCH).contains(&list.len())).ok_or_else(refuse)?;
    let text = |value: &Json| Kind::text_of(&<SourceUrl as Value>::KIND, value);
    let texts: Option<Vec<_>> = list.iter().map(text).collect();
    texts.map(Pictures::Urls).ok_or_else(refuse)
}

/// A parameter in the query string would have no effect, which the caller would find out from the picture only.
pub(super) fn refuse_query(uri: &Uri, place: &str) -> Result<(), ApiError> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let name = query.split(['=', '&']).next().unwrap_or(query);
    let shown: String = name.chars().take(80).collect();
    let message = format!("`{shown}` was sent in the query string; this endpoint takes its parameters as {place}");
    Err(ApiError::new(ErrorCode::InvalidParameter, message).param(shown))
}

fn boundary(headers: &HeaderMap) -> Result<String, ApiError> {
    uncompressed(headers)?;
    match multipart::boundary(content_type(headers))? {
        Some(boundary) => Ok(boundary),
        None => Err(unsupported("the request body must be multipart/form-data")),
    }
}
