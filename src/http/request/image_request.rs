//! Reads a request for pictures (form, JSON or raw body) into its fields, recipe, files and URLs.

use super::body::{Chunks, content_type, require_uncompressed, unsupported};
use super::form::{self, Form, Upload};
use super::input_names::{FILE, FILES, IMAGE_BASE64, URL, URLS};
use super::json::Syntax;
use super::picture_json::{self, PictureJson};
use super::{json, multipart};
use crate::codec::DecodeError;
use crate::http::admission::caller::Caller;
use crate::http::admission::memory::{AccountMemory, Share};
use crate::http::reply::error::{ApiError, ErrorCode};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::image::SourceUrl;
use crate::recipe::{BG_FILE, Endpoint, FieldError, Fields, Input, Kind, MASK_FILE, MAX_BATCH, Recipe, Value};
use bytes::{Bytes, BytesMut};
use hyper::Uri;
use hyper::header::HeaderMap;
use serde_json::Value as Json;

/// A request with valid fields.
#[derive(Debug)]
pub(crate) struct ImageRequest {
    pub(crate) fields: Fields,
    /// Built from `fields`; where they name a preset, the recipe is built again from the merged fields.
    pub(crate) recipe: Recipe,
    pub(crate) inputs: Inputs,
}

/// The files and URLs of a request.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) pictures: Pictures,
    /// The field in which one picture was sent, for messages about it.
    pub(crate) param: &'static str,
    /// The background that was sent with the form.
    pub(crate) background: Option<Bytes>,
    /// The mask that was sent with the form.
    pub(crate) mask: Option<Bytes>,
    /// The files' share of the memory of accounts; to be dropped after them.
    pub(crate) share: Share,
}

/// The pictures to process.
#[derive(Debug)]
pub(crate) enum Pictures {
    File(Bytes),
    Files(Vec<Upload>),
    Url(SourceUrl),
    /// As they were sent: an invalid one fails its own row.
    Urls(Vec<String>),
}

impl Pictures {
    /// The number of pictures.
    pub(crate) fn count(&self) -> u32 {
        let many = match self {
            Self::File(_) | Self::Url(_) => 1,
            Self::Files(files) => files.len(),
            Self::Urls(urls) => urls.len(),
        };
        u32::try_from(many).expect("at most ten")
    }

    /// Whether they have to be fetched.
    pub(crate) const fn is_url(&self) -> bool {
        match self {
            Self::File(_) | Self::Files(_) => false,
            Self::Url(_) | Self::Urls(_) => true,
        }
    }
}

/// Reads the request to its end and validates all names and values.
pub(crate) async fn read(
    state: &ApiState,
    endpoint: &Endpoint,
    caller: &Caller,
    context: &mut RequestContext,
) -> Result<ImageRequest, ApiError> {
    let memory = state.memory.of(&caller.account);
    match endpoint.input {
        Input::File | Input::FileAndBackground | Input::Url => read_picture(&memory, endpoint, context).await,
        Input::Files => {
            refuse_query(&context.uri, "form fields")?;
            let boundary = boundary(&context.headers)?;
            read_files(&memory, endpoint, context, &boundary).await
        }
        Input::Urls => {
            refuse_query(&context.uri, "members of a JSON object")?;
            read_urls(&memory, endpoint, context).await
        }
    }
}

/// Reads a request with one picture: a form, JSON, or the picture itself, whose fields are in the query.
async fn read_picture(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    context: &mut RequestContext,
) -> Result<ImageRequest, ApiError> {
    require_uncompressed(&context.headers)?;
    let content_type = content_type(&context.headers);
    if let Some(boundary) = multipart::boundary(content_type)? {
        refuse_query(&context.uri, "form fields")?;
        return read_form(memory, endpoint, context, &boundary).await;
    }
    if let Ok(syntax) = json::syntax(&context.headers) {
        refuse_query(&context.uri, "members of the body")?;
        return read_json(memory, endpoint, context, syntax).await;
    }
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // Without a type, and with one of bytes, it is known by its content, as every picture is.
    if media_type.starts_with("image/")
        || matches!(&*media_type, "" | "application/octet-stream" | "binary/octet-stream")
    {
        let fields = query_fields(&context.uri, endpoint)?;
        return read_body(memory, endpoint, context, fields).await;
    }
    Err(unsupported(
        "the request body must be multipart/form-data, application/json, or a picture as image/* or \
         application/octet-stream",
    ))
}

