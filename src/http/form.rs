//! A form with pictures: small fields and files, each against its limit while it is read.

use super::aliases::canonical;
use super::body::{BodyError, Chunks};
use super::error::{ApiError, ErrorCode};
use super::multipart::{Multipart, MultipartError, Part};
use super::submission::URL;
use super::upload_memory::{AccountMemory, Share};
use crate::codec;
use crate::recipe::{BG_FILE, Endpoint, FieldError, Fields, Input, MAX_BATCH};
use bytes::{Bytes, BytesMut};

/// The part that holds the picture.
pub(super) const FILE: &str = "file";

/// The parts that hold the pictures of a batch.
pub(super) const FILES: &str = "files";

/// The longest value of any other field.
const MAX_VALUE: usize = 4 * 1024;

/// What fields and part heads may add to the file; more than a form of all fields needs.
pub(super) const MAX_OVERHEAD: usize = 256 * 1024;

/// The largest file.
pub(super) fn max_file() -> usize {
    codec::Limits::default().max_bytes
}

/// The parts of a form that hold files, each with how many there may be.
pub(super) const fn files_in(input: Input) -> &'static [(&'static str, usize)] {
    match input {
        Input::File | Input::Url => &[(FILE, 1)],
        Input::FileAndBackground => &[(FILE, 1), (BG_FILE, 1)],
        Input::Files => &[(FILES, MAX_BATCH)],
        Input::Urls => &[],
    }
}

/// The largest body that can hold a form.
pub(super) fn max_body(input: Input) -> usize {
    files_in(input).iter().map(|(_, at_most)| at_most * max_file()).sum::<usize>() + MAX_OVERHEAD
}

/// A form as it was sent.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) fields: Fields,
    pub(super) files: Vec<Upload>,
    /// The address of a picture, in place of a file.
    pub(super) url: Option<String>,
    /// The files' share of the memory for uploads; to be dropped after them.
    pub(super) share: Share,
}

/// A file of a form.
#[derive(Debug)]
pub(super) struct Upload {
    /// Of the part.
    pub(super) name: String,
    /// As the caller has it.
    pub(super) filename: Option<String>,
    pub(super) bytes: Bytes,
}

impl Form {
    /// Takes the file of the part `name` out.
    pub(super) fn take(&mut self, name: &str) -> Option<Bytes> {
        let at = self.files.iter().position(|upload| upload.name == name)?;
        Some(self.files.remove(at).bytes)
    }
}

/// Reads a form to its end. A name that `endpoint` does not know ends it at once.
pub(super) async fn read<C: Chunks>(
    chunks: C,
    boundary: &str,
    endpoint: &Endpoint,
    memory: &AccountMemory,
) -> Result<Form, ApiError> {
    let mut multipart = Multipart::new(chunks, boundary, max_body(endpoint.input));
    let mut form = Form { fields: Fields::default(), files: Vec::new(), url: None, share: memory.share() };
    while let Some(Part { name: sent, filename }) = multipart.next_part().await? {
        let name = canonical(&sent).to_owned();
        let at_most = files_in(endpoint.input).iter().find(|(file, _)| *file == name).map(|(_, at_most)| *at_most);
        if let Some(at_most) = at_most {
            let already = form.files.iter().filter(|upload| upload.name == name).count();
            if already == at_most {
                return Err(too_many(name, at_most));
            }
            let bytes = read_file(&mut multipart, &form.share).await?;
            // What a browser sends of a file that nobody chose.
            if bytes.is_empty() && filename.as_deref().is_none_or(str::is_empty) {
                continue;
            }
            form.fields.attach(&name);
            form.files.push(Upload { name, filename, bytes });
        } else if endpoint.field(&name).is_some() {
            let value = read_value(&mut multipart, &name).await?;
            form.fields.push(&name, &value)?;
        } else if name == URL && endpoint.input.is_single() {
            let value = read_value(&mut multipart, &name).await?;
            if !value.trim().is_empty() && form.url.replace(value).is_some() {
                return Err(FieldError::Repeated { param: name }.into());
            }
        } else {
            let files = files_in(endpoint.input).iter().map(|(file, _)| *file);
            return Err(FieldError::unknown(&sent, endpoint.names().chain(files)).into());
        }
    }
    Ok(form)
}

fn too_many(name: String, at_most: usize) -> ApiError {
    if at_most == 1 {
        return FieldError::Repeated { param: name }.into();
    }
    let message = format!("more than {at_most} `{name}`");
    ApiError::new(ErrorCode::InvalidParameter, message).param(name)
}

async fn read_file<C: Chunks>(multipart: &mut Multipart<C>, share: &Share) -> Result<Bytes, ApiError> {
    let mut file = BytesMut::new();
    while let Some(data) = multipart.next_data().await.map_err(too_large_as_file)? {
        if file.len() + data.len() > max_file() {
            return Err(file_too_large());
        }
        share.grow(data.len())?;
        file.extend_from_slice(&data);
    }
    Ok(file.freeze())
}

/// Reads the value of a field.
pub(super) async fn read_value<C: Chunks>(multipart: &mut Multipart<C>, name: &str) -> Result<String, ApiError> {
    let mut value = Vec::new();
    while let Some(data) = multipart.next_data().await? {
        if value.len() + data.len() > MAX_VALUE {
            let message = format!("`{name}` is longer than {MAX_VALUE} bytes");
            return Err(ApiError::new(ErrorCode::InvalidParameter, message).param(name));
        }
        value.extend_from_slice(&data);
    }
    String::from_utf8(value).map_err(|error| {
        let value = String::from_utf8_lossy(error.as_bytes()).into_owned();
        FieldError::Invalid { param: name.to_owned(), value, expected: "text in UTF-8".to_owned() }.into()
    })
}

/// What a caller whose picture is too large is told, whichever bound noticed it.
pub(super) fn file_too_large() -> ApiError {
    codec::DecodeError::TooManyBytes { limit: max_file() }.into()
}

fn too_large_as_file(error: MultipartError) -> ApiError {
    match error {
        MultipartError::BodyTooLarge => file_too_large(),
        MultipartError::Malformed(_) | MultipartError::Body(BodyError::TooSlow | BodyError::Broken(_)) => error.into(),
    }
}
