//! A simulated user, who clicks where a matte is most wrong.
//!
//! Each click is the innermost pixel of the largest wrong region, missing or superfluous. In the protocol of
//! Sofiiuk, Petrov and Konushin, "Reviving Iterative Training with Mask Guidance for Interactive Segmentation", ICIP 2022 (RITM), it is
//! the innermost of all wrong pixels.

use crate::matting::chamfer::chamfer;
use crate::matting::{Seeds, connected_components};

/// Adds the next click to `seeds`. Returns `false` when every wrong pixel was clicked.
///
/// `matte` and `truth` are coverage, 0..=255, row after row of `width` pixels; one half separates subject from background.
pub(super) fn click(matte: &[u8], truth: &[u8], width: usize, seeds: &mut Seeds) -> bool {
    let wrong = |is_subject: bool| {
        let is_wrong = |(matte, truth): (&u8, &u8)| (*truth > 127) == is_subject && (*matte > 127) != is_subject;
        connected_components::largest(&matte.iter().zip(truth).map(is_wrong).collect::<Vec<_>>(), width)
    };
    let regions = [true, false].map(|is_subject| (wrong(is_subject), is_subject));
    let pixels = |region: &[bool]| region.iter().filter(|&&wrong| wrong).count();
    let [missing, superfluous] = regions;
    let (region, is_subject) = if pixels(&superfluous.0) > pixels(&missing.0) { superfluous } else { missing };
    let Some(at) = innermost(&region, width, seeds) else { return false };
    let points = if is_subject { &mut seeds.subject } else { &mut seeds.background };
    points.push([(at % width) as u32, (at / width) as u32]);
    true
}

/// The pixel of `region` that is farthest from the region's edge and not in `seeds`. The picture's border is an edge.
fn innermost(region: &[bool], width: usize, seeds: &Seeds) -> Option<usize> {
    let (columns, rows) = (width + 2, region.len() / width + 2);
    let mut depth = vec![0; columns * rows];
    let framed = |x: usize, y: usize| (y + 1) * columns + x + 1;
    for at in (0..region.len()).filter(|&at| region[at]) {
        depth[framed(at % width, at / width)] = u16::MAX;
    }
    chamfer(&mut depth, columns);
    for [x, y] in seeds.subject.iter().chain(&seeds.background) {
        depth[framed(*x as usize, *y as usize)] = 0;
    }
    let deepest = (0..region.len()).rev().max_by_key(|&at| depth[framed(at % width, at / width)])?;
    (depth[framed(deepest % width, deepest / width)] > 0).then_some(deepest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 20;

    fn picture(covered: impl Fn(usize, usize) -> bool) -> Vec<u8> {
        (0..WIDTH * 12).map(|at| if covered(at % WIDTH, at / WIDTH) { 255 } else { 0 }).collect()
    }

    #[test]
    fn clicks_are_the_centres_of_the_largest_wrong_regions() {
        let truth = picture(|x, y| x < 9 && y < 9);
        let matte = picture(|x, y| (12..15).contains(&x) && y < 3);
        let mut seeds = Seeds::default();
        assert!(click(&matte, &truth, WIDTH, &mut seeds));
        assert_eq!((&seeds.subject[..], &seeds.background[..]), (&[[4, 4]][..], &[][..]));
        assert!(click(&matte, &picture(|_, _| false), WIDTH, &mut seeds));
        assert_eq!(seeds.background, [[13, 1]]);
    }

    #[test]
    fn no_pixel_is_clicked_twice_and_none_of_a_right_matte() {
        let truth = picture(|x, y| x == 5 && y == 5);
        let mut seeds = Seeds::default();
        assert!(click(&picture(|_, _| false), &truth, WIDTH, &mut seeds));
        assert!(!click(&picture(|_, _| false), &truth, WIDTH, &mut seeds), "{seeds:?}");
        assert!(!click(&truth, &truth, WIDTH, &mut Seeds::default()));
    }
}
