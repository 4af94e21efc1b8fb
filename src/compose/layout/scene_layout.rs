//! Scales the natural canvas to the requested output and places the subject on it.

use super::natural_canvas::smallest_containing;
use crate::compose::anchor::{self, AxisAnchor};
use crate::compose::subject_placement::side_within;
use crate::compose::{Framing, Layout, OutputTooLarge, Padding, Resize, Scene};
use crate::image::{Rect, Size};

impl Scene {
    /// Lays out `source`, whose subject lies in `subject`.
    ///
    /// # Errors
    /// [`OutputTooLarge`] when a side would be longer than the scene's limit.
    pub fn layout(&self, source: Size, subject: Rect) -> Result<Layout, OutputTooLarge> {
        let subject = clamped(subject, source);
        let mut anchors = self.axis_anchors();
        loop {
            let layout = self.layout_anchored(source, subject, anchors)?;
            match anchor::relaxed(anchors, &layout) {
                Some(relaxed) => anchors = relaxed,
                None => return Ok(layout),
            }
        }
    }

    /// The layout with these anchors.
    pub(super) fn layout_anchored(
        &self,
        source: Size,
        subject: Rect,
        anchors: [AxisAnchor; 2],
    ) -> Result<Layout, OutputTooLarge> {
        if let Framing::Padded { padding, .. } = self.framing {
            return self.padded(subject.size(), padding, subject, anchors);
        }
        if let Framing::Placed(placement) = self.framing {
            let placement = self.with_room_for_shadow(placement, subject.size());
            let natural = placement.canvas(source, subject.size());
            let (canvas, _) = self.resize_of(source, natural).canvas(natural, natural, self.limit)?;
            return Ok(placement.layout(canvas, natural, subject));
        }
        let natural = self.natural_canvas(source, subject, anchors);
        let resize = self.resize_of(source, natural.size);
        let (canvas, room) = resize.canvas(natural.size, natural.shape, self.limit)?;
        let room = Rect {
            left: anchors[0].start(room.width, (room.left, room.width), canvas.width),
            top: anchors[1].start(room.height, (room.top, room.height), canvas.height),
            ..room
        };
        let (left, width) = scaled(natural.before.0, natural.from.width, natural.size.width, room.width);
        let (top, height) = scaled(natural.before.1, natural.from.height, natural.size.height, room.height);
        let place = Rect { left: room.left + left, top: room.top + top, width, height };
        let scale = if room.size() == natural.size {
            1.0
        } else if natural.size.width >= natural.size.height {
            room.width as f32 / natural.size.width as f32
        } else {
            room.height as f32 / natural.size.height as f32
        };
        Ok(Layout { canvas, from: natural.from, place, scale: self.outline_scale(scale, place, room, anchors) })
    }

    /// The subject centred on a canvas of the aspect, or anchored at its borders: unscaled on the natural canvas,
    /// otherwise fitted into the space inside the padding.
    fn padded(
        &self,
        subject: Size,
        padding: Padding,
        from: Rect,
        anchors: [AxisAnchor; 2],
    ) -> Result<Layout, OutputTooLarge> {
        let shape = self.shape().unwrap_or(Size::new(1, 1));
        let natural = smallest_containing(padding.around(subject, anchors), shape);
        let (canvas, room) = self.resize_of(natural, natural).canvas(natural, shape, self.limit)?;
        let size = if room.size() == natural { subject } else { subject.fitted(padding.within(room.size(), anchors)) };
        // A gap of one pixel is rounding: the subject spans the axis.
        let spanned =
            |anchor: AxisAnchor, side: u32, room: u32| if anchor.is_both() && side + 1 == room { room } else { side };
        let width = spanned(anchors[0], size.width, room.width);
        let height = spanned(anchors[1], size.height, room.height);
        let place = Rect {
            left: anchors[0].start(width, (room.left, room.width), canvas.width),
            top: anchors[1].start(height, (room.top, room.height), canvas.height),
            width,
            height,
        };
        Ok(Layout { canvas, from, place, scale: 1.0 })
    }

    /// The requested size within `max_pixels`. Without a requested side, a portrait is clamped to the longest side of
    /// its picture, because its window may extend far beyond the picture.
    pub(super) fn resize_of(&self, source: Size, natural: Size) -> Resize {
        let mut resize = self.resize;
        if let Some(side) = self.max_pixels.and_then(|most| side_within(natural, most)) {
            resize.max_dim = Some(resize.max_dim.map_or(side, |max| max.min(side)));
        }
        match (self.framing, resize) {
            (Framing::Portrait { .. }, Resize { width: None, height: None, max_dim }) => {
                let most = source.longest();
                Resize { max_dim: Some(max_dim.map_or(most, |max| max.min(most))), ..resize }
            }
            (_, resize) => resize,
        }
    }

    /// `scale`, reduced if rounding left a trimmed outline too little room. Anchored sides have no outline.
    fn outline_scale(&self, scale: f32, place: Rect, room: Rect, anchors: [AxisAnchor; 2]) -> f32 {
        let Some(outline) = self.outline.filter(|_| matches!(self.framing, Framing::Trimmed { .. })) else {
            return scale;
        };
        let (left, top) = (place.left - room.left, place.top - room.top);
        let (right, bottom) = (room.width - left - place.width, room.height - top - place.height);
        let sides =
            [(left, anchors[0].first), (right, anchors[0].last), (top, anchors[1].first), (bottom, anchors[1].last)];
        let least = sides.into_iter().filter(|(_, contact)| *contact == 0).map(|(room, _)| room).min();
        least.map_or(scale, |least| scale.min(least as f32 / outline.width.ceil().max(1.0)))
    }
}

/// `rect` clamped to a picture of `size`, at least one pixel.
fn clamped(rect: Rect, size: Size) -> Rect {
    let axis = |first: u32, length: u32, side: u32| {
        let first = first.min(side.saturating_sub(1));
        (first, length.clamp(1, (side - first).max(1)))
    };
    let (left, width) = axis(rect.left, rect.width, size.width);
    let (top, height) = axis(rect.top, rect.height, size.height);
    Rect { left, top, width, height }
}

/// Start and length of `length` pixels after `before` others, when all `of` pixels are scaled to `to`.
///
/// The uncovered rest keeps its proportions, so that centred pixels stay centred.
fn scaled(before: u32, length: u32, of: u32, to: u32) -> (u32, u32) {
    if of == to {
        return (before, length);
    }
    let (before, length, of, to) = (u64::from(before), u64::from(length), u64::from(of.max(1)), u64::from(to));
    let scaled = ((length * to + of / 2) / of).clamp(1, to);
    let rest = of - length;
    // Rounded half down, like a centred box.
    let start = if rest == 0 { 0 } else { (2 * (to - scaled) * before + rest - 1) / (2 * rest) };
    (start as u32, scaled as u32)
}
