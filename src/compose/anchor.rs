//! Anchoring: places a subject that its picture's border crops against the same border of the canvas.
//!
//! A straight crop edge away from the canvas's border would float on the background, so with [`Anchor::Auto`] that side
//! has no padding. If opposite borders crop the subject, it spans the canvas when the aspect allows it; otherwise it is
//! anchored at the border with the longer contact.

use super::shadow::{self, Extension};
use super::{Anchor, BorderContact, Framing, Layout, Scene, Shadow};
use crate::image::Alpha;
use std::borrow::Cow;

impl Scene {
    /// The scene for `cutout`: with [`Anchor::Auto`], measures the borders that crop the subject.
    #[must_use]
    pub fn anchored(&self, cutout: &impl Alpha) -> Cow<'_, Self> {
        match self.anchor {
            Anchor::Auto => Cow::Owned(Self { anchor: Anchor::At(BorderContact::measured(cutout)), ..self.clone() }),
            Anchor::Center | Anchor::At(_) => Cow::Borrowed(self),
        }
    }

    /// The anchors of the horizontal and the vertical axis.
    pub(super) fn axis_anchors(&self) -> [AxisAnchor; 2] {
        match (self.anchor, self.framing) {
            (Anchor::At(contact), Framing::Padded { .. } | Framing::Expanded | Framing::Trimmed { .. }) => [
                AxisAnchor { first: contact.left, last: contact.right },
                AxisAnchor { first: contact.top, last: contact.bottom },
            ],
            _ => [AxisAnchor::default(); 2],
        }
    }

    /// Pixels by which the coverage of a subject in `layout` is extended beyond the canvas, limited to the reach of its
    /// `shadow`. An anchored subject continues behind the border; without the extension its shadow would end there.
    pub(super) fn shadow_extension(&self, layout: &Layout, shadow: &Shadow) -> Extension {
        let [columns, rows] = self.axis_anchors();
        let Layout { canvas, place, scale, .. } = *layout;
        let reach = shadow::reach_of(shadow, scale);
        let side = |contact: u32, touches: bool, away: f32, side: u32| {
            // At most the canvas's length, which bounds the memory.
            if contact > 0 && touches { (reach - away * scale).clamp(0.0, side as f32).ceil() as u32 } else { 0 }
        };
        let (right, bottom) = (place.left + place.width, place.top + place.height);
        Extension {
            left: side(columns.first, place.left == 0, -shadow.dx, canvas.width),
            right: side(columns.last, right == canvas.width, shadow.dx, canvas.width),
            top: side(rows.first, place.top == 0, -shadow.dy, canvas.height),
            bottom: side(rows.last, bottom == canvas.height, shadow.dy, canvas.height),
        }
    }
}

/// Length of the subject's contact with each of an axis's two borders, in pixels; 0 where it is not anchored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AxisAnchor {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl AxisAnchor {
    /// Number of sides with padding between subject and canvas.
    pub(super) fn free_sides(self) -> u32 {
        u32::from(self.first == 0) + u32::from(self.last == 0)
    }

    pub(super) const fn is_both(self) -> bool {
        self.first > 0 && self.last > 0
    }

    /// Start of `length` pixels on an axis of `side` pixels. Unanchored, they are centred in `room` (start and length).
    pub(super) const fn start(self, length: u32, room: (u32, u32), side: u32) -> u32 {
        match (self.first > 0, self.last > 0) {
            (false, false) => room.0 + (room.1 - length) / 2,
            (true, _) => 0,
            (false, true) => side - length,
        }
    }

    /// The anchor with the longer contact alone.
    const fn longer(self) -> Self {
        if self.last >= self.first { Self { first: 0, ..self } } else { Self { last: 0, ..self } }
    }
}

/// `anchors`, reduced to the longer contact on each axis that is anchored at both sides but not spanned by `layout`;
/// `None` when there is no such axis.
pub(super) fn relaxed(anchors: [AxisAnchor; 2], layout: &Layout) -> Option<[AxisAnchor; 2]> {
    let Layout { canvas, place, .. } = *layout;
    let axis = |anchor: AxisAnchor, length: u32, side: u32| {
        if anchor.is_both() && length < side { anchor.longer() } else { anchor }
    };
    let relaxed = [axis(anchors[0], place.width, canvas.width), axis(anchors[1], place.height, canvas.height)];
    (relaxed != anchors).then_some(relaxed)
}
