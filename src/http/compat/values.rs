//! Values as other services write them: switches, colours, and names of sizes, which are caps of the result in pixels.

use super::input::ParsedBody;
use super::refusal::invalid_request;
use crate::http::reply::Result;

/// A million pixels.
const MEGAPIXEL: u32 = 1_000_000;

/// The largest PNG of remove.bg.
pub(super) const MAX_PNG: u32 = 10 * MEGAPIXEL;

/// The largest result of remove.bg's usual sizes.
pub(super) const FULL: u32 = 25 * MEGAPIXEL;

/// A preview, which is charged a quarter credit.
pub(super) const PREVIEW: u32 = MEGAPIXEL / 4;

/// The text under `name` in lower case.
pub(super) fn lower(sent: &ParsedBody, name: &str) -> Option<String> {
    sent.text(name).map(str::to_ascii_lowercase)
}

/// A switch; off where it is not sent.
pub(super) fn flag(sent: &ParsedBody, name: &str, code: &'static str) -> Result<bool> {
    match lower(sent, name).as_deref() {
        None | Some("false" | "0" | "no" | "off") => Ok(false),
        Some("true" | "1" | "yes" | "on") => Ok(true),
        Some(_) => Err(invalid_request(code, format!("`{name}` is true or false"))),
    }
}

/// A colour, with the `#` that hexadecimal digits may lack.
pub(super) fn with_hash(color: &str) -> String {
    let is_bare = matches!(color.len(), 3 | 4 | 6 | 8) && color.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_bare { format!("#{color}") } else { color.to_owned() }
}

/// remove.bg's `size`.
pub(super) fn removebg_max_pixels(name: &str) -> Option<u32> {
    Some(match name.to_ascii_lowercase().as_str() {
        "preview" | "small" | "regular" => PREVIEW,
        "medium" => 3 * MEGAPIXEL / 2,
        "hd" => 4 * MEGAPIXEL,
        // `auto` is what the credits allow: here always the largest.
        "full" | "4k" | "auto" => FULL,
        "50mp" => 50 * MEGAPIXEL,
        _ => return None,
    })
}

/// Photoroom's `size`.
pub(super) fn photoroom_max_pixels(name: &str) -> Option<u32> {
    Some(match name.to_ascii_lowercase().as_str() {
        "preview" => PREVIEW,
        "medium" => 3 * MEGAPIXEL / 2,
        "hd" => 4 * MEGAPIXEL,
        "full" => 36 * MEGAPIXEL,
        _ => return None,
    })
}
