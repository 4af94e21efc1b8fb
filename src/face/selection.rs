//! Face selection: rejects unusable faces and picks the main one by size and position.

use crate::image::{Face, Frame, RawMask, Size};

/// Smallest usable shorter side of a face's box, in pixels.
pub const MIN_FACE_SIDE: f32 = 16.0;
/// Weight of a face in the corner of its picture, relative to an equally large face in the centre.
const CORNER_WEIGHT: f32 = 0.5;

/// Whether a face is usable in a picture of `size`: finite, at least [`MIN_FACE_SIDE`], with its centre inside.
#[must_use]
pub fn usable(face: &Face, size: Size) -> bool {
    let Face { left, top, right, bottom, landmarks, .. } = face;
    let is_finite =
        [left, top, right, bottom].into_iter().chain(landmarks.as_flattened()).all(|value| value.is_finite());
    let [x, y] = centre(face);
    let is_inside = (0.0..size.width as f32).contains(&x) && (0.0..size.height as f32).contains(&y);
    is_finite && is_inside && shorter_side(face) >= MIN_FACE_SIDE
}

/// The main face: the largest area, weighted down to `CORNER_WEIGHT` at the corners; the first of equal faces.
#[must_use]
pub fn main_face<'a>(faces: impl IntoIterator<Item = &'a Face>, size: Size) -> Option<&'a Face> {
    let weight = |face: &Face| {
        let [x, y] = centre(face);
        let half = [size.width as f32 / 2.0, size.height as f32 / 2.0];
        let off = (x - half[0]).hypot(y - half[1]) / half[0].hypot(half[1]).max(1.0);
        face.area() * (1.0 - (1.0 - CORNER_WEIGHT) * off.min(1.0))
    };
    let heaviest = |best: Option<(&'a Face, f32)>, face: &'a Face| match (best, weight(face)) {
        (Some((best, most)), weight) if most >= weight => Some((best, most)),
        (_, weight) => Some((face, weight)),
    };
    faces.into_iter().filter(|face| usable(face, size)).fold(None, heaviest).map(|(face, _)| face)
}

/// The face in a picture enlarged by `factor`.
#[must_use]
pub fn enlarged(face: &Face, factor: u32) -> Face {
    let by = factor as f32;
    Face {
        left: face.left * by,
        top: face.top * by,
        right: face.right * by,
        bottom: face.bottom * by,
        landmarks: face.landmarks.map(|point| point.map(|value| value * by)),
        score: face.score,
    }
}

/// Mean of the network's mask over a face's box, 0 to 1, in a picture of `size`.
#[must_use]
pub fn share_of_mask(mask: &RawMask, face: &Face, size: Size) -> f32 {
    let grid = mask.size();
    let across = grid.width as f32 / size.width as f32;
    let down = grid.height as f32 / size.height as f32;
    let cells = Cells::of([face.left * across, face.top * down, face.right * across, face.bottom * down], grid);
    cells.mean(|at| mask.values()[at])
}

/// Mean alpha over a face's box, 0 to 1.
#[must_use]
pub fn share_of_alpha(frame: &Frame, face: &Face) -> f32 {
    let pixels = frame.pixels().as_chunks::<4>().0;
    let cells = Cells::of([face.left, face.top, face.right, face.bottom], frame.size());
    cells.mean(|at| f32::from(pixels[at][3]) / 255.0)
}

/// Mean of a mask or matte of a picture of `size` over a face's box, 0 to 1.
#[must_use]
pub fn share_of_coverage(coverage: &[u8], size: Size, face: &Face) -> f32 {
    let cells = Cells::of([face.left, face.top, face.right, face.bottom], size);
    cells.mean(|at| f32::from(coverage[at]) / 255.0)
}

/// The cells of a grid that a box covers, at least one.
struct Cells {
    columns: std::ops::Range<usize>,
    rows: std::ops::Range<usize>,
    stride: usize,
}

impl Cells {
    fn of([left, top, right, bottom]: [f32; 4], grid: Size) -> Self {
        let axis = |low: f32, high: f32, side: u32| {
            let side = side as usize;
            let first = (low.max(0.0) as usize).min(side.saturating_sub(1));
            first..(high.max(0.0).ceil() as usize).min(side).max(first + 1)
        };
        Self {
            columns: axis(left, right, grid.width),
            rows: axis(top, bottom, grid.height),
            stride: grid.width as usize,
        }
    }

