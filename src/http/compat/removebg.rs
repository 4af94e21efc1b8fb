//! `POST /v1.0/removebg`: remove.bg's fields to a recipe's, and its headers on the answer.

use super::answer::{self, Body};
use super::cutout::{self, Made, Picture, Wanted};
use super::input::{self, Names, Sent};
use super::refusal::Refusal;
use super::size::{self, FULL, MAX_PNG, PREVIEW};
use crate::codec::Limits;
use crate::compose::Scene;
use crate::http::Caller;
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::response::Reply;
use crate::image::color::Color;
use crate::image::{Rect, Size, SourceUrl};
use crate::pipeline::{FaceFound, Output};
use crate::recipe::{Fields, Value};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

const NAMES: Names = Names {
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
    base64: &["image_file_b64"],
};

/// What is needed for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    is_preview: bool,
    is_archive: bool,
    /// Whether the subject's type is told.
    tells_type: bool,
    /// Pixels of this result at most, and of the largest that could be asked for.
    max_pixels: u32,
    most_pixels: u32,
    is_cropped: bool,
}

/// Bytes that remove.bg takes.
const MAX_BYTES: usize = 22 << 20;

/// The daemon's limits, with a file as large as remove.bg takes where the memory for uploads has room for it.
fn limits(facade: &Facade) -> Limits {
    let uploads = facade.config.max_upload_megabytes_in_flight.saturating_mul(1_000_000);
    Limits { max_bytes: facade.limits.max_bytes.max(MAX_BYTES.min(uploads)), ..facade.limits }
}

pub(super) async fn answer(facade: &Facade, caller: &Caller, exchange: &mut Exchange) -> Result<Reply, Refusal> {
    let mut share = facade.uploads.of(&caller.account).share();
    let limits = limits(facade);
    let mut sent = input::read(exchange, NAMES, limits.max_bytes, &mut share).await?;
    let received = exchange.body.received();
    let source = source(&mut sent)?;
    let background = sent.take("bg_image_file").into_iter().next();
    let (fields, asked) = translated(&sent, background.is_some())?;
    let background = background.filter(|_| !asked.is_archive);
    let wanted = Wanted { fields, source, background, share, limits };
    let made = cutout::made(facade, caller, &exchange.headers, received, wanted).await?;
    let headers = headers(&made, asked, caller.test);
    let body = if asked.is_archive {
        Body::Archive
    } else if answer::accepts_json(&exchange.headers) {
        let Rect { left, top, width, height } = made.output.subject.unwrap_or_default();
        let foreground = format!(
            "\",\"foreground_top\":{top},\"foreground_left\":{left},\"foreground_width\":{width},\
             \"foreground_height\":{height}}}}}"
        );
        Body::Json("{\"data\":{\"result_b64\":\"", foreground)
    } else {
        Body::Picture
    };
    let mut reply = answer::reply(facade, caller, made, body).await?;
    reply.headers_mut().extend(headers);
    Ok(reply)
}

/// The one source of a request.
fn source(sent: &mut Sent) -> Result<Picture, Refusal> {
    let files: Vec<_> = NAMES.base64.iter().chain(&["image_file"]).flat_map(|name| sent.take(name)).collect();
    let mut files = files.into_iter();
    match (files.next(), files.next(), sent.text("image_url")) {
        (Some(file), None, None) => Ok(Picture::File(file)),
        (None, None, Some(url)) => match SourceUrl::parse(url) {
            Ok(url) => Ok(Picture::Url(url)),
            Err(error) => Err(Refusal::of_request("invalid_image_url", format!("`image_url` is {error}"))),
        },
        (None, None, None) => Err(Refusal::of_request("missing_source", "No image given")),
        _ => Err(Refusal::of_request("multiple_sources", "Multiple image sources given")),
    }
}

