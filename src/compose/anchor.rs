//! Borders of a picture that cut its subject off, measured on the cutout, and where such a subject lies on its canvas.
//!
//! A border cuts the subject off when the subject's coverage touches it along a significant length. With [`Anchor::Auto`]
//! that side of the subject lies against the same border of the canvas, without room between the two: a cut edge before a
//! background would else be a straight edge in the air. Where opposite borders cut, both are touched if the canvas allows
//! it, else the one with the longer contact.

use super::shadow::{self, Beyond};
use super::{Framing, Layout, SUBJECT_ALPHA, Scene, Shadow};
use crate::image::{Frame, Size};
use std::borrow::Cow;

/// Coverage, of 255, from which a pixel of the border counts: below it lies a matte's soft edge.
const SOLID: u8 = 128;
/// The contact that cuts a subject off, at least: as a share of the subject's longer side, and in pixels. Shorter ones are
/// a strand of hair or the rounding of a matte; a cable is longer.
const LEAST_SHARE: f32 = 0.01;
const LEAST_PIXELS: u32 = 3;

/// Where a subject lies that the picture's border cuts off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// In the middle, with room on all sides, as every other subject.
    #[default]
    Center,
    /// With each cut side against the same border of the canvas. [`Scene::anchored`] measures which sides those are.
    Auto,
    /// The same, measured.
    At(Contact),
}

/// Length of the contact between the subject and each border of its picture, in pixels; 0 where it does not cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// With the left border.
    pub left: u32,
    /// With the upper border.
    pub top: u32,
    /// With the right border.
    pub right: u32,
    /// With the lower border.
    pub bottom: u32,
}

impl Contact {
    /// The contact of what `cutout` covers.
    #[must_use]
    pub fn measured(cutout: &Frame) -> Self {
        let Size { width, height } = cutout.size();
        let Some(subject) = cutout.covered(SUBJECT_ALPHA) else { return Self::default() };
        let least = ((LEAST_SHARE * subject.size().longest() as f32).ceil() as u32).max(LEAST_PIXELS);
        let solid = |x: u32, y: u32| cutout.pixel(x, y)[3] >= SOLID;
        let significant = |pixels: usize| if pixels as u32 >= least { pixels as u32 } else { 0 };
        let column = |x: u32| significant((0..height).filter(|&y| solid(x, y)).count());
        let row = |y: u32| significant((0..width).filter(|&x| solid(x, y)).count());
        Self { left: column(0), top: row(0), right: column(width - 1), bottom: row(height - 1) }
    }
}

impl Scene {
    /// The scene for `cutout`: with [`Anchor::Auto`] the borders that cut its subject off are measured.
    #[must_use]
    pub fn anchored(&self, cutout: &Frame) -> Cow<'_, Self> {
        match self.anchor {
            Anchor::Auto => Cow::Owned(Self { anchor: Anchor::At(Contact::measured(cutout)), ..self.clone() }),
            Anchor::Center | Anchor::At(_) => Cow::Borrowed(self),
        }
    }

    /// How the columns and the rows of the canvas are held.
    pub(super) fn holds(&self) -> [Hold; 2] {
        match (self.anchor, self.framing) {
            (Anchor::At(contact), Framing::Padded { .. } | Framing::Grown | Framing::Trimmed { .. }) => {
                [Hold { first: contact.left, last: contact.right }, Hold { first: contact.top, last: contact.bottom }]
            }
            _ => [Hold::default(); 2],
        }
    }

    /// How far the coverage of a subject in `layout` goes on beyond the canvas, as far as `shadow` can be seen of it: a
    /// subject that lies against the border is taken to go on behind it, else its shadow would end there, too.
    pub(super) fn beyond(&self, layout: &Layout, shadow: &Shadow) -> Beyond {
        let [columns, rows] = self.holds();
        let Layout { canvas, place, scale, .. } = *layout;
        let reach = shadow::reach_of(shadow, scale);
        let side = |contact: u32, touches: bool, away: f32, side: u32| {
            // Farther than the canvas is long nothing is continued, which bounds the memory.
            if contact > 0 && touches { (reach - away * scale).clamp(0.0, side as f32).ceil() as u32 } else { 0 }
        };
        let (right, bottom) = (place.left + place.width, place.top + place.height);
        Beyond {
            left: side(columns.first, place.left == 0, -shadow.dx, canvas.width),
            right: side(columns.last, right == canvas.width, shadow.dx, canvas.width),
            top: side(rows.first, place.top == 0, -shadow.dy, canvas.height),
            bottom: side(rows.last, bottom == canvas.height, shadow.dy, canvas.height),
        }
    }
}

