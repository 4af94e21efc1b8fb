//! How far the motion between two frames is believed, cell by cell, and whether there is any: a cut has none.
//!
//! A cell is believed when it looks like where it is said to come from, in all three colours, by the measure of how well
//! most cells do: camera noise raises both. A change of exposure is taken off before. Where background comes to light
//! behind a subject there is nothing that it could come from, and it shows.

use super::flow::Flow;
use super::small::Small;
use rayon::prelude::*;

/// Times the usual difference up to which a cell is believed fully, and from which it is not at all.
const FULLY: f32 = 2.0;
const NOT_AT_ALL: f32 = 5.0;
/// The usual difference, in steps of 255, is taken to be within these: no camera is better, and no footage worse.
const LEAST_USUAL: f32 = 1.0;
const MOST_USUAL: f32 = 6.0;
/// A usual difference above this is a cut; so is a smaller one, down to the second, that is not small beside the picture's
/// own contrast.
const CUT: f32 = 12.0;
const DARK_CUT: f32 = 3.0;
const DARK_CUT_SHARE: f32 = 0.5;

/// 0 to 1 for each cell: whether it is what `flow` says it was in the frame before. `None` at a cut.
pub(super) fn trust(before: &Small, after: &Small, flow: &Flow) -> Option<Vec<f32>> {
    let [width, height] = flow.size;
    let (cells, _) = after.cells.as_chunks::<3>();
    let place = |at: usize| ((at % width) as f32 + flow.right[at], (at / width) as f32 + flow.down[at]);
    let mut differences: Vec<[f32; 3]> = (0..cells.len())
        .into_par_iter()
        .with_min_len(4096)
        .map(|at| {
            let (x, y) = place(at);
            let was = before.linear(x, y);
            std::array::from_fn(|channel| f32::from(cells[at][channel]) - was[channel])
        })
        .collect();
    let exposure: [f32; 3] =
        std::array::from_fn(|channel| median(differences.iter().map(|difference| difference[channel])));
    for difference in &mut differences {
        difference.iter_mut().zip(exposure).for_each(|(value, exposure)| *value -= exposure);
    }
    let size = differences.iter().map(|difference| difference.iter().map(|value| value.abs()).sum::<f32>() / 3.0);
    let around = box_mean(&size.collect::<Vec<_>>(), [width, height]);
    let usual = median(around.iter().copied());
    if usual > CUT || (usual > DARK_CUT && usual > DARK_CUT_SHARE * contrast(after)) {
        return None;
    }
    let usual = usual.clamp(LEAST_USUAL, MOST_USUAL);
    let (right_end, bottom_end) = (width as f32 - 0.5, height as f32 - 0.5);
    let trust = around.iter().enumerate().map(|(at, &difference)| {
        let (x, y) = place(at);
        if x < -0.5 || y < -0.5 || x > right_end || y > bottom_end {
            return 0.0;
        }
        ((NOT_AT_ALL - difference / usual) / (NOT_AT_ALL - FULLY)).clamp(0.0, 1.0)
    });
    Some(trust.collect())
}

/// How far the colours of a picture are usually from their own middle.
fn contrast(picture: &Small) -> f32 {
    let grey = picture.grey();
    let middle = median(grey.iter().copied());
    median(grey.iter().map(|value| (value - middle).abs()))
}

/// The middle one, to a quarter of a step, of values between -255 and 255. Zero of none.
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

    fn small([width, height]: [u32; 2], at: impl Fn(u32, u32) -> [u8; 3]) -> Small {
        let size = Size::new(width, height);
        Small {
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
    fn what_stays_is_believed_and_what_changed_is_not() {
        let before = small([40, 40], texture);
        let after = small([40, 40], |x, y| {
            let [red, green, blue] = texture(x, y);
            // Everything is a little brighter, and something new is in the middle.
            if (15..25).contains(&x) && (15..25).contains(&y) { [255, 0, 0] } else { [red + 5, green + 5, blue + 5] }
        });
        let trust = trust(&before, &after, &still([40, 40])).expect("no cut");
        assert_eq!(trust[0], 1.0);
        assert_eq!(trust[20 * 40 + 20], 0.0);
        assert_eq!(trust[35 * 40 + 5], 1.0);
    }

    #[test]
    fn another_scene_is_a_cut_in_the_light_and_in_the_dark() {
        let before = small([40, 40], texture);
        let after = small([40, 40], |x, y| texture(3 * x + 5 * y, 7 * x + y * y));
        assert_eq!(trust(&before, &after, &still([40, 40])), None);
        let dark = |scene: Small| Small { cells: scene.cells.iter().map(|&value| value / 7).collect(), ..scene };
        assert_eq!(trust(&dark(before), &dark(after), &still([40, 40])), None);
    }

    #[test]
    fn what_comes_from_outside_is_not_believed() {
        let scene = small([9, 5], |_, _| [90, 90, 90]);
        let flow = Flow { right: vec![-2.0; 45], ..still([9, 5]) };
        let trust = trust(&scene, &scene, &flow).expect("no cut");
        assert_eq!(trust[..9], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn the_middle_of_values() {
        assert_eq!(median([].into_iter()), 0.0);
        assert_eq!(median([3.0, -250.0, 9.0].into_iter()), 3.0);
        assert_eq!(median([-1.25; 5].into_iter()), -1.25);
    }
}