/// The fields in the query string.
fn query_fields(uri: &Uri, endpoint: &Endpoint) -> Result<Fields, FieldError> {
    let mut fields = Fields::default();
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if endpoint.field(&name).is_none() {
            return Err(FieldError::unknown(&name, endpoint.names()));
        }
        fields.push(&name, &value)?;
    }
    Ok(fields)
}

async fn read_form(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    context: &mut RequestContext,
    boundary: &str,
) -> Result<ImageRequest, ApiError> {
    refuse_large_form(memory, endpoint, context)?;
    let mut form = form::read(&mut context.body, boundary, endpoint, memory).await?;
    // Fields are checked before files, so that their errors are reported whatever the files are.
    let recipe = validate(endpoint, &form.fields)?;
    let background = take_aux_file(&mut form, BG_FILE)?;
    let mask = take_aux_file(&mut form, MASK_FILE)?;
    let (pictures, param) = match (form.take(FILE), form.url.take()) {
        (Some(_), Some(_)) => return Err(duplicate_picture_error(FILE)),
        (Some(file), None) if file.is_empty() => return Err(DecodeError::Empty.into()),
        (Some(file), None) => (Pictures::File(file), FILE),
        (None, Some(address)) => (Pictures::Url(url(&Json::from(address))?), URL),
        (None, None) => return Err(FieldError::Missing { param: FILE.to_owned() }.into()),
    };
    let inputs = Inputs { pictures, param, background, mask, share: form.share };
    Ok(ImageRequest { fields: form.fields, recipe, inputs })
}

/// The file in the part `name`, which is not empty.
fn take_aux_file(form: &mut Form, name: &str) -> Result<Option<Bytes>, ApiError> {
    let file = form.take(name);
    if file.as_ref().is_some_and(Bytes::is_empty) {
        return Err(ApiError::from(DecodeError::Empty).param(name));
    }
    Ok(file)
}

async fn read_json(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    context: &mut RequestContext,
    syntax: Syntax,
) -> Result<ImageRequest, ApiError> {
    let PictureJson { object, picture, share } = picture_json::read(&mut context.body, memory, syntax).await?;
    let (fields, [address, left]) = object.split(&endpoint.fields, [URL, IMAGE_BASE64])?;
    let recipe = validate(endpoint, &fields)?;
    let (pictures, param) = match (picture, left, address) {
        (Some(_), _, Some(_)) => return Err(duplicate_picture_error(IMAGE_BASE64)),
        // The member is repeated, and one of the two was decoded.
        (Some(_), Some(_), None) => return Err(FieldError::Repeated { param: IMAGE_BASE64.to_owned() }.into()),
        (Some(picture), None, None) => (Pictures::File(picture?), IMAGE_BASE64),
        (None, Some(left), _) => {
            return Err(FieldError::invalid(IMAGE_BASE64, &left.to_string(), "a picture as base64").into());
        }
        (None, None, Some(address)) => (Pictures::Url(url(&address)?), URL),
        (None, None, None) => {
            let message =
                format!("`{URL}` is missing: send the address of a picture, or the picture as `{IMAGE_BASE64}`");
            return Err(ApiError::new(ErrorCode::InvalidParameter, message).param(URL));
        }
    };
    Ok(ImageRequest { fields, recipe, inputs: Inputs { pictures, param, background: None, mask: None, share } })
}

