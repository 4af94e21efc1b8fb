//! Sizes as other services name them: caps of a result in pixels.

/// A million pixels.
const MEGAPIXEL: u32 = 1_000_000;

/// A PNG of remove.bg's has no more.
pub(super) const MAX_PNG: u32 = 10 * MEGAPIXEL;

/// The largest result of remove.bg's usual sizes.
pub(super) const FULL: u32 = 25 * MEGAPIXEL;

/// The pixels of a preview: those of a result that is charged a quarter credit.
pub(super) const PREVIEW: u32 = MEGAPIXEL / 4;

/// remove.bg's `size`.
pub(super) fn of_removebg(name: &str) -> Option<u32> {
    Some(match name.to_ascii_lowercase().as_str() {
        "preview" | "small" | "regular" => PREVIEW,
        "medium" => 3 * MEGAPIXEL / 2,
        "hd" => 4 * MEGAPIXEL,
        // Whatever credits allow: here that is always the most.
        "full" | "4k" | "auto" => FULL,
        "50mp" => 50 * MEGAPIXEL,
        _ => return None,
    })
}

/// Photoroom's `size`.
pub(super) fn of_photoroom(name: &str) -> Option<u32> {
    Some(match name.to_ascii_lowercase().as_str() {
        "preview" => PREVIEW,
        "medium" => 3 * MEGAPIXEL / 2,
        "hd" => 4 * MEGAPIXEL,
        "full" => 36 * MEGAPIXEL,
        _ => return None,
    })
}
