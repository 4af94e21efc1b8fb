//! A rectangle of the source by two corners in pixels or percent, and the parser of lengths.

use super::kind::{Kind, TextSpec};
use super::values::{Value, decimal};
use crate::compose::Length;
use crate::image::{Rect, Size};

/// A rectangle of the source by two corners.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Left, top, right and bottom, measured from the source's left and top.
    corners: [Length; 4],
}

impl Region {
    pub(super) const fn between(corners: [Length; 4]) -> Self {
        Self { corners }
    }

    /// The rectangle in a picture of `size`, clipped to it; at least one pixel.
    #[must_use]
    pub fn of(&self, size: Size) -> Rect {
        let [left, top, right, bottom] = self.corners;
        let axis = |low: Length, high: Length, side: u32| {
            let low = low.of(side).min(side.saturating_sub(1));
            (low, high.of(side).min(side).saturating_sub(low).max(1))
        };
        let (left, width) = axis(left, right, size.width);
        let (top, height) = axis(top, bottom, size.height);
        Rect { left, top, width, height }
    }

    /// Whether a corner lies outside of a picture of `size`.
    #[must_use]
    pub fn exceeds(&self, size: Size) -> bool {
        let [left, top, right, bottom] = self.corners;
        [left, right].iter().any(|at| at.of(size.width) > size.width)
            || [top, bottom].iter().any(|at| at.of(size.height) > size.height)
    }

    /// Whether it is empty in a picture of `size`.
    #[must_use]
    pub fn is_empty(&self, size: Size) -> bool {
        let [left, top, right, bottom] = self.corners;
        left.of(size.width) >= right.of(size.width) || top.of(size.height) >= bottom.of(size.height)
    }
}

impl Value for Region {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "x1 y1 x2 y2, each in pixels or percent, such as 0% 0% 100% 100%",
        pattern: None,
        max_length: 64,
        examples: &["0% 0% 100% 100%", "10px 20px 300px 400px"],
    });

    fn parse(text: &str) -> Option<Self> {
        lengths(text)?.try_into().ok().map(|corners| Self { corners })
    }
}

/// Maximum length in pixels that is accepted.
const MAX_PIXELS: u32 = 100_000;

/// A percentage as a share, 0 to 1.
pub(super) fn share(text: &str) -> Option<f32> {
    let percent: f32 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Pixels (`12`, `12px`) or a share (`12%`).
fn length(text: &str) -> Option<Length> {
    if text.ends_with('%') {
        return share(text).map(Length::Share);
    }
    let pixels: u32 = text.strip_suffix("px").unwrap_or(text).parse().ok()?;
    (pixels <= MAX_PIXELS).then_some(Length::Pixels(pixels))
}

/// As [`length`], with a fraction, as editors write it; `whole` rounds it to pixels.
pub(super) fn measure(text: &str, whole: impl Fn(f64) -> f64) -> Option<Length> {
    let text = text.trim();
    if text.ends_with('%') {
        return share(text).map(Length::Share);
    }
    let pixels = decimal(text.strip_suffix("px").unwrap_or(text).trim_end())?;
    (0.0..=f64::from(MAX_PIXELS)).contains(&pixels).then(|| Length::Pixels(whole(pixels) as u32))
}

/// Lengths with white space between them.
pub(super) fn lengths(text: &str) -> Option<Vec<Length>> {
    text.split_ascii_whitespace().map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_measured_on_its_picture() {
        let region = Region::parse("10% 20px 100% 50").expect("a region");
        let size = Size::new(200, 50);
        assert_eq!(region.of(size), Rect { left: 20, top: 20, width: 180, height: 30 });
        assert!(!region.exceeds(size) && !region.is_empty(size));
        assert!(region.exceeds(Size::new(200, 49)));
        assert!(Region::parse("50% 0 50% 9").expect("a region").is_empty(size));
        let far = Region::parse("500 500 600 600").expect("a region");
        assert_eq!(far.of(size), Rect { left: 199, top: 49, width: 1, height: 1 });
    }
}