/// Reads a body that is the picture.
async fn read_body(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    context: &mut RequestContext,
    fields: Fields,
) -> Result<ImageRequest, ApiError> {
    let recipe = validate(endpoint, &fields)?;
    if context.body.content_length().is_some_and(|length| length > memory.max_file() as u64) {
        return Err(form::file_too_large(memory.max_file()));
    }
    let share = memory.share();
    let mut picture = BytesMut::new();
    while let Some(chunk) = context.body.next_chunk().await? {
        if picture.len() + chunk.len() > memory.max_file() {
            return Err(form::file_too_large(memory.max_file()));
        }
        share.grow(chunk.len())?;
        picture.extend_from_slice(&chunk);
    }
    if picture.is_empty() {
        return Err(DecodeError::Empty.into());
    }
    let pictures = Pictures::File(picture.freeze());
    let inputs = Inputs { pictures, param: FILE, background: None, mask: None, share };
    Ok(ImageRequest { fields, recipe, inputs })
}

async fn read_files(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    context: &mut RequestContext,
    boundary: &str,
) -> Result<ImageRequest, ApiError> {
    refuse_large_form(memory, endpoint, context)?;
    let form = form::read(&mut context.body, boundary, endpoint, memory).await?;
    let recipe = validate(endpoint, &form.fields)?;
    if form.files.is_empty() {
        return Err(FieldError::Missing { param: FILES.to_owned() }.into());
    }
    let pictures = Pictures::Files(form.files);
    let inputs = Inputs { pictures, param: FILES, background: None, mask: None, share: form.share };
    Ok(ImageRequest { fields: form.fields, recipe, inputs })
}

async fn read_urls(
    memory: &AccountMemory,
    endpoint: &Endpoint,
    context: &mut RequestContext,
) -> Result<ImageRequest, ApiError> {
    let object = json::read(&context.headers, &mut context.body).await?;
    let (fields, [value]) = object.split(&endpoint.fields, [URLS])?;
    let recipe = validate(endpoint, &fields)?;
    let pictures = urls(&value.ok_or(FieldError::Missing { param: URLS.to_owned() })?)?;
    let inputs = Inputs { pictures, param: URLS, background: None, mask: None, share: memory.share() };
    Ok(ImageRequest { fields, recipe, inputs })
}

fn refuse_large_form(memory: &AccountMemory, endpoint: &Endpoint, context: &RequestContext) -> Result<(), ApiError> {
    let (input, max_file) = (endpoint.input, memory.max_file());
    let is_large = context.body.content_length().is_some_and(|length| length > form::max_body(input, max_file) as u64);
    if is_large { Err(form::body_too_large(input, max_file)) } else { Ok(()) }
}

/// 400: a picture beside a URL.
fn duplicate_picture_error(param: &str) -> ApiError {
    let message = format!("`{param}` was sent beside `{URL}`; send one picture");
    ApiError::new(ErrorCode::InvalidParameter, message).param(param)
}

/// Validates all fields. With a preset, required ones may be missing: they may be stored in it.
fn validate(endpoint: &Endpoint, fields: &Fields) -> Result<Recipe, FieldError> {
    if fields.get("preset").is_some() { endpoint.validate(fields) } else { endpoint.recipe(fields) }
}

/// The URL in the member `url`.
pub(crate) fn url(value: &Json) -> Result<SourceUrl, FieldError> {
    let refuse = |text: &str| FieldError::invalid(URL, text, <SourceUrl as Value>::KIND.expected());
    let text = <SourceUrl as Value>::KIND.text_of(value).ok_or_else(|| refuse(&value.to_string()))?;
    SourceUrl::parse(text.trim()).map_err(|_| refuse(&text))
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

/// Refuses parameters in the query string (400), where they would have no effect.
pub(crate) fn refuse_query(uri: &Uri, place: &str) -> Result<(), ApiError> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let name = query.split(['=', '&']).next().unwrap_or(query);
    let shown: String = name.chars().take(80).collect();
    let message = format!("`{shown}` was sent in the query string; this endpoint takes its parameters as {place}");
    Err(ApiError::new(ErrorCode::InvalidParameter, message).param(shown))
}

fn boundary(headers: &HeaderMap) -> Result<String, ApiError> {
    require_uncompressed(headers)?;
    match multipart::boundary(content_type(headers))? {
        Some(boundary) => Ok(boundary),
        None => Err(unsupported("the request body must be multipart/form-data")),
    }
}
