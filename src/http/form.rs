//! A form with a picture: small fields and one file, each against its limit while it is read.

use super::body::{BodyError, Chunks};
use super::error::{ApiError, ErrorCode};
use super::multipart::{Multipart, MultipartError};
use crate::codec;
use crate::recipe::{FieldError, Fields};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part that holds the picture.
pub(super) const FILE: &str = "file";

/// The longest value of any other field.
const MAX_VALUE: usize = 4 * 1024;

/// What fields and part heads may add to the file; more than a form of all fields needs.
const MAX_OVERHEAD: usize = 256 * 1024;

/// The largest file.
pub(super) fn max_file() -> usize {
    codec::Limits::default().max_bytes
}

/// The largest body that can hold a form.
pub(super) fn max_body() -> usize {
    max_file() + MAX_OVERHEAD
}

/// A form as it was sent.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) fields: Fields,
    pub(super) file: Option<Bytes>,
    /// The file's share of the memory for uploads; to be dropped after the file.
    pub(super) share: Share,
}

/// The memory that all uploads share. Taken as bytes arrive and not as they are announced, so that slow uploads hold
/// no more than they have sent.
#[derive(Clone, Debug)]
pub(super) struct UploadMemory(Arc<Semaphore>);

/// What one upload has taken of it.
#[derive(Debug, Default)]
pub(super) struct Share(Option<OwnedSemaphorePermit>);

impl UploadMemory {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Adds `bytes` to `share`; at the bound the upload is refused, because waiting would hold what it has already.
    fn grow(&self, share: &mut Share, bytes: usize) -> Result<(), ApiError> {
        let more = u32::try_from(bytes).ok().and_then(|bytes| self.0.clone().try_acquire_many_owned(bytes).ok());
        let more = more.ok_or_else(|| {
            ApiError::new(ErrorCode::RateLimitExceeded, "too many uploads are under way")
                .retry_after(Duration::from_secs(1))
        })?;
        match &mut share.0 {
            Some(taken) => taken.merge(more),
            None => share.0 = Some(more),
        }
        Ok(())
    }
}

/// Reads a form to its end. A name that `knows` does not know ends it at once.
pub(super) async fn read<C: Chunks>(
    chunks: C,
    boundary: &str,
    knows: impl Fn(&str) -> bool + Send,
    memory: &UploadMemory,
) -> Result<Form, ApiError> {
    let mut multipart = Multipart::new(chunks, boundary, max_body());
    let mut form = Form { fields: Fields::default(), file: None, share: Share::default() };
    while let Some(name) = multipart.next_part().await? {
        if name == FILE {
            if form.file.is_some() {
                return Err(FieldError::Repeated { param: name }.into());
            }
            form.file = Some(read_file(&mut multipart, memory, &mut form.share).await?);
        } else if knows(&name) {
            let value = read_value(&mut multipart, &name).await?;
            form.fields.push(&name, &value)?;
        } else {
            return Err(FieldError::Unknown { param: name }.into());
        }
    }
    Ok(form)
}

async fn read_file<C: Chunks>(
    multipart: &mut Multipart<C>,
    memory: &UploadMemory,
    share: &mut Share,
) -> Result<Bytes, ApiError> {
    let mut file = BytesMut::new();
    while let Some(data) = multipart.next_data().await.map_err(too_large_as_file)? {
        if file.len() + data.len() > max_file() {
            return Err(file_too_large());
        }
        memory.grow(share, data.len())?;
        file.extend_from_slice(&data);
    }
    Ok(file.freeze())
}

async fn read_value<C: Chunks>(multipart: &mut Multipart<C>, name: &str) -> Result<String, ApiError> {
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
