//! Authorizes, processes and bills a translated request, like every image endpoint.

use super::refusal::{RESOLUTION, invalid_request};
use crate::codec::{DecodeError, Limits};
use crate::http::admission::{Caller, require_scope};
use crate::http::reply::{ApiError, Result};
use crate::http::request::image_request::{ImageRequest, Inputs, Pictures};
use crate::http::request::input_names::{FILE, URL};
use crate::http::routes::image::{self, Bill, FinishedImage};
use crate::http::state::ApiState;
use crate::image::Size;
use crate::pipeline::{Call, Output, PipelineError};
use crate::recipe::{BG_FILE, DROP_IN, DROP_IN_BACKGROUND, Endpoint, Fields};
use bytes::Bytes;
use hyper::header::HeaderMap;
use std::time::{Duration, Instant};

/// A request of another service, translated.
#[derive(Debug)]
pub(super) struct CutoutRequest {
    /// Fields of `recipe::DROP_IN`.
    pub(super) fields: Fields,
    pub(super) source: Pictures,
    pub(super) background: Option<Bytes>,
    /// Largest picture that is taken on this route.
    pub(super) limits: Limits,
}

/// A finished picture.
pub(super) struct Cutout {
    pub(super) output: Output,
    pub(super) bill: Bill,
    /// Size of the upright source.
    pub(super) source: Size,
    pub(super) latency: Duration,
    /// When its reply has to have begun.
    pub(super) deadline: Instant,
}

/// Authorizes the request, fetches its files and processes the picture.
pub(super) async fn cut_out(
    state: &ApiState,
    caller: &Caller,
    headers: &HeaderMap,
    received: Instant,
    request: CutoutRequest,
) -> Result<Cutout> {
    let CutoutRequest { mut fields, source: pictures, background, limits } = request;
    if background.is_some() {
        fields.attach(BG_FILE);
    }
    let endpoint = endpoint_of(&fields);
    require_scope(caller, endpoint.path)?;
    let recipe = endpoint.recipe(&fields)?;
    let param = if pictures.is_url() { URL } else { FILE };
    let request = ImageRequest { fields, recipe, inputs: Inputs { pictures, param, background, mask: None } };
    let prepared = image::prepare(state, endpoint, caller, headers, request).await?;
    let deadline = received + state.config.request_deadline;
    let call = Call::of_request(&caller.account, deadline, limits);
    let size = size_of(state, prepared.source.clone(), call).await?;
    if let Some(region) = prepared.authorized.recipe.cut().and_then(|cut| cut.region) {
        if region.exceeds(size) {
            return Err(invalid_request("roi_exceeds_bounds", format!("`roi` exceeds the picture of {size}")));
        }
        if region.is_empty(size) {
            return Err(invalid_request("roi_region_empty", "`roi` has no pixels"));
        }
    }
    let FinishedImage { output, bill, .. } = image::process(state, caller, prepared, received, limits).await?;
    Ok(Cutout { output, bill, source: size, latency: received.elapsed(), deadline })
}

/// Whether the result is the matte, which has no background.
pub(super) fn is_matte(fields: &Fields) -> bool {
    fields.get("channels") == Some("alpha")
}

/// A cutout and a matte are billed as `/remove`, a cutout with a background as `/replace-bg`.
pub(super) fn endpoint_of(fields: &Fields) -> &'static Endpoint {
    let has_background = fields.has_file(BG_FILE) || fields.get("bg_url").is_some() || fields.get("bg_color").is_some();
    if has_background && !is_matte(fields) { &DROP_IN_BACKGROUND } else { &DROP_IN }
}

/// The size of a source, from its header.
async fn size_of(state: &ApiState, source: Bytes, call: Call) -> Result<Size> {
    let header = state.app.processor.header_of(source, call).await.map_err(|error| {
        let is_too_many_pixels = matches!(
            error,
            PipelineError::Decode(DecodeError::TooManyPixels { .. } | DecodeError::TooManyMegapixels { .. })
        );
        let error = ApiError::from(error);
        if is_too_many_pixels { error.param(RESOLUTION) } else { error }
    })?;
    Ok(header.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matte_is_billed_as_a_cutout_whatever_background_is_sent() {
        for (channels, path) in [("alpha", "/remove"), ("rgba", "/replace-bg")] {
            let mut fields = Fields::default();
            fields.push("channels", channels).expect("a field");
            fields.push("bg_color", "red").expect("a field");
            assert_eq!(endpoint_of(&fields).path, path);
        }
    }
}
