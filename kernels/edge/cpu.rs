//! Traces of coverage on the CPU: the table of all values.

use super::TRACE;

/// What becomes of each coverage.
#[must_use]
pub fn without_traces() -> [u8; 256] {
    std::array::from_fn(|value| {
        let value = (value as f32 - f32::from(TRACE)) * 255.0 / (255.0 - 2.0 * f32::from(TRACE));
        (value.clamp(0.0, 255.0) + 0.5) as u8
    })
}
