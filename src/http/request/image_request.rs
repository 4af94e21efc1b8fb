//! Reads a request for pictures (form, JSON or raw body) into its fields, recipe, files and URLs.

use super::body::{content_type, media_type, read_within, require_uncompressed, unsupported};
use super::form::{self, Form, Upload};
use super::input_names::{FILE, FILES, IMAGE_BASE64, URL, URLS};
use super::json::Syntax;
use super::picture_json::{self, PictureJson};
use super::{json, multipart};
use crate::codec::DecodeError;
use crate::http::admission::{AccountMemory, Caller};
use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::image::SourceUrl;
use crate::recipe::{BG_FILE, Endpoint, FieldError, Fields, Input, Kind, MASK_FILE, MAX_BATCH, Recipe, Value};
use bytes::Bytes;
use hyper::Uri;
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

impl ImageRequest {
    /// A request without background and mask.
    fn of(fields: Fields, recipe: Recipe, pictures: Pictures, param: &'static str) -> Self {
        Self { fields, recipe, inputs: Inputs { pictures, param, background: None, mask: None } }
    }
}

/// Reads the request to its end and validates all names and values.
pub(crate) async fn read(
    state: &ApiState,
    endpoint: &Endpoint,
    caller: &Caller,
    context: &mut RequestContext,
) -> Result<ImageRequest> {
    let mut reader = Reader { memory: state.memory.of(&caller.account), endpoint, context };
    match endpoint.input {
        Input::File | Input::FileAndBackground | Input::Url => reader.picture().await,
        Input::Files => reader.files().await,
        Input::Urls => reader.urls().await,
    }
}

/// A request that is being read.
struct Reader<'a> {
    memory: AccountMemory,
    endpoint: &'a Endpoint,
    context: &'a mut RequestContext,
}

