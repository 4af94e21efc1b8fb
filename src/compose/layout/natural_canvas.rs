//! Computes the natural canvas of each framing, in pixels of the source.

use crate::compose::anchor::AxisAnchor;
use crate::compose::head_framing::{self, Window};
use crate::compose::{Aspect, Framing, Length, Margins, Padding, Placement, Scene, Shadow, shadow};
use crate::image::{Rect, Size};

/// A canvas in pixels of the source, before it is resized.
pub(super) struct NaturalCanvas {
    pub(super) size: Size,
    /// Exact aspect.
    pub(super) shape: Size,
    pub(super) from: Rect,
    /// Columns of the canvas to the left of that part, and rows above it.
    pub(super) before: (u32, u32),
}

impl Scene {
    pub(super) fn natural_canvas(&self, source: Size, subject: Rect, anchors: [AxisAnchor; 2]) -> NaturalCanvas {
        match self.framing {
            Framing::Whole | Framing::Padded { .. } => whole(source),
            Framing::Placed(placement) => {
                let size = self.with_room_for_shadow(placement, subject.size()).canvas(source, subject.size());
                NaturalCanvas { size, shape: size, from: subject, before: (0, 0) }
            }
            Framing::Cropped { padding, .. } => cropped(source, subject, padding, self.shape()),
            Framing::Expanded => match &self.shadow {
                Some(shadow) => expanded_for_shadow(source, subject, shadow, anchors),
                None => whole(source),
            },
            Framing::Trimmed { padding } => {
                let width = self.outline.map_or(0.0, |outline| outline.width.min(shadow::MAX_LENGTH));
                let room = (width.ceil() as u32).saturating_add(padding);
                let size = Padding::Pixels(room).around(subject.size(), anchors);
                let [left, top] = anchors.map(|anchor| if anchor.first > 0 { 0 } else { room });
                NaturalCanvas { size, shape: size, from: subject, before: (left, top) }
            }
            Framing::Portrait { head, .. } => {
                let shape = self.shape().unwrap_or(Size::new(1, 1));
                let Window { size, from, before } = head_framing::window(&head, shape, source);
                NaturalCanvas { size, shape, from, before }
            }
        }
    }

    /// `placement` with the margins of its crop widened to contain the subject's shadow. Unchanged if scale or position
    /// place the subject on a canvas of the given margins.
    pub(super) fn with_room_for_shadow(&self, placement: Placement, subject: Size) -> Placement {
        let Placement { crop: Some(margins), scale: None, position: None } = placement else { return placement };
        let Some(shadow) = &self.shadow else { return placement };
        let room = expanded_for_shadow(subject, Rect::whole(subject), shadow, [AxisAnchor::default(); 2]);
        let (left, top) = room.before;
        let least = |margin: Length, side: u32, room: u32| Length::Pixels(margin.of(side).max(room));
        let crop = Margins {
            top: least(margins.top, subject.height, top),
            right: least(margins.right, subject.width, room.size.width - subject.width - left),
            bottom: least(margins.bottom, subject.height, room.size.height - subject.height - top),
            left: least(margins.left, subject.width, left),
        };
        Placement { crop: Some(crop), ..placement }
    }

    /// The canvas's aspect, given explicitly or by an exact box.
    pub(super) fn shape(&self) -> Option<Size> {
        let given = match self.framing {
            Framing::Padded { aspect, .. } | Framing::Cropped { aspect, .. } | Framing::Portrait { aspect, .. } => {
                aspect
            }
            Framing::Whole | Framing::Expanded | Framing::Trimmed { .. } | Framing::Placed(_) => None,
        };
        let boxed = || Aspect::new(self.resize.width?, self.resize.height?);
        given.or_else(boxed).map(|aspect| Size::new(aspect.width(), aspect.height()))
    }
}

/// The smallest size of the aspect of `shape` that contains `least`.
pub(super) fn smallest_containing(least: Size, shape: Size) -> Size {
    let wide = u64::from(least.width) * u64::from(shape.height) >= u64::from(least.height) * u64::from(shape.width);
    // The exact side is at least the whole number `least`, hence its rounded value too.
    if wide {
        Size::new(least.width, shape.height_at(least.width))
    } else {
        Size::new(shape.width_at(least.height), least.height)
    }
}

const fn whole(source: Size) -> NaturalCanvas {
    NaturalCanvas { size: source, shape: source, from: Rect::whole(source), before: (0, 0) }
}

/// The part of the source around the subject, with the padding clamped to the source.
///
/// With an aspect it is the smallest such window with the subject centred, with the padding of the side with more room;
/// the window may extend beyond the source.
fn cropped(source: Size, subject: Rect, padding: u32, shape: Option<Size>) -> NaturalCanvas {
    let room = |first: u32, length: u32, side: u32| (padding.min(first), padding.min(side - first - length));
    let (left, right) = room(subject.left, subject.width, source.width);
    let (above, below) = room(subject.top, subject.height, source.height);
    let Some(shape) = shape else {
        let (width, height) = (left + subject.width + right, above + subject.height + below);
        let from = Rect { left: subject.left - left, top: subject.top - above, width, height };
        return NaturalCanvas { size: from.size(), shape: from.size(), from, before: (0, 0) };
    };
    let least = Size::new(subject.width + 2 * left.max(right), subject.height + 2 * above.max(below));
    let size = smallest_containing(least, shape);
    let window = |first: u32, length: u32, side: u32, crop: u32| {
        let start = (2 * i64::from(first) + i64::from(length) - i64::from(crop)).div_euclid(2);
        head_framing::clipped(start, crop, side)
    };
    let (columns, before) = window(subject.left, subject.width, source.width, size.width);
    let (rows, before_rows) = window(subject.top, subject.height, source.height, size.height);
    let from = Rect { left: columns.0, top: rows.0, width: columns.1, height: rows.1 };
    NaturalCanvas { size, shape, from, before: (before, before_rows) }
}

/// The picture expanded by its subject's shadow; an anchored side keeps the picture's border.
fn expanded_for_shadow(source: Size, subject: Rect, shadow: &Shadow, anchors: [AxisAnchor; 2]) -> NaturalCanvas {
    let reach = shadow::reach(shadow.sigma.clamp(0.0, shadow::MAX_LENGTH)) as i64;
    // Pixels added before the picture, and the length of the expanded side.
    let side = |first: u32, length: u32, side: u32, offset: f32, anchor: AxisAnchor| {
        let offset = shadow::finite(offset);
        let low = i64::from(first) + offset.floor() as i64 - reach;
        let high = i64::from(first + length) + offset.ceil() as i64 + reach;
        let before = if anchor.first > 0 { 0 } else { (-low).max(0) };
        let end = if anchor.last > 0 { i64::from(side) } else { high.max(i64::from(side)) };
        (before as u32, (before + end) as u32)
    };
    let (left, width) = side(subject.left, subject.width, source.width, shadow.dx, anchors[0]);
    let (top, height) = side(subject.top, subject.height, source.height, shadow.dy, anchors[1]);
    let size = Size::new(width, height);
    NaturalCanvas { size, shape: size, from: Rect::whole(source), before: (left, top) }
}
