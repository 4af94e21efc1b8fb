//! Limits on the bytes, sides and pixels of an input file, and the check of a size against them.

use super::error::{DecodeError, corrupt};
use crate::image::Size;
use std::time::Duration;

/// Time limit of a decode, per started [`TIMED_PIXELS`]; these take a few seconds in the slowest format.
pub(super) const MAX_TIME: Duration = Duration::from_secs(20);
/// 4096×4096.
const TIMED_PIXELS: usize = 1 << 24;

/// Limits of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of the file.
    pub max_bytes: usize,
    /// Maximum pixels of the longer side.
    pub max_side: u32,
    /// Maximum millions of pixels.
    pub max_megapixels: u32,
}

impl Limits {
    /// Limits of the command line: cameras with 100 megapixels. Cutting out such a JPEG has a peak of 1.1 GB, a
    /// 24-megapixel one 0.44 GB (VmHWM of `backdrop remove` to PNG, including 0.2 GB for the network).
    pub const LOCAL: Self = Self { max_bytes: 200 << 20, max_side: 16_384, max_megapixels: 150 };

    /// The larger value of each limit.
    #[must_use]
    pub fn or_larger(self, other: Self) -> Self {
        Self {
            max_bytes: self.max_bytes.max(other.max_bytes),
            max_side: self.max_side.max(other.max_side),
            max_megapixels: self.max_megapixels.max(other.max_megapixels),
        }
    }
}

impl Default for Limits {
    /// The API's limits: 10 MB, and 4096×4096 pixels, just under 17 million.
    fn default() -> Self {
        Self { max_bytes: 10 << 20, max_side: 4096, max_megapixels: 17 }
    }
}

/// Checks a stored size. Rotating a picture swaps its sides, which does not change the result.
pub(super) fn check_size(stored: Size, limits: &Limits) -> Result<(), DecodeError> {
    if stored.width == 0 || stored.height == 0 {
        return Err(corrupt("a side of zero pixels"));
    }
    if stored.longest() > limits.max_side {
        return Err(DecodeError::TooManyPixels { size: stored, limit: limits.max_side });
    }
    if stored.area() as u64 > u64::from(limits.max_megapixels) * 1_000_000 {
        return Err(DecodeError::TooManyMegapixels { size: stored, limit: limits.max_megapixels });
    }
    Ok(())
}

/// Limits for decoding a probed file: its probed size.
pub(super) fn limits_of(probed: Size) -> Limits {
    Limits { max_bytes: usize::MAX, max_side: probed.longest(), max_megapixels: u32::MAX }
}

/// Time limit for decoding a picture of `size`.
pub(super) fn time_limit(size: Size) -> Duration {
    MAX_TIME * size.area().div_ceil(TIMED_PIXELS).clamp(1, 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_limit_grows_with_the_pixels() {
        let seconds = |width, height| time_limit(Size::new(width, height)).as_secs();
        assert_eq!((seconds(1, 1), seconds(4096, 4096), seconds(4097, 4096)), (20, 20, 40));
        assert_eq!(seconds(11_648, 8736), 140);
    }
}
