//! `POST /v1.0/removebg`: translates remove.bg's fields to recipe fields, and adds its headers to the reply.

use super::cutout::{self, Cutout, CutoutRequest, is_matte};
use super::input::{self, Names, ParsedBody};
use super::refusal::invalid_request;
use super::reply::{self, Json, ResultFile};
use super::values::{self, FULL, MAX_PNG, PREVIEW, flag, lower, with_hash};
use crate::compose::Scene;
use crate::http::admission::Caller;
use crate::http::reply::{Reply, Result};
use crate::http::request::image_request::Pictures;
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::image::color::Color;
use crate::image::{Rect, Size, SourceUrl};
use crate::pipeline::{FaceFound, Output};
use crate::recipe::{Fields, Value};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

pub(super) const NAMES: Names = Names {
    texts: &[
        "image_url",
        "size",
        "type",
        "type_level",
        "format",
        "roi",
        "crop",
        "crop_margin",
        "scale",
        "position",
        "channels",
        "bg_color",
        "bg_image_url",
        "add_shadow",
        "semitransparency",
    ],
    files: &["image_file", "bg_image_file"],
    base64: Some("image_file_b64"),
};

/// Options of the request that shape the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyOptions {
    is_preview: bool,
    is_archive: bool,
    /// Whether the subject's type is reported.
    reports_type: bool,
    /// Maximum pixels of this result, and of a result of the largest size.
    max_pixels: u32,
    largest_pixels: u32,
    is_cropped: bool,
}

/// The largest file and picture that remove.bg takes.
const MAX_BYTES: usize = 22 << 20;
const MAX_MEGAPIXELS: u32 = 50;

