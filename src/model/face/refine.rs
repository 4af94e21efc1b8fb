//! Refines face candidates: detects again in an enlarged crop around each candidate.
//!
//! In a small copy a face may be a dozen pixels wide: enough for a candidate, not for a confirmation or landmarks.

use super::decode::{iou, non_maximum_suppression};
use super::detector::{FaceDetector, detect_at};
use crate::image::{Buffer, Face, Frame, Size};
use crate::model::SegmentError;

/// Minimum score of a candidate in the small copy. Lower scores are almost never faces.
pub(super) const CANDIDATE_SCORE: f32 = 0.35;

/// Side of the crop, as a multiple of the face's longer side.
const CROP_SCALE: f32 = 2.0;

const CROP_SIDE: u32 = 160;

/// Minimum score of a detection in the crop that is compared with the candidate.
const CROP_SCORE: f32 = 0.1;

/// Minimum intersection over union of the candidate and its detection in the crop.
const MIN_IOU: f32 = 0.3;

/// Detects the first `most` of `candidates` (best first) again in their crops, by the detector's threshold.
pub(super) fn refine(
    frame: &Frame,
    detector: &dyn FaceDetector,
    candidates: &[Face],
    most: usize,
) -> Result<Vec<Face>, SegmentError> {
    let mut confirmed = Vec::new();
    for candidate in candidates.iter().take(most) {
        let Some(crop) = Crop::around(candidate) else { continue };
        let detections = detect_at(&crop.extracted(frame), detector, CROP_SIDE, CROP_SCORE)?;
        let detections =
            detections.into_iter().map(|face| crop.map_back(&face)).map(|face| (iou(candidate, &face), face));
        let same = detections.filter(|(iou, _)| *iou >= MIN_IOU);
        let best = same.max_by(|(one, face), (two, other)| (one * face.score).total_cmp(&(two * other.score)));
        confirmed.extend(best.map(|(_, face)| face).filter(|face| face.score >= detector.threshold()));
    }
    Ok(non_maximum_suppression(confirmed))
}

/// A square crop of a picture, which may reach beyond its border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Crop {
    left: i64,
    top: i64,
    /// Side in pixels of the block that is averaged into one pixel, so that a face that fills a large picture needs no
    /// second copy of it. The crop never has fewer pixels than the network's input.
    block: u32,
    /// Blocks on a side.
    side: u32,
}

impl Crop {
    /// `None` for a box without a valid extent.
    fn around(face: &Face) -> Option<Self> {
        let longer = (face.right - face.left).max(face.bottom - face.top) * CROP_SCALE;
        let centre = [(face.left + face.right) / 2.0, (face.top + face.bottom) / 2.0];
        let valid = (1.0..1e6).contains(&longer) && centre.into_iter().all(|at| at.abs() < 1e6);
        valid.then(|| {
            let block = (longer / (2 * CROP_SIDE) as f32).max(1.0) as u32;
            let side = (longer / block as f32).ceil() as u32;
            let [left, top] = centre.map(|at| (at - (side * block) as f32 / 2.0).round() as i64);
            Self { left, top, block, side }
        })
    }

    /// The crop as a picture; transparent, which the network sees as grey, outside the frame.
    fn extracted(&self, frame: &Frame) -> Frame {
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

    /// Converts a face in the crop to pixels of the picture.
    fn map_back(&self, face: &Face) -> Face {
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
    use crate::image::tests::drawn;

    fn face(left: f32, top: f32, width: f32, height: f32) -> Face {
        Face { left, top, right: left + width, bottom: top + height, landmarks: [[left, top]; 5], score: 0.5 }
    }

    #[test]
    fn a_crop_is_twice_the_face_around_its_centre() {
        let crop = Crop::around(&face(100.0, 50.0, 40.0, 60.0)).expect("a box");
        assert_eq!(crop, Crop { left: 60, top: 20, block: 1, side: 120 });
        let large = Crop::around(&face(0.0, 0.0, 1000.0, 1600.0)).expect("a box");
        assert_eq!((large.block, large.side), (10, 320));
        assert_eq!((large.left, large.top), (-1100, -800));
        for bad in [
            face(0.0, 0.0, 0.0, 0.2),
            face(f32::NAN, 0.0, 9.0, 9.0),
            face(3e6, 0.0, 9.0, 9.0),
            face(0.0, 0.0, 1e9, 9.0),
        ] {
            assert_eq!(Crop::around(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn pixels_outside_the_frame_are_transparent_and_blocks_are_means() {
        let frame = drawn(2, 2, |x, y| [(2 * y + x) as u8 * 10, 0, 200, 255]);
        let copy = Crop { left: -1, top: 0, block: 1, side: 2 }.extracted(&frame);
        assert_eq!(copy.pixels(), [[0, 0, 0, 0], [0, 0, 200, 255], [0, 0, 0, 0], [20, 0, 200, 255]].as_flattened());
        let mean = Crop { left: 0, top: 0, block: 2, side: 1 }.extracted(&frame);
        assert_eq!(mean.pixels(), [15, 0, 200, 255]);
        let half = Crop { left: 1, top: 0, block: 2, side: 1 }.extracted(&frame);
        assert_eq!(half.pixels(), [20, 0, 200, 127]);
    }

    #[test]
    fn a_face_in_the_crop_is_mapped_to_the_frame() {
        let crop = Crop { left: -7, top: 11, block: 3, side: 50 };
        let moved = crop.map_back(&face(4.0, 5.0, 6.0, 7.0));
        assert_eq!([moved.left, moved.top, moved.right, moved.bottom], [5.0, 26.0, 23.0, 47.0]);
        assert_eq!(moved.landmarks[0], [5.0, 26.0]);
    }
}
