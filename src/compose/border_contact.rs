//! Measures, on the cutout's alpha, the borders of the picture that crop the subject.

use super::SUBJECT_ALPHA;
use crate::image::{Alpha, Size};

/// Coverage, of 255, from which a border pixel counts; the soft edge of a matte is below it.
const MIN_ALPHA: u8 = 128;
/// Shortest contact that counts as a crop: as a share of the subject's longer side, and in pixels. A strand of hair or
/// the rounding of a matte is shorter, a cable is longer.
const MIN_CONTACT_SHARE: f32 = 0.01;
const MIN_CONTACT_PX: u32 = 3;

/// Placement of a subject that its picture's border crops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// Centred, with padding on all sides, as an uncropped subject.
    #[default]
    Center,
    /// Each cropped side, measured by [`Scene::anchored`](super::Scene::anchored), against that border of the canvas.
    Auto,
    /// `Auto` with the measured contact.
    At(BorderContact),
}

/// Length of the contact between the subject and each border of its picture, in pixels; 0 without a crop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorderContact {
    /// With the left border.
    pub left: u32,
    /// With the upper border.
    pub top: u32,
    /// With the right border.
    pub right: u32,
    /// With the lower border.
    pub bottom: u32,
}

impl BorderContact {
    /// Measures the contact of `cutout`'s coverage.
    #[must_use]
    pub fn measured(cutout: &impl Alpha) -> Self {
        let Size { width, height } = cutout.size();
        let Some(subject) = cutout.covered(SUBJECT_ALPHA) else { return Self::default() };
        let least = ((MIN_CONTACT_SHARE * subject.size().longest() as f32).ceil() as u32).max(MIN_CONTACT_PX);
        let solid = |x: u32, y: u32| cutout.alpha(x, y) >= MIN_ALPHA;
        let significant = |pixels: usize| if pixels as u32 >= least { pixels as u32 } else { 0 };
        let column = |x: u32| significant((0..height).filter(|&y| solid(x, y)).count());
        let row = |y: u32| significant((0..width).filter(|&x| solid(x, y)).count());
        Self { left: column(0), top: row(0), right: column(width - 1), bottom: row(height - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Frame;
    use crate::image::tests::drawn;

    fn cutout(size: Size, alpha: impl Fn(u32, u32) -> u8) -> Frame {
        drawn(size.width, size.height, |x, y| [9, 9, 9, alpha(x, y)])
    }

    #[test]
    fn a_border_crops_the_subject_where_the_contact_is_long_enough() {
        let size = Size::new(300, 400);
        let solid = |inside: bool| if inside { 255 } else { 0 };
        let none = BorderContact::default();
        let measured = |alpha: &dyn Fn(u32, u32) -> u8| BorderContact::measured(&cutout(size, alpha));
        let block = |x: u32, y: u32| (100..200).contains(&x) && (150..300).contains(&y);
        assert_eq!(measured(&|x, y| solid(block(x, y))), none, "free on all sides");
        assert_eq!(measured(&|_, _| 0), none, "nothing at all");
        // Half a person.
        assert_eq!(measured(&|x, y| solid((80..220).contains(&x) && y >= 90)), BorderContact { bottom: 140, ..none });
        // A lamp of 150 rows on a cable of three columns.
        let cable = |x: u32, y: u32| block(x, y) || (x.abs_diff(150) < 2 && y < 200);
        assert_eq!(measured(&|x, y| solid(cable(x, y))), BorderContact { top: 3, ..none });
        // A strand of hair of two columns.
        let strand = |x: u32, y: u32| block(x, y) || ((150..152).contains(&x) && y < 200);
        assert_eq!(measured(&|x, y| solid(strand(x, y))), none);
        // The cable's three columns are less than a hundredth of a subject of 400 rows.
        let tall = |x: u32, y: u32| ((100..200).contains(&x) && y > 0 && y < 399) || (x.abs_diff(150) < 2 && y == 0);
        assert_eq!(measured(&|x, y| solid(tall(x, y))), none);
        // A soft edge next to the border does not touch it.
        assert_eq!(measured(&|x, y| if block(x, y) { 255 } else { u8::from(x == 0) * 127 }), none);
        // A corner.
        let corner = measured(&|x, y| solid(x < 120 && y >= 250));
        assert_eq!(corner, BorderContact { left: 150, bottom: 120, ..none });
        assert_eq!(measured(&|_, _| 200), BorderContact { left: 400, top: 300, right: 400, bottom: 300 });
    }
}
