//! The pictures of a batch as they were sent, and the rows of the reply.

use super::file_names;
use crate::http::admission::Authorized;
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
pub(super) struct Row<T> {
    pub(super) index: usize,
    pub(super) label: Label,
    /// A picture comes with its digest until it is billed, then with its price in microdollars.
    pub(super) outcome: Result<(Output, T)>,
}

impl Row<PictureDigest> {
    /// Bills the picture. A picture whose bill fails is dropped, and its row fails.
    pub(super) async fn bill(self, authorized: &mut Authorized) -> Row<u64> {
        let Self { index, label, outcome } = self;
        let outcome = match outcome {
            Ok((output, digest)) => authorized.bill(digest).await.map(|cost| (output, cost)),
            Err(error) => Err(error),
        };
        Row { index, label, outcome }
    }
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
    let of_file = |Upload { filename, bytes, refused, .. }| {
        let input = RowInput::File(refused.map_or(Ok(bytes), Err));
        Item { label: Label::Filename(filename), input }
    };
    let of_url = |url: String| {
        let input = RowInput::Url(SourceUrl::parse(&url).map_err(|_| refuse(&url)));
        Item { label: Label::Url(url), input }
    };
    match pictures {
        Pictures::Files(files) => Ok(files.into_iter().map(of_file).collect()),
        Pictures::Urls(urls) => Ok(urls.into_iter().map(of_url).collect()),
        Pictures::File(_) | Pictures::Url(_) => Err(ApiError::internal("one picture at an endpoint of batches")),
    }
}
