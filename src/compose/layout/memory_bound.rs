//! Upper bounds, over all subjects, of the canvas and of the memory that compositing needs.

use crate::compose::anchor::AxisAnchor;
use crate::compose::resample::{most_strip_pixels, part};
use crate::compose::{
    Anchor, Background, CanvasLimit, Fit, Framing, Layout, Plate, Scene, Shadow, ground_shadow, shadow,
};
use crate::image::{Rect, Size};

impl Scene {
    /// Upper bound, over all subjects, of the memory that [`flatten`](crate::compose::flatten) needs in addition to the
    /// source, in pixels of four bytes.
    #[must_use]
    pub fn most_pixels(&self, source: Size) -> usize {
        let canvas = self.largest_canvas(source);
        // Bytes per pixel: one for the coverage, one for the dilated coverage, four for the distances.
        let outline = if self.outline.is_some() { canvas + canvas / 2 } else { 0 };
        let shadow = self.shadow.map_or(0, |shadow| {
            // The scale is known for padded canvases only.
            let sigma = if matches!(self.framing, Framing::Padded { .. }) { shadow.sigma } else { 0.0 };
            (canvas + self.max_extension_pixels(&shadow, canvas)) / shadow::reduction(sigma).pow(2)
        });
        let plate = match self.background {
            Background::Blurred { intensity, .. } => Plate::most_pixels(source, intensity),
            Background::Clear | Background::Color(_) | Background::Picture { .. } | Background::EdgeColor => 0,
        };
        // A mark at its final size: a fifth of the width, and at most all of the height.
        let mark = if self.watermark.is_some() { canvas / 4 } else { 0 };
        let ground_shadow = if self.grounding.is_some() { ground_shadow::MAX_PIXELS } else { 0 };
        outline + shadow + ground_shadow + plate + mark + if self.keeps_canvas(source) { 0 } else { canvas }
    }

    /// Whether the layout of a picture of size `source` is the picture as it is.
    pub(in crate::compose) fn keeps_canvas(&self, source: Size) -> bool {
        self.framing == Framing::Whole
            && self.max_pixels.is_none()
            && self.resize.layout_within(source, self.limit) == Ok(Layout::unchanged(source))
    }

    /// Upper bound on the memory that [`flatten`](crate::compose::flatten) needs to stretch a `background` of this size
    /// behind `source`, in pixels of four bytes. Other fits reduce both sides alike and need small strips.
    #[must_use]
    pub fn most_background_pixels(&self, source: Size, background: Size) -> usize {
        let Background::Picture { fit: Fit::Stretch, .. } = self.background else { return 0 };
        // Backgrounds are stretched behind whole pictures, whose canvas is independent of the subject.
        let layout = self.layout(source, Rect::whole(source));
        layout.map_or(0, |layout| most_strip_pixels(background, part(Rect::whole(background)), layout.canvas))
    }

    /// Upper bound on the pixels by which a cropped subject's coverage is extended beyond `canvas` pixels for a shadow.
    fn max_extension_pixels(&self, shadow: &Shadow, canvas: usize) -> usize {
        if self.anchor == Anchor::Center {
            return 0;
        }
        let away = [shadow.dx.abs(), shadow.dy.abs()].into_iter().fold(0.0, f32::max);
        // The scale is known for padded canvases only; others may be enlarged to the longest side.
        let CanvasLimit(max_side) = self.limit;
        let scale = if matches!(self.framing, Framing::Padded { .. }) { 1.0 } else { max_side as f32 };
        let side = self.resize.max_dim.unwrap_or(max_side).min(max_side) as usize;
        let reach = ((shadow::reach_of(shadow, 1.0) + away) * scale).min(side as f32) as usize;
        // A border of this width on all sides; a side is extended by at most its length.
        (4 * reach * (side + reach)).min(8 * canvas)
    }

    /// Pixels of the largest canvas over all subjects.
    pub(super) fn largest_canvas(&self, source: Size) -> usize {
        let CanvasLimit(max_side) = self.limit;
        let limit = max_side.min(self.resize.max_dim.unwrap_or(max_side)) as usize;
        let source = match self.framing {
            // The largest crop has its subject at one border, with padding up to the other border on both sides.
            Framing::Cropped { aspect: Some(_), padding } => {
                let side = |side: u32| side + padding.min(side.saturating_sub(1));
                Size::new(side(source.width), side(source.height))
            }
            Framing::Whole
            | Framing::Padded { .. }
            | Framing::Cropped { aspect: None, .. }
            | Framing::Expanded
            | Framing::Trimmed { .. }
            | Framing::Placed(_)
            | Framing::Portrait { .. } => source,
        };
        // Other natural canvases grow with their subject: the largest has a subject that fills the picture, with
        // padding on every side (an anchored side has none).
        let (all, unanchored) = (Rect::whole(source), [AxisAnchor::default(); 2]);
        let has_free_aspect = match self.framing {
            Framing::Whole
            | Framing::Padded { .. }
            | Framing::Portrait { .. }
            | Framing::Cropped { aspect: Some(_), .. } => false,
            Framing::Cropped { aspect: None, .. }
            | Framing::Expanded
            | Framing::Trimmed { .. }
            | Framing::Placed(_) => true,
        };
        let most = match (self.resize.width, self.resize.height) {
            // The subject's aspect is unbounded, hence also the side that follows from it.
            (Some(side), None) | (None, Some(side)) if has_free_aspect => side as usize * max_side as usize,
            (None, None) if has_free_aspect => self.natural_canvas(source, all, unanchored).size.area(),
            (None, None) if matches!(self.framing, Framing::Portrait { .. }) => {
                let side = self.resize_of(source, source).max_dim.unwrap_or(max_side);
                self.shape().unwrap_or(Size::new(1, 1)).fitted(Size::new(side, side)).area()
            }
            _ => self.layout_anchored(source, all, unanchored).map_or(limit * limit, |layout| layout.canvas.area()),
        };
        most.min(limit * limit)
    }
}
