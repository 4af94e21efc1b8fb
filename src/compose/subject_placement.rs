//! Explicit scale and position of the subject, on a canvas of the source's size or cropped to the subject.
//!
//! Computed from the sizes of source and subject: rectangles only, no pixels.

use super::Layout;
use crate::image::{Rect, Size};

/// A length in pixels or as a share of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Pixels of the source.
    Pixels(u32),
    /// Share of the side, 0 to 1.
    Share(f32),
}

impl Length {
    /// Zero.
    pub const ZERO: Self = Self::Pixels(0);

    /// The length on a side of `side` pixels, in pixels, rounded.
    #[must_use]
    pub fn of(self, side: u32) -> u32 {
        match self {
            Self::Pixels(pixels) => pixels,
            Self::Share(share) => (f64::from(side) * f64::from(share)).round() as u32,
        }
    }
}

/// Margins around a subject, relative to its own width and height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margins {
    /// Above the subject.
    pub top: Length,
    /// To the right of the subject.
    pub right: Length,
    /// Below the subject.
    pub bottom: Length,
    /// To the left of the subject.
    pub left: Length,
}

impl Margins {
    /// No margin on any side.
    pub const NONE: Self = Self { top: Length::ZERO, right: Length::ZERO, bottom: Length::ZERO, left: Length::ZERO };
}

/// A subject's position and scale on its canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Crops the canvas to the subject's box with these margins; without scale and position, the margins are widened to
    /// contain the drop shadow. `None`: the canvas has the source's size.
    pub crop: Option<Margins>,
    /// Share of the canvas's limiting side that the subject fills; `None` keeps the subject's scale.
    pub scale: Option<f32>,
    /// Free space to the left and above, as shares of all free space on the axis: (0.5, 0.5) is the centre. `None`
    /// keeps the subject's position.
    pub position: Option<(f32, f32)>,
}

impl Placement {
    /// The canvas in pixels of the source.
    pub(super) fn canvas(&self, source: Size, subject: Size) -> Size {
        let Some(Margins { top, right, bottom, left }) = self.crop else { return source };
        let side = |before: Length, side: u32, after: Length| {
            side.saturating_add(before.of(side)).saturating_add(after.of(side))
        };
        Size::new(side(left, subject.width, right), side(top, subject.height, bottom))
    }

    /// The subject's layout on `canvas`, the scaled natural canvas of size `natural`.
    pub(super) fn layout(&self, canvas: Size, natural: Size, subject: Rect) -> Layout {
        let across = |length: u32| scaled(length, canvas.width, natural.width);
        let down = |length: u32| scaled(length, canvas.height, natural.height);
        let size = match self.scale {
            Some(share) => {
                let side = |side: u32| ((f64::from(side) * f64::from(share)).round() as u32).clamp(1, side.max(1));
                subject.size().fitted(Size::new(side(canvas.width), side(canvas.height)))
            }
            None => {
                Size::new(across(subject.width).clamp(1, canvas.width), down(subject.height).clamp(1, canvas.height))
            }
        };
        let room = (canvas.width - size.width, canvas.height - size.height);
        let (left, top) = match (self.position, self.crop) {
            (Some((x, y)), _) => (Length::Share(x).of(room.0), Length::Share(y).of(room.1)),
            (None, Some(margins)) => (across(margins.left.of(subject.width)), down(margins.top.of(subject.height))),
            (None, None) => (across(subject.left), down(subject.top)),
        };
        let place = Rect { left: left.min(room.0), top: top.min(room.1), width: size.width, height: size.height };
        Layout { canvas, from: subject, place, scale: place.width as f32 / subject.width.max(1) as f32 }
    }
}

/// The longest side of a picture with the aspect of `size` and at most `most` pixels; `None` when `size` has no more.
pub(super) fn side_within(size: Size, most: u32) -> Option<u32> {
    if size.area() <= most as usize {
        return None;
    }
    let exact = f64::from(size.longest()) * (f64::from(most) / size.area() as f64).sqrt();
    let side = (exact.floor() as u32).max(1);
    // The other side may have been rounded up. It shrinks by one within as many steps as the sides' ratio.
    let fits = |side: &u32| size.fitted(Size::new(*side, *side)).area() <= most as usize;
    Some((1..=side).rev().find(fits).unwrap_or(1))
}

