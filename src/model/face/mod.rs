//! Face detection in a picture of any size: a pass over a small copy, then a refining pass over a crop of each candidate.

mod cpu;
mod decode;
mod detector;
mod refine;

use self::detector::detect_at;
use self::refine::{CANDIDATE_SCORE, refine};
use super::SegmentError;
use crate::image::{Face, Frame};

pub(super) use cpu::CpuFaceDetector;
pub(super) use detector::FaceDetector;

/// The longest side of the small copy.
const SIDE: u32 = 320;

/// The faces in `frame`, the largest first.
pub(super) fn detect(frame: &Frame, detector: &dyn FaceDetector) -> Result<Vec<Face>, SegmentError> {
    if frame.size().area() == 0 {
        return Err(SegmentError::Device("a frame without pixels".to_owned()));
    }
    let candidates = detect_at(frame, detector, SIDE, detector.threshold().min(CANDIDATE_SCORE))?;
    let mut faces = refine(frame, detector, &candidates)?;
    faces.sort_by(|one, other| other.area().total_cmp(&one.area()));
    Ok(faces)
}

#[cfg(test)]
mod tests;