    fn mean(&self, value: impl Fn(usize) -> f32) -> f32 {
        let cells = self.rows.clone().flat_map(|y| self.columns.clone().map(move |x| y * self.stride + x));
        let (sum, count) = cells.fold((0.0_f64, 0_u32), |(sum, count), at| (sum + f64::from(value(at)), count + 1));
        (sum / f64::from(count.max(1))) as f32
    }
}

fn centre(face: &Face) -> [f32; 2] {
    [(face.left + face.right) / 2.0, (face.top + face.bottom) / 2.0]
}

pub(super) fn shorter_side(face: &Face) -> f32 {
    (face.right - face.left).min(face.bottom - face.top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::align::tests::face;
    use crate::image::tests::drawn;

    const SIZE: Size = Size::new(1000, 800);

    fn box_at(x: f32, y: f32, side: f32) -> Face {
        let half = side / 2.0;
        Face { left: x - half, top: y - half, right: x + half, bottom: y + half, ..face(x, y, 1.0) }
    }

    #[test]
    fn the_main_face_is_the_largest_unless_a_similar_one_is_more_central() {
        let (centre, corner) = (box_at(500.0, 400.0, 100.0), box_at(60.0, 60.0, 130.0));
        assert_eq!(main_face([&corner, &centre], SIZE), Some(&centre));
        let huge = box_at(100.0, 100.0, 150.0);
        assert_eq!(main_face([&centre, &huge], SIZE), Some(&huge), "more than twice the area wins from anywhere");
        let twin = box_at(500.0, 400.0, 100.0);
        assert!(std::ptr::eq(main_face([&twin, &centre], SIZE).unwrap(), &twin), "the first of two alike");
        assert_eq!(main_face([], SIZE), None);
    }

    #[test]
    fn tiny_outside_and_non_finite_faces_are_unusable() {
        assert!(usable(&box_at(500.0, 400.0, 16.0), SIZE));
        assert!(!usable(&box_at(500.0, 400.0, 15.9), SIZE));
        assert!(usable(&box_at(0.0, 0.0, 100.0), SIZE), "half of it is in the picture");
        for (x, y) in [(-1.0, 400.0), (1001.0, 400.0), (500.0, -1.0), (500.0, 801.0)] {
            assert!(!usable(&box_at(x, y, 100.0), SIZE), "{x},{y}");
        }
        let mut broken = box_at(500.0, 400.0, 100.0);
        broken.landmarks[2][0] = f32::NAN;
        assert!(!usable(&broken, SIZE));
        assert!(!usable(&Face { left: f32::NEG_INFINITY, ..box_at(500.0, 400.0, 100.0) }, SIZE));
        assert!(!usable(&Face { left: 600.0, right: 400.0, ..box_at(500.0, 400.0, 100.0) }, SIZE), "inside out");
    }

    #[test]
    fn the_share_of_a_box_is_its_mean() {
        let size = Size::new(100, 100);
        let values = (0..100).map(|at| if at % 10 < 5 { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
        let half = RawMask::new(Size::new(10, 10), values).expect("probabilities");
        assert_eq!(share_of_mask(&half, &box_at(50.0, 50.0, 40.0), size), 0.5);
        assert_eq!(share_of_mask(&half, &box_at(20.0, 50.0, 40.0), size), 1.0);
        assert_eq!(share_of_mask(&half, &box_at(-500.0, 50.0, 40.0), size), 1.0, "the nearest cell");
        let clear = drawn(100, 100, |x, _| [0, 0, 0, if x < 50 { 0 } else { 255 }]);
        assert_eq!(share_of_alpha(&clear, &box_at(50.0, 50.0, 40.0)), 0.5);
        assert_eq!(share_of_alpha(&clear, &box_at(80.0, 50.0, 40.0)), 1.0);
    }

    #[test]
    fn an_enlarged_face_keeps_its_proportions() {
        let large = enlarged(&face(10.0, 20.0, 2.0), 4);
        let expected = face(40.0, 80.0, 0.5);
        let off = |a: f32, b: f32| (a - b).abs() < 1e-3;
        assert!(off(large.left, expected.left) && off(large.bottom, expected.bottom));
        assert!(large.landmarks.as_flattened().iter().zip(expected.landmarks.as_flattened()).all(|(a, b)| off(*a, *b)));
    }
}