fn scaled(length: u32, to: u32, of: u32) -> u32 {
    let of = u64::from(of.max(1));
    ((u64::from(length) * u64::from(to) + of / 2) / of) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::{Framing, Scene, Shadow};
    use crate::image::color::Color;

    const SOURCE: Size = Size::new(400, 200);
    const SUBJECT: Rect = Rect { left: 100, top: 40, width: 100, height: 80 };

    fn layout(placement: Placement, max_pixels: Option<u32>) -> Layout {
        let scene = Scene { framing: Framing::Placed(placement), max_pixels, ..Scene::default() };
        scene.layout(SOURCE, SUBJECT).expect("small enough")
    }

    #[test]
    fn the_subject_has_the_given_scale_and_position() {
        let whole = |scale, position| {
            let layout = layout(Placement { crop: None, scale, position }, None);
            assert_eq!((layout.canvas, layout.from), (SOURCE, SUBJECT));
            let Rect { left, top, width, height } = layout.place;
            (left, top, width, height)
        };
        assert_eq!(whole(None, None), (100, 40, 100, 80));
        assert_eq!(whole(None, Some((0.0, 0.0))), (0, 0, 100, 80));
        assert_eq!(whole(None, Some((1.0, 0.5))), (300, 60, 100, 80));
        // The height is the tighter side: 100 % of it.
        assert_eq!(whole(Some(1.0), Some((0.5, 0.5))), (75, 0, 250, 200));
        assert_eq!(whole(Some(0.5), Some((0.5, 0.5))), (138, 50, 125, 100));
        // Its previous position, clamped to the canvas.
        assert_eq!(whole(Some(1.0), None), (100, 0, 250, 200));
    }

    #[test]
    fn a_crop_is_the_subject_with_its_margins() {
        let cropped = |margins, scale: Option<f32>| {
            let position = scale.map(|_| (0.5, 0.5));
            let layout = layout(Placement { crop: Some(margins), scale, position }, None);
            let Rect { left, top, width, height } = layout.place;
            ((layout.canvas.width, layout.canvas.height), (left, top, width, height))
        };
        assert_eq!(cropped(Margins::NONE, None), ((100, 80), (0, 0, 100, 80)));
        let margins = Margins { top: Length::Pixels(10), left: Length::Share(0.5), ..Margins::NONE };
        assert_eq!(cropped(margins, None), ((150, 90), (50, 10, 100, 80)));
        assert_eq!(cropped(margins, Some(0.5)), ((150, 90), (47, 23, 56, 45)));
    }

    #[test]
    fn a_crop_keeps_the_shadow() {
        let shadow = Shadow { color: Color::BLACK, opacity: 0.5, dx: 8.0, dy: -12.0, sigma: 2.0 };
        let cropped = |margins| {
            let framing = Framing::Placed(Placement { crop: Some(margins), scale: None, position: None });
            let scene = Scene { framing, shadow: Some(shadow), ..Scene::default() };
            let layout = scene.layout(SOURCE, SUBJECT).expect("small enough");
            let Rect { left, top, width, height } = layout.place;
            [left, top, layout.canvas.width - left - width, layout.canvas.height - top - height]
        };
        let reach = crate::compose::shadow::reach(2.0) as u32;
        assert!(reach < 8, "{reach}");
        assert_eq!(cropped(Margins::NONE), [0, reach + 12, reach + 8, 0]);
        let margins = Margins { top: Length::Pixels(50), left: Length::Share(0.5), ..Margins::NONE };
        assert_eq!(cropped(margins), [50, 50, reach + 8, 0]);
        let placement = Placement { crop: Some(Margins::NONE), scale: Some(1.0), position: Some((0.5, 0.5)) };
        let scene = Scene { framing: Framing::Placed(placement), shadow: Some(shadow), ..Scene::default() };
        assert_eq!(scene.layout(SOURCE, SUBJECT).expect("small enough").canvas, SUBJECT.size());
    }

    #[test]
    fn max_pixels_scales_a_result_down_and_never_up() {
        let placement = Placement { crop: None, scale: None, position: Some((0.5, 0.5)) };
        for most in [1, 2, 7, 100, 9_999, 20_000, 79_999] {
            let canvas = layout(placement, Some(most)).canvas;
            assert!(canvas.area() <= most as usize, "{canvas} for {most}");
            let whole = Scene { max_pixels: Some(most), ..Scene::default() };
            assert_eq!(whole.layout(SOURCE, SUBJECT).expect("small").canvas, canvas);
        }
        assert_eq!(layout(placement, Some(20_000)).canvas, Size::new(200, 100));
        assert_eq!(layout(placement, Some(80_000)).canvas, SOURCE);
        assert_eq!(layout(placement, Some(u32::MAX)).canvas, SOURCE);
        let scaled = layout(Placement { crop: Some(Margins::NONE), scale: None, position: None }, Some(2_000));
        assert_eq!((scaled.canvas, scaled.place), (Size::new(50, 40), Rect::whole(Size::new(50, 40))));
    }

    #[test]
    fn a_thin_picture_keeps_nearly_all_pixels_that_it_may_have() {
        for most in [2_500, 250_000, 1_500_000] {
            for size in
                (0..100).flat_map(|thin| [Size::new(4000, 4000 / (thin + 1)), Size::new(4096 / (thin + 1), 4096)])
            {
                let Some(side) = side_within(size, most) else { continue };
                let fitted = size.fitted(Size::new(side, side));
                // Rounding the shorter side costs at most half of its pixel.
                let shorter = f64::from(fitted.width.min(fitted.height));
                let share = fitted.area() as f64 / f64::from(most);
                assert!(share <= 1.0 && share > 1.0 - 2.0 / shorter, "{size} as {fitted} for {most}");
            }
        }
    }
}
