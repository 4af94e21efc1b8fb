//! Confidence of the optical flow for each cell, from the warped colour difference; detects scene cuts.
//!
//! The difference between a cell and the previous frame, warped along the flow, is compared in all three channels with
//! the median difference, because camera noise raises both. A global change of exposure is subtracted first.
//! Disoccluded background has no counterpart in the previous frame; its large difference gives it low confidence.

use super::optical_flow::Flow;
use super::thumbnail::Thumbnail;
use multiversion::multiversion;
use rayon::prelude::*;

/// Multiples of the median difference up to which confidence is 1, and from which it is 0.
const FULL_CONFIDENCE: f32 = 2.0;
const NO_CONFIDENCE: f32 = 5.0;
/// The median difference, in steps of 255, is clamped to this range of camera noise.
const MIN_MEDIAN: f32 = 1.0;
const MAX_MEDIAN: f32 = 6.0;
/// A median difference above the first value is a cut. So is one above the second value that also exceeds this share of
/// the picture's contrast.
const CUT: f32 = 12.0;
const DARK_CUT: f32 = 3.0;
const DARK_CUT_SHARE: f32 = 0.5;
/// Cells per task.
const TASK: usize = 4096;

/// Confidence of `flow` for each cell, 0 to 1; `None` at a cut.
pub(super) fn flow_confidence(before: &Thumbnail, after: &Thumbnail, flow: &Flow) -> Option<Vec<f32>> {
    let [width, height] = flow.size;
    let (cells, _) = after.cells.as_chunks::<3>();
    let mut differences = vec![[0.0; 3]; cells.len()];
    differences.par_chunks_mut(TASK).enumerate().for_each(|(task, differences)| {
        warped_differences(before, after, flow, task * TASK, differences);
    });
    let exposure: [f32; 3] =
        std::array::from_fn(|channel| median(differences.iter().map(|difference| difference[channel])));
    for difference in &mut differences {
        difference.iter_mut().zip(exposure).for_each(|(value, exposure)| *value -= exposure);
    }
    let size = differences.iter().map(|difference| difference.iter().map(|value| value.abs()).sum::<f32>() / 3.0);
    let around = box_mean(&size.collect::<Vec<_>>(), [width, height]);
    let typical = median(around.iter().copied());
    if typical > CUT || (typical > DARK_CUT && typical > DARK_CUT_SHARE * contrast(after)) {
        return None;
    }
    let typical = typical.clamp(MIN_MEDIAN, MAX_MEDIAN);
    let (right_end, bottom_end) = (width as f32 - 0.5, height as f32 - 0.5);
    let confidence = around.iter().enumerate().map(|(at, &difference)| {
        let (x, y) = flow.previous_position(at);
        if x < -0.5 || y < -0.5 || x > right_end || y > bottom_end {
            return 0.0;
        }
        ((NO_CONFIDENCE - difference / typical) / (NO_CONFIDENCE - FULL_CONFIDENCE)).clamp(0.0, 1.0)
    });
    Some(confidence.collect())
}

/// Writes the differences of the cells of `after`, from `first` on, to `before` warped along `flow`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn warped_differences(before: &Thumbnail, after: &Thumbnail, flow: &Flow, first: usize, differences: &mut [[f32; 3]]) {
    let (cells, _) = after.cells.as_chunks::<3>();
    for (at, difference) in (first..).zip(differences) {
        let (x, y) = flow.previous_position(at);
        let was = before.linear(x, y);
        *difference = std::array::from_fn(|channel| f32::from(cells[at][channel]) - was[channel]);
    }
}

/// Median absolute deviation of a picture's brightness.
fn contrast(picture: &Thumbnail) -> f32 {
    let grey = picture.grey();
    let middle = median(grey.iter().copied());
    median(grey.iter().map(|value| (value - middle).abs()))
}

/// Median of values between -255 and 255, to a quarter of a step; zero without values.
fn median(values: impl Iterator<Item = f32>) -> f32 {
    const BINS: usize = 2048;
    let mut bins = [0_usize; BINS];
    let mut count = 0;
    for value in values {
        bins[((value * 4.0).round() + BINS as f32 / 2.0).clamp(0.0, BINS as f32 - 1.0) as usize] += 1;
        count += 1;
    }
    let mut below = 0;
    let middle = bins.iter().position(|&bin| {
        below += bin;
        2 * below >= count
    });
    middle.filter(|_| count > 0).map_or(0.0, |bin| (bin as f32 - BINS as f32 / 2.0) / 4.0)
}

/// The mean over three by three cells, fewer at the border.
fn box_mean(plane: &[f32], [width, height]: [usize; 2]) -> Vec<f32> {
    let mean = |at: usize| {
        let (x, y) = (at % width, at / width);
        let columns = x.saturating_sub(1)..(x + 2).min(width);
        let rows = y.saturating_sub(1)..(y + 2).min(height);
        let count = (columns.len() * rows.len()) as f32;
        rows.map(|row| plane[row * width..][columns.clone()].iter().sum::<f32>()).sum::<f32>() / count
    };
    (0..plane.len()).into_par_iter().with_min_len(4096).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    fn thumbnail([width, height]: [u32; 2], at: impl Fn(u32, u32) -> [u8; 3]) -> Thumbnail {
        let size = Size::new(width, height);
        Thumbnail {
            size,
            cells: (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| at(x, y)).collect(),
        }
    }

    fn texture(x: u32, y: u32) -> [u8; 3] {
        let value = ((x * 37 + y * 91) % 128) as u8;
        [value, value / 2 + 60, 200 - value]
    }

    fn still(size: [usize; 2]) -> Flow {
        let none = vec![0.0; size[0] * size[1]];
        Flow { size, right: none.clone(), down: none }
    }

    #[test]
    fn static_cells_have_confidence_and_changed_ones_do_not() {
        let before = thumbnail([40, 40], texture);
        let after = thumbnail([40, 40], |x, y| {
            let [red, green, blue] = texture(x, y);
            // The whole frame is a little brighter, and the centre is new.
            if (15..25).contains(&x) && (15..25).contains(&y) { [255, 0, 0] } else { [red + 5, green + 5, blue + 5] }
        });
        let confidence = flow_confidence(&before, &after, &still([40, 40])).expect("no cut");
        assert_eq!(confidence[0], 1.0);
        assert_eq!(confidence[20 * 40 + 20], 0.0);
        assert_eq!(confidence[35 * 40 + 5], 1.0);
    }

    #[test]
    fn another_scene_is_a_cut_in_bright_and_dark_footage() {
        let before = thumbnail([40, 40], texture);
        let after = thumbnail([40, 40], |x, y| texture(3 * x + 5 * y, 7 * x + y * y));
        assert_eq!(flow_confidence(&before, &after, &still([40, 40])), None);
        let dark =
            |scene: Thumbnail| Thumbnail { cells: scene.cells.iter().map(|&value| value / 7).collect(), ..scene };
        assert_eq!(flow_confidence(&dark(before), &dark(after), &still([40, 40])), None);
    }

    #[test]
    fn cells_from_outside_the_frame_have_no_confidence() {
        let scene = thumbnail([9, 5], |_, _| [90, 90, 90]);
        let flow = Flow { right: vec![-2.0; 45], ..still([9, 5]) };
        let confidence = flow_confidence(&scene, &scene, &flow).expect("no cut");
        assert_eq!(confidence[..9], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }
}