pub(super) async fn answer(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply> {
    let limits = input::limits(state, MAX_BYTES, MAX_MEGAPIXELS);
    let mut sent = input::read(context, NAMES, limits.max_bytes, &state.memory.of(&caller.account)).await?;
    let received = context.body.received();
    let source = source(&mut sent)?;
    let background = sent.take("bg_image_file").into_iter().next();
    let (fields, options) = translated(&sent, background.is_some())?;
    let background = background.filter(|_| !options.is_archive && !is_matte(&fields));
    let request = CutoutRequest { fields, source, background, limits };
    let cutout = cutout::cut_out(state, caller, &context.headers, received, request).await?;
    let headers = headers(&cutout, options, caller.test);
    let json = reply::accepts_json(&context.headers).then(|| {
        let Rect { left, top, width, height } = cutout.output.subject.unwrap_or_default();
        let foreground = format!(
            "\",\"foreground_top\":{top},\"foreground_left\":{left},\"foreground_width\":{width},\
             \"foreground_height\":{height}}}}}"
        );
        Json { before: "{\"data\":{\"result_b64\":\"", after: foreground }
    });
    let file = if options.is_archive { ResultFile::Archive } else { ResultFile::Picture };
    let mut reply = reply::picture(state, caller, cutout, file, json).await?;
    reply.headers_mut().extend(headers);
    Ok(reply)
}

/// The one source of a request.
fn source(sent: &mut ParsedBody) -> Result<Pictures> {
    let files: Vec<_> = ["image_file_b64", "image_file"].into_iter().flat_map(|name| sent.take(name)).collect();
    let mut files = files.into_iter();
    match (files.next(), files.next(), sent.text("image_url")) {
        (Some(file), None, None) => Ok(Pictures::File(file)),
        (None, None, Some(url)) => match SourceUrl::parse(url) {
            Ok(url) => Ok(Pictures::Url(url)),
            Err(error) => Err(invalid_request("invalid_image_url", format!("`image_url` is {error}"))),
        },
        (None, None, None) => Err(invalid_request("missing_source", "No image given")),
        _ => Err(invalid_request("multiple_sources", "Multiple image sources given")),
    }
}

/// The recipe fields for a request.
pub(super) fn translated(sent: &ParsedBody, has_file: bool) -> Result<(Fields, ReplyOptions)> {
    let backgrounds = [sent.text("bg_color").is_some(), sent.text("bg_image_url").is_some(), has_file]
        .iter()
        .filter(|is| **is)
        .count();
    if backgrounds > 1 {
        return Err(invalid_request("multiple_bg_sources", "Multiple background sources given"));
    }
    let is_matte = match lower(sent, "channels").as_deref() {
        None | Some("rgba") => false,
        Some("alpha") => true,
        Some(_) => return Err(invalid_request("invalid_channels", "`channels` is rgba or alpha")),
    };
    let color = sent.text("bg_color").map(with_hash);
    // An invalid colour is refused by the recipe.
    let is_opaque = has_file || sent.text("bg_image_url").is_some() || color.as_deref().is_some_and(is_opaque);
    let (format, is_archive) = match lower(sent, "format").as_deref() {
        None | Some("auto") if is_opaque && !is_matte => ("jpg", false),
        None | Some("auto" | "png") => ("png", false),
        Some("jpg" | "jpeg") => ("jpg", false),
        Some("webp") => ("webp", false),
        Some("zip") => ("png", true),
        Some(_) => return Err(invalid_request("invalid_format", "`format` is auto, png, jpg, webp or zip")),
    };
    let size = sent.text("size").unwrap_or("preview");
    let size_pixels = values::removebg_max_pixels(size).ok_or_else(|| {
        invalid_request("invalid_size", "`size` is preview, small, regular, medium, hd, full, 4k, 50MP or auto")
    })?;
    let within = |pixels: u32| if format == "png" && !is_archive { pixels.min(MAX_PNG) } else { pixels };
    let reports_type = lower(sent, "type_level").as_deref() != Some("none");
    let is_cropped = flag(sent, "crop", "invalid_parameter")?;
    // Validated but without effect: the matte of car windows is kept as computed.
    flag(sent, "semitransparency", "invalid_semitransparency")?;

    let mut fields = Fields::default();
    let mut push = |name: &str, text: &str| fields.push(name, text);
    push("format", format)?;
    push("channels", if is_matte && !is_archive { "alpha" } else { "rgba" })?;
    push("max_pixels", &within(size_pixels).to_string())?;
    push("classify", if reports_type { "true" } else { "false" })?;
    push("crop", if is_cropped { "true" } else { "false" })?;
    push("add_shadow", if flag(sent, "add_shadow", "invalid_parameter")? { "true" } else { "false" })?;
    if !is_archive {
        if let Some(color) = &color {
            push("bg_color", color)?;
        }
        if let Some(url) = sent.text("bg_image_url") {
            push("bg_url", url)?;
        }
    }
    for name in ["roi", "crop_margin", "position"] {
        if let Some(text) = lower(sent, name) {
            push(name, &text)?;
        }
    }
    if let Some(scale) = lower(sent, "scale").filter(|scale| scale != "original") {
        push("scale", &scale)?;
    }
    let is_preview = size_pixels == PREVIEW;
    let (max_pixels, largest_pixels) = (within(size_pixels), within(size_pixels.max(FULL)));
    Ok((fields, ReplyOptions { is_preview, is_archive, reports_type, max_pixels, largest_pixels, is_cropped }))
}

fn is_opaque(color: &str) -> bool {
    Color::parse(color).is_some_and(Color::is_opaque)
}

/// remove.bg's headers.
fn headers(cutout: &Cutout, options: ReplyOptions, is_test: bool) -> HeaderMap {
    let Output { image, subject, face, .. } = &cutout.output;
    let mut headers = HeaderMap::new();
    let mut write = |name: &'static str, value: u32| headers.insert(HeaderName::from_static(name), value.into());
    write("x-width", image.size.width);
    write("x-height", image.size.height);
    if let Some(Size { width, height }) = largest(cutout, options) {
        write("x-max-width", width);
        write("x-max-height", height);
    }
    if let Some(Rect { left, top, width, height }) = *subject {
        write("x-foreground-top", top);
        write("x-foreground-left", left);
        write("x-foreground-width", width);
        write("x-foreground-height", height);
    }
    let charged = match options.is_preview {
        _ if is_test || cutout.bill.is_paid() => "0",
        true => "0.25",
        false => "1",
    };
    headers.insert(HeaderName::from_static("x-credits-charged"), HeaderValue::from_static(charged));
    if options.reports_type {
        let is_person = matches!(face, Some(FaceFound::At(_)));
        let name = if is_person { "person" } else { "other" };
        headers.insert(HeaderName::from_static("x-type"), HeaderValue::from_static(name));
    }
    headers
}

/// The size of the result at the largest `size`. For a crop it is known only if this result was not scaled down.
fn largest(cutout: &Cutout, options: ReplyOptions) -> Option<Size> {
    let size = cutout.output.image.size;
    if options.is_cropped {
        // A result that was scaled down has nearly the most pixels that it may have.
        let is_scaled = size.area() * 100 >= options.max_pixels as usize * 95;
        return (!is_scaled).then_some(size);
    }
    let scene = Scene { max_pixels: Some(options.largest_pixels), ..Scene::default() };
    scene.layout(cutout.source, Rect::whole(cutout.source)).ok().map(|layout| layout.canvas)
}
