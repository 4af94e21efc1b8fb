//! Names of sizes in other services' APIs, as caps of the result in pixels.

/// A million pixels.
const MEGAPIXEL: u32 = 1_000_000;

/// The largest PNG of remove.bg.
pub(super) const MAX_PNG: u32 = 10 * MEGAPIXEL;

/// The largest result of remove.bg's usual sizes.
pub(super) const FULL: u32 = 25 * MEGAPIXEL;

/// A preview, which is charged a quarter credit.
pub(super) const PREVIEW: u32 = MEGAPIXEL / 4;

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
