//! Decodes the output cells of the face network into faces, with non-maximum suppression.

use crate::image::Face;
use crate::model::weights::architecture::face::CELL;

/// Boxes with a larger intersection over union are one face.
const MAX_IOU: f32 = 0.4;

/// Maximum detections that are compared, best scores first. Hundreds of faces with a few dozen cells each stay below
/// it, and a flood of detections does not take quadratic time.
const CANDIDATES: usize = 2048;

/// Limit of the logarithm of a distance: 1100 strides.
const MAX_LOG_DISTANCE: f32 = 7.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<'a> {
    /// Pixels from one cell to the next.
    pub(super) stride: usize,
    pub(super) width: usize,
    pub(super) cells: &'a [[f32; CELL]],
}

impl Cells<'_> {
    /// The faces that score at least `threshold`, in pixels of the network's input.
    fn faces(&self, threshold: f32) -> impl Iterator<Item = Face> {
        let (stride, width) = (self.stride as f32, self.width);
        let face = move |(index, cell): (usize, &[f32; CELL])| {
            let [logit, left, top, right, bottom, points @ ..] = cell;
            let score = 1.0 / (1.0 + (-logit).exp());
            let centre = [index % width, index / width].map(|at| (at as f32 + 0.5) * stride);
            let distance = |log: f32| log.min(MAX_LOG_DISTANCE).exp() * stride;
            let landmark = |at: usize| [0, 1].map(|axis| centre[axis] + points[2 * at + axis] * stride);
            let finite = cell.iter().all(|value| value.is_finite());
            (finite && score >= threshold).then(|| Face {
                left: centre[0] - distance(*left),
                top: centre[1] - distance(*top),
                right: centre[0] + distance(*right),
                bottom: centre[1] + distance(*bottom),
                landmarks: std::array::from_fn(landmark),
                score,
            })
        };
        self.cells.iter().enumerate().filter_map(face)
    }
}

/// The faces of all levels with scores of at least `threshold`, after non-maximum suppression, best score first.
pub(super) fn decode(levels: &[Cells<'_>], threshold: f32) -> Vec<Face> {
    non_maximum_suppression(levels.iter().flat_map(|level| level.faces(threshold)).collect())
}

/// Non-maximum suppression: keeps the best score among overlapping faces, the first of equal ones. Sorted by score.
pub(super) fn non_maximum_suppression(mut faces: Vec<Face>) -> Vec<Face> {
    faces.sort_by(|one, other| other.score.total_cmp(&one.score));
    faces.truncate(CANDIDATES);
    let mut kept: Vec<Face> = Vec::new();
    for face in faces {
        if kept.iter().all(|other| iou(&face, other) <= MAX_IOU) {
            kept.push(face);
        }
    }
    kept
}

pub(super) fn iou(one: &Face, other: &Face) -> f32 {
    let width = one.right.min(other.right) - one.left.max(other.left);
    let height = one.bottom.min(other.bottom) - one.top.max(other.top);
    let both = width.max(0.0) * height.max(0.0);
    if both > 0.0 { both / (one.area() + other.area() - both) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell with a face that extends by `sides`, in strides.
    fn cell(logit: f32, sides: [f32; 4]) -> [f32; CELL] {
        let mut cell = [0.0; CELL];
        cell[0] = logit;
        cell[1..5].copy_from_slice(&sides.map(f32::ln));
        for (at, value) in cell[5..].iter_mut().enumerate() {
            *value = at as f32 / 4.0 - 1.0;
        }
        cell
    }

    const NOTHING: [f32; CELL] = [-9.0; CELL];

    #[test]
    fn a_cell_decodes_to_a_box_and_landmarks_around_its_centre() {
        let mut cells = [NOTHING; 6];
        cells[4] = cell(0.0, [1.0, 2.0, 3.0, 0.5]);
        let found = decode(&[Cells { stride: 16, width: 3, cells: &cells }], 0.5);
        // Column 1, row 1: the centre is at (24, 24).
        let [face] = found[..] else { panic!("{found:?}") };
        let close = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-4, "{found}, not {expected}");
        close(face.score, 0.5);
        for (found, expected) in [face.left, face.top, face.right, face.bottom].into_iter().zip([8.0, -8.0, 72.0, 32.0])
        {
            close(found, expected);
        }
        for (index, landmark) in face.landmarks.into_iter().enumerate() {
            close(landmark[0], 24.0 + 16.0 * (index as f32 / 2.0 - 1.0));
            close(landmark[1], 24.0 + 16.0 * (index as f32 / 2.0 - 0.75));
        }
    }

    #[test]
    fn only_scores_of_at_least_the_threshold_count() {
        let cells = [cell(2.0, [1.0; 4]), NOTHING, NOTHING, cell(1.0, [1.0; 4])];
        let level = [Cells { stride: 8, width: 4, cells: &cells }];
        let count = |threshold: f32| decode(&level, threshold).len();
        // The sigmoid of 1 is 0.731, of 2 it is 0.881.
        assert_eq!([0.7, 0.75, 0.9].map(count), [2, 1, 0]);
    }

    #[test]
    fn the_best_of_overlapping_faces_is_kept_across_levels() {
        let mut small = [NOTHING; 16];
        small[5] = cell(1.0, [2.0; 4]); // centre (12, 12), 32 wide
        small[6] = cell(3.0, [2.0; 4]); // centre (20, 12): 3/5 in common
        small[15] = cell(0.5, [0.5; 4]); // in a corner of it, small: another face
        let large = [cell(2.0, [0.45; 4])]; // centre (16, 16), 29 wide
        let levels = [Cells { stride: 8, width: 4, cells: &small }, Cells { stride: 32, width: 1, cells: &large }];
        let found = decode(&levels, 0.1);
        let scores: Vec<f32> = found.iter().map(|face| face.score).collect();
        let sigmoid = |logit: f32| 1.0 / (1.0 + (-logit).exp());
        assert_eq!(scores, [sigmoid(3.0), sigmoid(0.5)]);
        assert_eq!(found[0].right, 36.0);
    }

    #[test]
    fn iou_is_intersection_over_union() {
        let face =
            |left: f32, right: f32| Face { left, top: 0.0, right, bottom: 2.0, landmarks: [[0.0; 2]; 5], score: 1.0 };
        assert_eq!(iou(&face(0.0, 4.0), &face(2.0, 6.0)), 4.0 / 12.0);
        assert_eq!(iou(&face(0.0, 4.0), &face(0.0, 4.0)), 1.0);
        assert_eq!(iou(&face(0.0, 4.0), &face(4.0, 6.0)), 0.0);
        assert_eq!(iou(&face(1.0, 1.0), &face(0.0, 4.0)), 0.0, "a box without an area");
    }

    #[test]
    fn invalid_cells_are_no_faces_and_the_number_of_detections_is_bounded() {
        let mut cells = vec![cell(5.0, [1e30; 4]); 40_000];
        cells[1] = [f32::NAN; CELL];
        cells[2][7] = f32::INFINITY;
        let found = decode(&[Cells { stride: 8, width: 200, cells: &cells }], 0.5);
        assert!(!found.is_empty() && found.len() <= CANDIDATES);
        assert!(found.iter().all(|face| face.area().is_finite() && face.left > -20_000.0), "an unbounded box");
    }
}
