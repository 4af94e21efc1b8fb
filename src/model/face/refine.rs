//! The second look. In the small copy of a picture a face may be a dozen pixels wide: enough to suspect one, too little to
//! be sure of it or to place its eyes. Each suspect is therefore cut out with its surroundings and shown again, larger.

use super::decode::{distinct, overlap};
use super::{Eye, look};
use crate::image::{Buffer, Face, Frame, Size};
use crate::model::SegmentError;

/// The score from which a face is looked at again. Below it, in the small copy, are next to no faces.
pub(super) const SUSPECT: f32 = 0.35;

/// Faces that are looked at again at most, the surest.
const SUSPECTS: usize = 8;

/// Side of what is cut out, in the face's longer side.
const AROUND: f32 = 2.0;

/// Side at which it is shown.
const SIDE: u32 = 160;

/// The score from which something in the second look is compared with the suspect.
const SEEN: f32 = 0.1;

/// A face in the second look is the suspected one when they overlap by so much.
const SAME: f32 = 0.3;

/// Of `suspects`, the surest first, those that the second look finds again and is sure of, as it sees them.
pub(super) fn look_again(frame: &Frame, eye: &dyn Eye, suspects: &[Face]) -> Result<Vec<Face>, SegmentError> {
    let mut sure = Vec::new();
    for suspect in suspects.iter().take(SUSPECTS) {
        let Some(window) = Window::around(suspect) else { continue };
        let seen = look(&window.copied(frame), eye, SIDE, SEEN)?;
        let seen = seen.into_iter().map(|face| window.back(&face)).map(|face| (overlap(suspect, &face), face));
        let same = seen.filter(|(overlap, _)| *overlap >= SAME);
        let best = same.max_by(|(one, face), (two, other)| (one * face.score).total_cmp(&(two * other.score)));
        sure.extend(best.map(|(_, face)| face).filter(|face| face.score >= eye.threshold()));
    }
    Ok(distinct(sure))
}

/// A square of a picture, which may reach beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    left: i64,
    top: i64,
    /// Pixels of the picture, on a side, that become one. Close to what the network is shown, so that a face that fills
    /// a large picture does not cost a second one; and never fewer pixels than that.
    block: u32,
    /// Blocks on a side.
    side: u32,
}

impl Window {
    /// Nothing where the box has no sensible extent.
    fn around(face: &Face) -> Option<Self> {
        let longer = (face.right - face.left).max(face.bottom - face.top) * AROUND;
        let centre = [(face.left + face.right) / 2.0, (face.top + face.bottom) / 2.0];
        let sound = (1.0..1e6).contains(&longer) && centre.into_iter().all(|at| at.abs() < 1e6);
        sound.then(|| {
            let block = (longer / (2 * SIDE) as f32).max(1.0) as u32;
            let side = (longer / block as f32).ceil() as u32;
            let [left, top] = centre.map(|at| (at - (side * block) as f32 / 2.0).round() as i64);
            Self { left, top, block, side }
        })
    }

    /// The square as a picture; transparent, which is shown as grey, where there is nothing.
    fn copied(&self, frame: &Frame) -> Frame {
        let Size { width, height } = frame.size();
        let range = |first: i64, index: u32, end: u32| {
            let from = first + i64::from(index * self.block);
            from.clamp(0, i64::from(end)) as u32..(from + i64::from(self.block)).clamp(0, i64::from(end)) as u32
        };
        let mut pixels = Vec::with_capacity(self.side as usize * self.side as usize * 4);
        for (row, column) in (0..self.side).flat_map(|row| (0..self.side).map(move |column| (row, column))) {
            let mut sums = [0_u64; 4];
            for y in range(self.top, row, height) {
                for x in range(self.left, column, width) {
                    let [red, green, blue, alpha] = frame.pixel(x, y).map(u64::from);
                    for (sum, value) in sums.iter_mut().zip([red * alpha, green * alpha, blue * alpha, alpha]) {
                        *sum += value;
                    }
                }
            }
            let [red, green, blue, alpha] = sums;
            let mean = |sum: u64| ((sum + alpha / 2) / alpha.max(1)) as u8;
            let coverage = alpha / u64::from(self.block).pow(2);
            pixels.extend([mean(red), mean(green), mean(blue), coverage as u8]);
        }
        Frame::new(Size::new(self.side, self.side), Buffer::from(pixels))
    }

    /// A face in the square, in pixels of the picture.
    fn back(&self, face: &Face) -> Face {
        let (block, left, top) = (self.block as f32, self.left as f32, self.top as f32);
        Face {
            left: face.left * block + left,
            top: face.top * block + top,
            right: face.right * block + left,
            bottom: face.bottom * block + top,
            landmarks: face.landmarks.map(|[x, y]| [x * block + left, y * block + top]),
            score: face.score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(left: f32, top: f32, width: f32, height: f32) -> Face {
        Face { left, top, right: left + width, bottom: top + height, landmarks: [[left, top]; 5], score: 0.5 }
    }

    #[test]
    fn a_window_is_twice_the_face_around_its_middle() {
        let window = Window::around(&face(100.0, 50.0, 40.0, 60.0)).expect("a box");
        assert_eq!(window, Window { left: 60, top: 20, block: 1, side: 120 });
        let large = Window::around(&face(0.0, 0.0, 1000.0, 1600.0)).expect("a box");
        assert_eq!((large.block, large.side), (10, 320));
        assert_eq!((large.left, large.top), (-1100, -800));
        for bad in [
            face(0.0, 0.0, 0.0, 0.2),
            face(f32::NAN, 0.0, 9.0, 9.0),
            face(3e6, 0.0, 9.0, 9.0),
            face(0.0, 0.0, 1e9, 9.0),
        ] {
            assert_eq!(Window::around(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_lies_outside_is_transparent_and_blocks_are_means() {
        let pixels = (0..4_u8).flat_map(|at| [at * 10, 0, 200, 255]).collect::<Vec<u8>>();
        let frame = Frame::new(Size::new(2, 2), Buffer::from(pixels));
        let copy = Window { left: -1, top: 0, block: 1, side: 2 }.copied(&frame);
        assert_eq!(copy.pixels(), [[0, 0, 0, 0], [0, 0, 200, 255], [0, 0, 0, 0], [20, 0, 200, 255]].as_flattened());
        let mean = Window { left: 0, top: 0, block: 2, side: 1 }.copied(&frame);
        assert_eq!(mean.pixels(), [15, 0, 200, 255]);
        let half = Window { left: 1, top: 0, block: 2, side: 1 }.copied(&frame);
        assert_eq!(half.pixels(), [20, 0, 200, 127]);
    }

    #[test]
    fn there_and_back_is_the_same_place() {
        let window = Window { left: -7, top: 11, block: 3, side: 50 };
        let back = window.back(&face(4.0, 5.0, 6.0, 7.0));
        assert_eq!([back.left, back.top, back.right, back.bottom], [5.0, 26.0, 23.0, 47.0]);
        assert_eq!(back.landmarks[0], [5.0, 26.0]);
    }
}