/// The fields of a recipe that say what `sent` says.
fn translated(sent: &Sent, has_file: bool) -> Result<(Fields, Asked), Refusal> {
    let backgrounds = [sent.text("bg_color").is_some(), sent.text("bg_image_url").is_some(), has_file]
        .iter()
        .filter(|is| **is)
        .count();
    if backgrounds > 1 {
        return Err(Refusal::of_request("multiple_bg_sources", "Multiple background sources given"));
    }
    let is_matte = match lower(sent, "channels").as_deref() {
        None | Some("rgba") => false,
        Some("alpha") => true,
        Some(_) => return Err(Refusal::of_request("invalid_channels", "`channels` is rgba or alpha")),
    };
    let color = sent.text("bg_color").map(hashed);
    // Of a colour that is none, the recipe says so.
    let is_opaque = has_file || sent.text("bg_image_url").is_some() || color.as_deref().is_some_and(is_opaque);
    let (format, is_archive) = match lower(sent, "format").as_deref() {
        None | Some("auto") if is_opaque && !is_matte => ("jpg", false),
        None | Some("auto" | "png") => ("png", false),
        Some("jpg" | "jpeg") => ("jpg", false),
        Some("webp") => ("webp", false),
        Some("zip") => ("png", true),
        Some(_) => return Err(Refusal::of_request("invalid_format", "`format` is auto, png, jpg, webp or zip")),
    };
    let size = sent.text("size").unwrap_or("preview");
    let most = size::of_removebg(size).ok_or_else(|| {
        Refusal::of_request("invalid_size", "`size` is preview, small, regular, medium, hd, full, 4k, 50MP or auto")
    })?;
    let within = |pixels: u32| if format == "png" && !is_archive { pixels.min(MAX_PNG) } else { pixels };
    let tells_type = lower(sent, "type_level").as_deref() != Some("none");
    let is_cropped = flag(sent, "crop", "invalid_parameter")?;
    // All windows stay as the network sees them.
    flag(sent, "semitransparency", "invalid_semitransparency")?;

    let mut fields = Fields::default();
    let mut push = |name: &str, text: &str| fields.push(name, text);
    push("format", format)?;
    push("channels", if is_matte && !is_archive { "alpha" } else { "rgba" })?;
    push("max_pixels", &within(most).to_string())?;
    push("classify", if tells_type { "true" } else { "false" })?;
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
    let (max_pixels, most_pixels) = (within(most), within(most.max(FULL)));
    Ok((fields, Asked { is_preview: most == PREVIEW, is_archive, tells_type, max_pixels, most_pixels, is_cropped }))
}

fn lower(sent: &Sent, name: &str) -> Option<String> {
    sent.text(name).map(str::to_ascii_lowercase)
}

/// A switch; off where it is not sent.
pub(super) fn flag(sent: &Sent, name: &str, code: &'static str) -> Result<bool, Refusal> {
    match lower(sent, name).as_deref() {
        None | Some("false" | "0" | "no" | "off") => Ok(false),
        Some("true" | "1" | "yes" | "on") => Ok(true),
        Some(_) => Err(Refusal::of_request(code, format!("`{name}` is true or false"))),
    }
}

/// A colour with the `#` that hexadecimal digits may lack.
pub(super) fn hashed(color: &str) -> String {
    let is_bare = matches!(color.len(), 3 | 4 | 6 | 8) && color.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_bare { format!("#{color}") } else { color.to_owned() }
}

fn is_opaque(color: &str) -> bool {
    Color::parse(color).is_some_and(Color::is_opaque)
}

/// remove.bg's headers.
fn headers(made: &Made, asked: Asked, is_test: bool) -> HeaderMap {
    let Output { image, subject, face, .. } = &made.output;
    let mut headers = HeaderMap::new();
    let mut write = |name: &'static str, value: u32| headers.insert(HeaderName::from_static(name), value.into());
    write("x-width", image.size.width);
    write("x-height", image.size.height);
    if let Some(Size { width, height }) = largest(made, asked) {
        write("x-max-width", width);
        write("x-max-height", height);
    }
    if let Some(Rect { left, top, width, height }) = *subject {
        write("x-foreground-top", top);
        write("x-foreground-left", left);
        write("x-foreground-width", width);
        write("x-foreground-height", height);
    }
    let charged = match asked.is_preview {
        _ if is_test => "0",
        true => "0.25",
        false => "1",
    };
    headers.insert(HeaderName::from_static("x-credits-charged"), HeaderValue::from_static(charged));
    if asked.tells_type {
        let is_person = matches!(face, Some(FaceFound::At(_)));
        let name = if is_person { "person" } else { "other" };
        headers.insert(HeaderName::from_static("x-type"), HeaderValue::from_static(name));
    }
    headers
}

/// The size of the result at the largest `size`. How large a crop would be is known where this one was not scaled down.
fn largest(made: &Made, asked: Asked) -> Option<Size> {
    let size = made.output.image.size;
    if asked.is_cropped {
        // One that was scaled down has hardly fewer pixels than it may have.
        let is_scaled = size.area() * 100 >= asked.max_pixels as usize * 95;
        return (!is_scaled).then_some(size);
    }
    let scene = Scene { max_pixels: Some(asked.most_pixels), ..Scene::default() };
    scene.layout(made.source, Rect::whole(made.source)).ok().map(|layout| layout.canvas)
}
