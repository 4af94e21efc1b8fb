//! `POST /v1/segment`: Photoroom's fields to a recipe's.

use super::answer::{self, Body};
use super::cutout::{self, Picture, Wanted};
use super::input::{self, Names, Sent};
use super::refusal::Refusal;
use super::removebg::{flag, hashed};
use super::size;
use crate::http::Caller;
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::response::Reply;
use crate::pipeline::FaceFound;
use crate::recipe::Fields;
use hyper::header::{HeaderName, HeaderValue};

const NAMES: Names = Names {
    texts: &["format", "channels", "bg_color", "size", "crop", "despill"],
    files: &["image_file"],
    base64: &["image_file_b64"],
};

const UNCERTAINTY: HeaderName = HeaderName::from_static("x-uncertainty-score");

pub(super) async fn answer(facade: &Facade, caller: &Caller, exchange: &mut Exchange) -> Result<Reply, Refusal> {
    let mut share = facade.uploads.of(&caller.account).share();
    let mut sent = input::read(exchange, NAMES, facade.limits.max_bytes, &mut share).await?;
    let received = exchange.body.received();
    let file = sent.take("image_file").into_iter().chain(sent.take("image_file_b64")).next();
    let file = file.ok_or_else(|| Refusal::of_request("missing_image", "Please provide an image"))?;
    let wanted = Wanted {
        fields: translated(&sent)?,
        source: Picture::File(file),
        background: None,
        share,
        limits: facade.limits,
    };
    let made = cutout::made(facade, caller, &exchange.headers, received, wanted).await?;
    let score = match made.output.face {
        // As Photoroom has it where people are.
        Some(FaceFound::At(_)) => "-1".to_owned(),
        Some(FaceFound::None) | None => format!("{:.3}", made.output.uncertainty.unwrap_or_default()),
    };
    let is_json = answer::accepts_json(&exchange.headers);
    let body = if is_json { Body::Json("{\"base64img\":\"", "\"}".to_owned()) } else { Body::Picture };
    let mut reply = answer::reply(facade, caller, made, body).await?;
    if let Ok(score) = HeaderValue::from_str(&score) {
        reply.headers_mut().insert(UNCERTAINTY, score);
    }
    Ok(reply)
}

fn translated(sent: &Sent) -> Result<Fields, Refusal> {
    let lower = |name, usual: &str| sent.text(name).unwrap_or(usual).to_ascii_lowercase();
    let size = sent.text("size").unwrap_or("full");
    let most = size::of_photoroom(size)
        .ok_or_else(|| Refusal::of_request("invalid_parameter", "`size` is preview, medium, hd or full"))?;
    let format = lower("format", "png");
    let mut fields = Fields::default();
    fields.push("format", if format == "jpeg" { "jpg" } else { &format })?;
    fields.push("channels", &lower("channels", "rgba"))?;
    fields.push("max_pixels", &most.to_string())?;
    fields.push("classify", "true")?;
    if let Some(color) = sent.text("bg_color") {
        fields.push("bg_color", &hashed(color))?;
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
