//! The pictures of a batch as they were sent, and the rows of the reply.

use super::file_names;
use crate::http::reply::{ApiError, Result};
use crate::http::request::fingerprint::PictureDigest;
use crate::http::request::form::Upload;
use crate::http::request::image_request::Pictures;
use crate::image::SourceUrl;
use crate::pipeline::Output;
use crate::recipe::{FieldError, Value};
use bytes::Bytes;
use serde::Serialize;

/// One picture of a batch, as it was sent.
pub(super) struct Item {
    pub(super) index: usize,
    pub(super) label: Label,
    pub(super) input: RowInput,
}

/// The file name or the URL that identifies a row to the caller.
#[derive(Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Label {
    Filename(Option<String>),
    Url(String),
}

/// The source of a row; an error fails that row alone.
pub(super) enum RowInput {
    File(Result<Bytes>),
    Url(Result<SourceUrl, FieldError>),
}

/// A picture of a batch, finished or failed.
pub(super) struct Row {
    pub(super) index: usize,
    pub(super) label: Label,
    pub(super) outcome: Result<(Output, PictureDigest)>,
}

impl Label {
    /// The caller's name for the picture, if it has one.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Self::Filename(name) => name.clone(),
            Self::Url(url) => file_names::last_segment(url),
        }
    }
}

/// The pictures of a batch in order.
pub(super) fn items(pictures: Pictures) -> Result<Vec<Item>> {
    let refuse = |text: &str| FieldError::invalid("urls", text, <SourceUrl as Value>::KIND.expected());
    let inputs: Vec<_> = match pictures {
        Pictures::Files(files) => files
            .into_iter()
            .map(|Upload { filename, bytes, refused, .. }| {
                (Label::Filename(filename), RowInput::File(refused.map_or(Ok(bytes), Err)))
            })
            .collect(),
        Pictures::Urls(urls) => urls
            .into_iter()
            .map(|url| {
                let parsed = SourceUrl::parse(&url).map_err(|_| refuse(&url));
                (Label::Url(url), RowInput::Url(parsed))
            })
            .collect(),
        Pictures::File(_) | Pictures::Url(_) => {
            return Err(ApiError::internal("one picture at an endpoint of batches"));
        }
    };
    let items = inputs.into_iter().enumerate();
    Ok(items.map(|(index, (label, input))| Item { index, label, input }).collect())
}
