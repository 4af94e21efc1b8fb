//! Reads a form with pictures (multipart) into fields and files, enforcing their limits while it arrives.

use super::body::Chunks;
use super::input_names::{FILE, FILES, URL, canonical};
use super::multipart::{Multipart, MultipartError, Part};
use crate::codec::DecodeError;
use crate::http::admission::{AccountMemory, Share};
use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::recipe::{BG_FILE, Endpoint, FieldError, Fields, Input, MASK_FILE, MAX_BATCH, OF_ONE_PICTURE};
use bytes::{Bytes, BytesMut};

/// The longest value of any other field.
const MAX_VALUE: usize = 4 * 1024;

/// Bytes of a form without its files, and bytes of all values; more than a form with all fields needs.
pub(crate) const MAX_OVERHEAD: usize = 256 * 1024;

/// The parts of a form that hold files, each with its greatest number.
pub(crate) const fn files_in(input: Input) -> &'static [(&'static str, usize)] {
    match input {
        Input::File | Input::Url => &[(FILE, 1), (MASK_FILE, 1)],
        Input::FileAndBackground => &[(FILE, 1), (BG_FILE, 1), (MASK_FILE, 1)],
        Input::Files => &[(FILES, MAX_BATCH)],
        Input::Urls => &[],
    }
}

/// The largest body that can hold a form of files of up to `max_file` bytes.
pub(crate) fn max_body(input: Input, max_file: usize) -> usize {
    files_in(input).iter().map(|(_, max_count)| max_count * max_file).sum::<usize>() + MAX_OVERHEAD
}

/// A form as it was sent.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) fields: Fields,
    pub(crate) files: Vec<Upload>,
    /// The URL of a picture, instead of a file.
    pub(crate) url: Option<String>,
}

/// A file of a form.
#[derive(Debug)]
pub(crate) struct Upload {
    /// Name of the part.
    pub(crate) name: String,
    /// Name of the file at the caller.
    pub(crate) filename: Option<String>,
    /// Empty if the file is refused.
    pub(crate) bytes: Bytes,
    /// Why this file of a batch is not processed, though the others are.
    pub(crate) refused: Option<ApiError>,
}

impl Form {
    /// Removes and returns the file of the part `name`.
    pub(crate) fn take(&mut self, name: &str) -> Option<Bytes> {
        let at = self.files.iter().position(|upload| upload.name == name)?;
        Some(self.files.remove(at).bytes)
    }
}

/// Reads a form to its end. A name that is unknown to `endpoint` is refused at once.
pub(crate) async fn read<C: Chunks>(
    chunks: C,
    boundary: &str,
    endpoint: &Endpoint,
    memory: &AccountMemory,
) -> Result<Form> {
    let max_file = memory.max_file();
    let mut multipart = Multipart::new(chunks, boundary, max_body(endpoint.input, max_file));
    let mut form = Form { fields: Fields::default(), files: Vec::new(), url: None };
    // A list may have any number of parts, and the memory of accounts does not count values.
    let mut values_left = MAX_OVERHEAD;
    while let Some(Part { name: sent, filename }) = multipart.next_part().await? {
        let name = canonical(&sent).to_owned();
        let max_count =
            files_in(endpoint.input).iter().find(|(file, _)| *file == name).map(|(_, max_count)| *max_count);
        if let Some(max_count) = max_count {
            let count = form.files.iter().filter(|upload| upload.name == name).count();
            if count == max_count {
                return Err(too_many(name, max_count));
            }
            let too_large = || body_too_large(endpoint.input, max_file);
            let share = memory.share();
            let file = read_file(&mut multipart, &share, max_file, too_large).await?;
            // A browser sends an empty file if none was chosen.
            if file.as_ref().is_some_and(Bytes::is_empty) && filename.as_deref().is_none_or(str::is_empty) {
                continue;
            }
            form.fields.attach(&name);
            let (bytes, refused) = match file {
                Some(bytes) => (share.hold(bytes), None),
                None if max_count == 1 => return Err(file_too_large(max_file)),
                // The memory of what was read is returned, and the rest of the part is skipped.
                None => (Bytes::new(), Some(file_too_large(max_file))),
            };
            form.files.push(Upload { name, filename, bytes, refused });
        } else if endpoint.field(&name).is_some() {
            let value = read_value(&mut multipart, &name).await?;
            values_left = values_left.checked_sub(value.len()).ok_or(MultipartError::BodyTooLarge)?;
            form.fields.push(&name, &value)?;
        } else if name == URL && endpoint.input.is_single() {
            let value = read_value(&mut multipart, &name).await?;
            if !value.trim().is_empty() && form.url.replace(value).is_some() {
                return Err(FieldError::Repeated { param: name }.into());
            }
        } else if name == MASK_FILE {
            return Err(FieldError::not_taken(MASK_FILE, OF_ONE_PICTURE).into());
        } else {
            let files = files_in(endpoint.input).iter().map(|(file, _)| *file);
            return Err(FieldError::unknown(&sent, endpoint.names().chain(files)).into());
        }
    }
    Ok(form)
}

