//! `POST /v1/segment`: translates Photoroom's fields to recipe fields.

use super::cutout::{self, CutoutRequest};
use super::input::{self, Names, ParsedBody};
use super::refusal::invalid_request;
use super::reply::{self, Json, ResultFile};
use super::values::{self, flag, with_hash};
use crate::http::admission::Caller;
use crate::http::reply::{Reply, Result};
use crate::http::request::image_request::Pictures;
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::pipeline::FaceFound;
use crate::recipe::Fields;
use hyper::header::{HeaderName, HeaderValue};

pub(super) const NAMES: Names = Names {
    texts: &["format", "channels", "bg_color", "size", "crop", "despill"],
    files: &["image_file"],
    base64: Some("image_file_b64"),
};

/// The largest picture that Photoroom takes.
const MAX_MEGAPIXELS: u32 = 36;

const UNCERTAINTY: HeaderName = HeaderName::from_static("x-uncertainty-score");

pub(super) async fn answer(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply> {
    let limits = input::limits(state, state.limits.max_bytes, MAX_MEGAPIXELS);
    let mut sent = input::read(context, NAMES, limits.max_bytes, &state.memory.of(&caller.account)).await?;
    let received = context.body.received();
    let file = sent.take("image_file").into_iter().chain(sent.take("image_file_b64")).next();
    let file = file.ok_or_else(|| invalid_request("missing_image", "Please provide an image"))?;
    let request = CutoutRequest { fields: translated(&sent)?, source: Pictures::File(file), background: None, limits };
    let cutout = cutout::cut_out(state, caller, &context.headers, received, request).await?;
    let score = match cutout.output.face {
        // Photoroom has -1 for pictures of people.
        Some(FaceFound::At(_)) => "-1".to_owned(),
        Some(FaceFound::None) | None => format!("{:.3}", cutout.output.uncertainty.unwrap_or_default()),
    };
    let json = reply::accepts_json(&context.headers);
    let json = json.then(|| Json { before: "{\"base64img\":\"", after: "\"}".to_owned() });
    let mut reply = reply::picture(state, caller, cutout, ResultFile::Picture, json).await?;
    if let Ok(score) = HeaderValue::from_str(&score) {
        reply.headers_mut().insert(UNCERTAINTY, score);
    }
    Ok(reply)
}

pub(super) fn translated(sent: &ParsedBody) -> Result<Fields> {
    let lower = |name, default: &str| sent.text(name).unwrap_or(default).to_ascii_lowercase();
    let size = sent.text("size").unwrap_or("full");
    let most = values::photoroom_max_pixels(size)
        .ok_or_else(|| invalid_request("invalid_parameter", "`size` is preview, medium, hd or full"))?;
    let format = lower("format", "png");
    let mut fields = Fields::default();
    fields.push("format", if format == "jpeg" { "jpg" } else { &format })?;
    fields.push("channels", &lower("channels", "rgba"))?;
    fields.push("max_pixels", &most.to_string())?;
    fields.push("classify", "true")?;
    if let Some(color) = sent.text("bg_color") {
        fields.push("bg_color", &with_hash(color))?;
    }
    if flag(sent, "crop", "invalid_parameter")? {
        fields.push("crop", "true")?;
    }
    // Absent where it is off: the field alone needs a plan.
    if flag(sent, "despill", "invalid_parameter")? {
        fields.push("despill", "true")?;
    }
    Ok(fields)
}
