//! Detects faces in a picture of any size: a pass over a small copy, passes over tiles of a large picture for small
//! faces, then a refining pass over a crop of each candidate.

mod cpu;
mod decode;
mod detector;
mod refine;
mod search;
mod tiling;

use self::detector::detect_at;
use self::refine::{CANDIDATE_SCORE, refine};
use super::SegmentError;
use crate::image::{Face, Frame};

pub(super) use cpu::CpuFaceDetector;
pub(super) use detector::FaceDetector;
pub use search::FaceSearch;

/// Longest side of the small copy of a picture or tile.
const SIDE: u32 = 320;

/// The faces of `frame` by `search`, largest first.
///
/// Faces found in tiles are added to the faces of the small copy, which do not depend on the tiles.
pub(super) fn detect(
    frame: &Frame,
    detector: &dyn FaceDetector,
    search: FaceSearch,
) -> Result<Vec<Face>, SegmentError> {
    if frame.size().area() == 0 {
        return Err(SegmentError::Device("a frame without pixels".to_owned()));
    }
    let threshold = detector.threshold().min(CANDIDATE_SCORE);
    let candidates = detect_at(frame, detector, SIDE, threshold)?;
    let mut faces = refine(frame, detector, &candidates, search.most_candidates())?;
    if search.includes_tiles(!faces.is_empty()) {
        let is_new = |face: &Face| !faces.iter().any(|found| is_same_or_part(face, found));
        let mut small = tiling::detect(frame, detector, threshold)?;
        small.retain(is_new);
        let mut small = refine(frame, detector, &small, search.most_candidates() - faces.len())?;
        small.retain(is_new);
        faces.extend(small);
    }
    faces.sort_by(|one, other| other.area().total_cmp(&one.area()));
    Ok(faces)
}

/// Whether two boxes are one face, or a face and a part of it: the centre of one lies in the other.
fn is_same_or_part(one: &Face, other: &Face) -> bool {
    let is_in = |face: &Face, other: &Face| {
        let (x, y) = ((face.left + face.right) / 2.0, (face.top + face.bottom) / 2.0);
        (other.left..other.right).contains(&x) && (other.top..other.bottom).contains(&y)
    };
    is_in(one, other) || is_in(other, one)
}

#[cfg(test)]
mod tests;
