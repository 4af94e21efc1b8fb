//! A translated request through the cover and the pipeline of every image endpoint.

use super::refusal::{RESOLUTION, Refusal};
use crate::codec::{self, DecodeError, Limits};
use crate::http::Caller;
use crate::http::error::ApiError;
use crate::http::facade::{self, Facade};
use crate::http::form::FILE;
use crate::http::routes::image::{self, Done};
use crate::http::submission::{Pictures, Submission, URL};
use crate::http::upload_memory::Share;
use crate::image::{Size, SourceUrl};
use crate::pipeline::Output;
use crate::recipe::{BG_FILE, DROP_IN, DROP_IN_BACKGROUND, Endpoint, Fields};
use bytes::Bytes;
use hyper::header::HeaderMap;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// What a request of another service comes to.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Those of `recipe::DROP_IN`.
    pub(super) fields: Fields,
    pub(super) source: Picture,
    pub(super) background: Option<Bytes>,
    /// The files' share of the memory for uploads.
    pub(super) share: Share,
    /// What a picture may cost on this route.
    pub(super) limits: Limits,
}

/// A source, as it was sent.
#[derive(Debug)]
pub(super) enum Picture {
    File(Bytes),
    Url(SourceUrl),
}

/// A finished picture.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) output: Output,
    /// In microdollars.
    pub(super) cost: u64,
    /// Of the upright source.
    pub(super) source: Size,
    pub(super) latency: Duration,
    /// When its reply must have begun.
    pub(super) deadline: Instant,
}

/// Covers, fetches, works and bills.
pub(super) async fn made(
    facade: &Facade,
    caller: &Caller,
    headers: &HeaderMap,
    received: Instant,
    wanted: Wanted,
) -> Result<Made, Refusal> {
    let Wanted { mut fields, source, background, share, limits } = wanted;
    if background.is_some() {
        fields.attach(BG_FILE);
    }
    let endpoint = endpoint_of(&fields);
    facade::in_scope(caller, endpoint.path)?;
    // Before plan and quota.
    endpoint.recipe(&fields)?;
    let pictures = match source {
        Picture::File(bytes) => Pictures::File(bytes),
        Picture::Url(url) => Pictures::Url(url),
    };
    let param = if pictures.is_url() { URL } else { FILE };
    let submission = Submission { fields, pictures, param, background, share };
    let gathered = image::gathered(facade, endpoint, caller, headers, submission).await?;
    let size = size_of(gathered.source.clone(), limits).await?;
    if let Some(region) = gathered.cover.recipe.cut().and_then(|cut| cut.region) {
        if region.exceeds(size) {
            return Err(Refusal::of_request("roi_exceeds_bounds", format!("`roi` exceeds the picture of {size}")));
        }
        if region.is_empty(size) {
            return Err(Refusal::of_request("roi_region_empty", "`roi` has no pixels"));
        }
    }
    let Done { output, cost, .. } = image::finished(facade, caller, gathered, received, limits).await?;
    let deadline = received + facade.config.request_deadline;
    Ok(Made { output, cost, source: size, latency: received.elapsed(), deadline })
}

/// A cutout is billed as `/remove`, one with a background as `/replace-bg`.
fn endpoint_of(fields: &Fields) -> &'static Endpoint {
    let has_background = fields.has_file(BG_FILE) || fields.get("bg_url").is_some() || fields.get("bg_color").is_some();
    if has_background { &DROP_IN_BACKGROUND } else { &DROP_IN }
}

/// The size of a source, by its header.
async fn size_of(source: Bytes, limits: Limits) -> Result<Size, Refusal> {
    let probing = spawn_blocking(move || codec::probe(&source, &limits));
    let probed = probing.await.map_err(|error| ApiError::internal(error.to_string()))?;
    let header = probed.map_err(|error| {
        let is_of_pixels = matches!(error, DecodeError::TooManyPixels { .. } | DecodeError::TooManyMegapixels { .. });
        let error = ApiError::from(error);
        if is_of_pixels { error.param(RESOLUTION) } else { error }
    })?;
    Ok(header.size)
}