/// The borders of the canvas that an axis of the subject lies against, by their contact; 0 where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Hold {
    /// Sides that have room between subject and canvas.
    pub(super) fn free_sides(self) -> u32 {
        u32::from(self.first == 0) + u32::from(self.last == 0)
    }

    /// Whether the subject spans the axis.
    pub(super) const fn is_both(self) -> bool {
        self.first > 0 && self.last > 0
    }

    /// Where `length` pixels begin on an axis of `side` pixels; what is not held lies in the middle of `room` (start and
    /// length).
    pub(super) const fn start(self, length: u32, room: (u32, u32), side: u32) -> u32 {
        match (self.first > 0, self.last > 0) {
            (false, false) => room.0 + (room.1 - length) / 2,
            (true, _) => 0,
            (false, true) => side - length,
        }
    }

    /// The longer contact alone.
    const fn longer(self) -> Self {
        if self.last >= self.first { Self { first: 0, ..self } } else { Self { last: 0, ..self } }
    }
}

/// `holds` with the longer contact alone on each axis that `layout` does not span, though it is held on both sides; nothing
/// when there is no such axis.
pub(super) fn loosened(holds: [Hold; 2], layout: &Layout) -> Option<[Hold; 2]> {
    let Layout { canvas, place, .. } = *layout;
    let axis = |hold: Hold, length: u32, side: u32| if hold.is_both() && length < side { hold.longer() } else { hold };
    let looser = [axis(holds[0], place.width, canvas.width), axis(holds[1], place.height, canvas.height)];
    (looser != holds).then_some(looser)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Buffer;

    fn cutout(size: Size, alpha: impl Fn(u32, u32) -> u8) -> Frame {
        let alpha = &alpha;
        let bytes = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| [9, 9, 9, alpha(x, y)]));
        Frame::new(size, Buffer::from(bytes.collect::<Vec<u8>>()))
    }

    #[test]
    fn a_border_cuts_where_the_matte_touches_it_along_a_significant_length() {
        let size = Size::new(300, 400);
        let solid = |inside: bool| if inside { 255 } else { 0 };
        let none = Contact::default();
        let measured = |alpha: &dyn Fn(u32, u32) -> u8| Contact::measured(&cutout(size, alpha));
        let block = |x: u32, y: u32| (100..200).contains(&x) && (150..300).contains(&y);
        assert_eq!(measured(&|x, y| solid(block(x, y))), none, "free on all sides");
        assert_eq!(measured(&|_, _| 0), none, "nothing at all");
        // Half a person.
        assert_eq!(measured(&|x, y| solid((80..220).contains(&x) && y >= 90)), Contact { bottom: 140, ..none });
        // A lamp of 150 rows on a cable of three columns.
        let cable = |x: u32, y: u32| block(x, y) || (x.abs_diff(150) < 2 && y < 200);
        assert_eq!(measured(&|x, y| solid(cable(x, y))), Contact { top: 3, ..none });
        // A strand of hair of two.
        let strand = |x: u32, y: u32| block(x, y) || ((150..152).contains(&x) && y < 200);
        assert_eq!(measured(&|x, y| solid(strand(x, y))), none);
        // The same cable on a subject of 400 rows is less than a hundredth of it.
        let tall = |x: u32, y: u32| ((100..200).contains(&x) && y > 0 && y < 399) || (x.abs_diff(150) < 2 && y == 0);
        assert_eq!(measured(&|x, y| solid(tall(x, y))), none);
        // A soft edge beside the border does not touch it.
        assert_eq!(measured(&|x, y| if block(x, y) { 255 } else { u8::from(x == 0) * 127 }), none);
        // A corner.
        let corner = measured(&|x, y| solid(x < 120 && y >= 250));
        assert_eq!(corner, Contact { left: 150, bottom: 120, ..none });
        assert_eq!(measured(&|_, _| 200), Contact { left: 400, top: 300, right: 400, bottom: 300 });
    }

    #[test]
    fn only_auto_is_measured() {
        let bust = cutout(Size::new(30, 40), |_, y| if y > 10 { 255 } else { 0 });
        let anchored = |anchor| Scene { anchor, ..Scene::default() }.anchored(&bust).anchor;
        assert_eq!(anchored(Anchor::Center), Anchor::Center);
        let contact = Contact { left: 29, top: 0, right: 29, bottom: 30 };
        assert_eq!(anchored(Anchor::Auto), Anchor::At(contact));
        assert_eq!(anchored(Anchor::At(Contact::default())), Anchor::At(Contact::default()));
    }
}
