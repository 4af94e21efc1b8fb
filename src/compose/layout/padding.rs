//! Padding around a subject: the canvas size that it requires, and the space inside it.

use crate::compose::Padding;
use crate::compose::anchor::AxisAnchor;
use crate::image::Size;

impl Padding {
    /// The smallest canvas with this padding on the unanchored sides of a subject of `size`.
    pub(super) fn around(self, size: Size, anchors: [AxisAnchor; 2]) -> Size {
        let side = |side: u32, anchor: AxisAnchor| match self {
            Self::Pixels(pixels) => side.saturating_add(pixels.saturating_mul(anchor.free_sides())),
            // A share is inexact in binary: 500.000002 columns are 500.
            Self::Share(share) => {
                let remaining = 1.0 - f64::from(anchor.free_sides()) * f64::from(share);
                ((f64::from(side) / remaining - 1e-3).ceil() as u32).max(side)
            }
        };
        Size::new(side(size.width, anchors[0]), side(size.height, anchors[1]))
    }

    /// The part of `room` inside this padding, at least one pixel.
    pub(super) fn within(self, room: Size, anchors: [AxisAnchor; 2]) -> Size {
        let side = |side: u32, anchor: AxisAnchor| match self {
            Self::Pixels(pixels) => side.saturating_sub(pixels.saturating_mul(anchor.free_sides())).max(1),
            Self::Share(share) => {
                let remaining = 1.0 - f64::from(anchor.free_sides()) * f64::from(share);
                ((f64::from(side) * remaining + 1e-3).floor() as u32).clamp(1, side.max(1))
            }
        };
        Size::new(side(room.width, anchors[0]), side(room.height, anchors[1]))
    }
}