impl Reader<'_> {
    /// Reads a request with one picture: a form, JSON, or the picture itself, whose fields are in the query.
    async fn picture(&mut self) -> Result<ImageRequest> {
        require_uncompressed(&self.context.headers)?;
        if let Some(boundary) = multipart::boundary(content_type(&self.context.headers))? {
            refuse_query(&self.context.uri, "form fields")?;
            return self.picture_form(&boundary).await;
        }
        if let Ok(syntax) = json::syntax(&self.context.headers) {
            refuse_query(&self.context.uri, "members of the body")?;
            return self.picture_json(syntax).await;
        }
        let media_type = media_type(&self.context.headers);
        // Without a type, or with a type of any bytes, the picture is recognized by its content, as every picture is.
        if media_type.starts_with("image/")
            || matches!(&*media_type, "" | "application/octet-stream" | "binary/octet-stream")
        {
            return self.picture_body().await;
        }
        Err(unsupported(
            "the request body must be multipart/form-data, application/json, or a picture as image/* or \
             application/octet-stream",
        ))
    }

    async fn picture_form(&mut self, boundary: &str) -> Result<ImageRequest> {
        let (mut form, recipe) = self.form(boundary).await?;
        let background = take_aux_file(&mut form, BG_FILE)?;
        let mask = take_aux_file(&mut form, MASK_FILE)?;
        let (pictures, param) = match (form.take(FILE), form.url.take()) {
            (Some(_), Some(_)) => return Err(duplicate_picture_error(FILE)),
            (Some(file), None) if file.is_empty() => return Err(DecodeError::Empty.into()),
            (Some(file), None) => (Pictures::File(file), FILE),
            (None, Some(address)) => (Pictures::Url(url(&Json::from(address))?), URL),
            (None, None) => return Err(FieldError::Missing { param: FILE.to_owned() }.into()),
        };
        let inputs = Inputs { pictures, param, background, mask };
        Ok(ImageRequest { fields: form.fields, recipe, inputs })
    }

    async fn picture_json(&mut self, syntax: Syntax) -> Result<ImageRequest> {
        let PictureJson { object, picture } = picture_json::read(&mut self.context.body, &self.memory, syntax).await?;
        let (fields, [address, left]) = object.split(&self.endpoint.fields, [URL, IMAGE_BASE64])?;
        let recipe = self.validate(&fields)?;
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
        Ok(ImageRequest::of(fields, recipe, pictures, param))
    }

    /// Reads a body that is the picture, with the fields in the query string.
    async fn picture_body(&mut self) -> Result<ImageRequest> {
        let mut fields = Fields::default();
        for (name, value) in self.context.query() {
            if self.endpoint.field(&name).is_none() {
                return Err(FieldError::unknown(&name, self.endpoint.names()).into());
            }
            fields.push(&name, &value)?;
        }
        let recipe = self.validate(&fields)?;
        let (max_file, share) = (self.memory.max_file(), self.memory.share());
        let too_large = || form::file_too_large(max_file);
        let body = &mut self.context.body;
        if body.content_length().is_some_and(|length| length > max_file as u64) {
            return Err(too_large());
        }
        let picture = read_within(body, max_file, |bytes| share.grow(bytes)).await?.ok_or_else(too_large)?;
        if picture.is_empty() {
            return Err(DecodeError::Empty.into());
        }
        Ok(ImageRequest::of(fields, recipe, Pictures::File(share.hold(picture)), FILE))
    }

    async fn files(&mut self) -> Result<ImageRequest> {
        refuse_query(&self.context.uri, "form fields")?;
        require_uncompressed(&self.context.headers)?;
        let boundary = multipart::boundary(content_type(&self.context.headers))?;
        let boundary = boundary.ok_or_else(|| unsupported("the request body must be multipart/form-data"))?;
        let (form, recipe) = self.form(&boundary).await?;
        if form.files.is_empty() {
            return Err(FieldError::Missing { param: FILES.to_owned() }.into());
        }
        Ok(ImageRequest::of(form.fields, recipe, Pictures::Files(form.files), FILES))
    }

    async fn urls(&mut self) -> Result<ImageRequest> {
        refuse_query(&self.context.uri, "members of a JSON object")?;
        let object = json::read(&self.context.headers, &mut self.context.body).await?;
        let (fields, [value]) = object.split(&self.endpoint.fields, [URLS])?;
        let recipe = self.validate(&fields)?;
        let pictures = urls(&value.ok_or(FieldError::Missing { param: URLS.to_owned() })?)?;
        Ok(ImageRequest::of(fields, recipe, pictures, URLS))
    }

    /// Reads a form. Fields are validated before files, so that an invalid field is reported first.
    async fn form(&mut self, boundary: &str) -> Result<(Form, Recipe)> {
        let (input, max_file, body) = (self.endpoint.input, self.memory.max_file(), &mut self.context.body);
        if body.content_length().is_some_and(|length| length > form::max_body(input, max_file) as u64) {
            return Err(form::body_too_large(input, max_file));
        }
        let form = form::read(body, boundary, self.endpoint, &self.memory).await?;
        let recipe = self.validate(&form.fields)?;
        Ok((form, recipe))
    }

    /// Validates all fields. With a preset, required ones may be missing: they may be stored in it.
    fn validate(&self, fields: &Fields) -> Result<Recipe, FieldError> {
        if fields.get("preset").is_some() { self.endpoint.validate(fields) } else { self.endpoint.recipe(fields) }
    }
}

/// The file in the part `name`, which is not empty.
fn take_aux_file(form: &mut Form, name: &str) -> Result<Option<Bytes>> {
    let file = form.take(name);
    if file.as_ref().is_some_and(Bytes::is_empty) {
        return Err(ApiError::from(DecodeError::Empty).param(name));
    }
    Ok(file)
}

/// 400: both a picture and a URL.
fn duplicate_picture_error(param: &str) -> ApiError {
    let message = format!("`{param}` was sent beside `{URL}`; send one picture");
    ApiError::new(ErrorCode::InvalidParameter, message).param(param)
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
pub(crate) fn refuse_query(uri: &Uri, place: &str) -> Result<()> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let name = query.split(['=', '&']).next().unwrap_or(query);
    let shown: String = name.chars().take(80).collect();
    let message = format!("`{shown}` was sent in the query string; this endpoint takes its parameters as {place}");
    Err(ApiError::new(ErrorCode::InvalidParameter, message).param(shown))
}