fn too_many(name: String, max_count: usize) -> ApiError {
    if max_count == 1 {
        return FieldError::Repeated { param: name }.into();
    }
    let message = format!("more than {max_count} `{name}`");
    ApiError::new(ErrorCode::InvalidParameter, message).param(name)
}

/// Reads a file of at most `max_bytes`; `None`, without reading on, if it is larger. `body_too_large` is the refusal of the whole
/// body.
pub(crate) async fn read_file<C: Chunks>(
    multipart: &mut Multipart<C>,
    share: &Share,
    max_bytes: usize,
    body_too_large: impl Fn() -> ApiError,
) -> Result<Option<Bytes>> {
    let mut file = BytesMut::new();
    while let Some(data) = multipart.next_data().await.map_err(|error| error.answered(&body_too_large))? {
        if file.len() + data.len() > max_bytes {
            return Ok(None);
        }
        share.grow(data.len())?;
        file.extend_from_slice(&data);
    }
    Ok(Some(file.freeze()))
}

/// Reads the value of a field.
pub(crate) async fn read_value<C: Chunks>(multipart: &mut Multipart<C>, name: &str) -> Result<String> {
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

/// 413 for a picture that is too large, whichever bound it exceeds.
pub(crate) fn file_too_large(max_file: usize) -> ApiError {
    DecodeError::TooManyBytes { limit: max_file }.into()
}

/// 413 for a body that is too large; of a batch, no single file is at fault.
pub(crate) fn body_too_large(input: Input, max_file: usize) -> ApiError {
    if input == Input::Files { MultipartError::BodyTooLarge.into() } else { file_too_large(max_file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::admission::Memory;
    use crate::recipe::ENDPOINTS;
    use futures_util::FutureExt;
    use std::collections::VecDeque;

    /// A part of the field `point`, as one piece of the body.
    fn point(value: &str) -> Bytes {
        format!("--XyZ\r\nContent-Disposition: form-data; name=\"point\"\r\n\r\n{value}\r\n").into()
    }

    #[test]
    fn the_values_of_a_list_are_bounded_in_all_and_not_by_the_room_for_files() {
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.path == "/remove-batch").expect("it is there");
        let value = "1,2;".repeat(MAX_VALUE / 4);
        let read = |parts: usize| {
            let end = Bytes::from_static(b"--XyZ--\r\n");
            let mut body: VecDeque<_> = std::iter::repeat_n(point(&value), parts).chain([end]).collect();
            let memory = Memory::new(1 << 20, 10 << 20).of("a");
            let form = super::read(&mut body, "XyZ", endpoint, &memory).now_or_never().expect("all pieces are there");
            (form, body.len())
        };
        let most = MAX_OVERHEAD / MAX_VALUE;
        let (form, unread) = read(most);
        assert_eq!((form.map(|form| form.fields.iter().count()).ok(), unread), (Some(1), 0));
        let (form, unread) = read(100);
        assert_eq!(form.expect_err("too much").code, ErrorCode::PayloadTooLarge);
        assert!(unread >= 100 - most - 1, "it was read on: {unread} pieces are left");
    }
}
