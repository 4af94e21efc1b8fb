//! Flicker, ghosts, cuts and restoration of the temporal filter, on synthetic clips.

use super::TemporalFilter;
use crate::image::tests::drawn;
use crate::image::{AlphaMatte, Frame, RawMask, Size};
use crate::matting;

/// Deterministic pseudo-random numbers between 0 and 1.
fn chance(at: u64) -> f32 {
    let mut state = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((state >> 40) as f32) / (1_u32 << 24) as f32
}

const GRID: u32 = 64;
const SIDE: u32 = 128;

/// A bright textured square of 48 pixels with its left edge at `left` (`None`: no square) on a darker background.
fn frame(left: Option<i64>, seed: u64) -> Frame {
    let pixel = |x: u32, y: u32| {
        let (x, y) = (i64::from(x), i64::from(y));
        let inside = left.filter(|left| (*left..left + 48).contains(&x) && (40..88).contains(&y));
        let grain = |x: i64, y: i64| 40.0 * chance(seed ^ ((x / 3 * 1000 + y / 3) as u64));
        let value = match inside {
            Some(left) => 190.0 + grain(x - left + 5000, y),
            None => 40.0 + grain(x, y),
        };
        [value as u8, (value * 0.9) as u8, 60, 255]
    };
    drawn(SIDE, SIDE, pixel)
}

/// The ideal mask.
fn truth(left: Option<i64>) -> Vec<f32> {
    let cell = |x: u32, y: u32| {
        let (x, y) = (i64::from(x) * 2, i64::from(y) * 2);
        f32::from(u8::from(left.is_some_and(|left| (left..left + 48).contains(&x) && (40..88).contains(&y))))
    };
    (0..GRID).flat_map(|y| (0..GRID).map(move |x| cell(x, y))).collect()
}

/// The ideal mask with wrong patches of 8×8 cells, different ones in each frame.
fn flickering(left: Option<i64>, at: u64) -> RawMask {
    let patch = |cell: usize| (cell / GRID as usize / 8 * 8 + cell % GRID as usize / 8) as u64;
    let values = truth(left)
        .into_iter()
        .enumerate()
        .map(|(cell, value)| if chance(at * 4096 + patch(cell)) < 0.15 { 0.5 + (0.5 - value) * 0.94 } else { value });
    mask_of(values.collect())
}

fn mask_of(values: Vec<f32>) -> RawMask {
    RawMask::new(Size::new(GRID, GRID), values).expect("probabilities")
}

/// Mean absolute error of the mattes, and of its change from frame to frame.
fn errors(mattes: &[AlphaMatte], lefts: &[Option<i64>]) -> (f64, f64) {
    let errors: Vec<Vec<f64>> = mattes
        .iter()
        .zip(lefts)
        .map(|(matte, &left)| {
            let truth = truth(left);
            let cell = |at: usize| at / SIDE as usize / 2 * GRID as usize + at % SIDE as usize / 2;
            matte
                .coverage()
                .iter()
                .enumerate()
                .map(|(at, &value)| f64::from(value) / 255.0 - f64::from(truth[cell(at)]))
                .collect()
        })
        .collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.abs(), count + 1.0));
        sum / count
    };
    let size = mean(&mut errors.iter().flatten().copied());
    let change =
        mean(&mut errors.windows(2).flat_map(|pair| pair[1].iter().zip(&pair[0]).map(|(now, before)| now - before)));
    (size, change)
}

/// The matte of the next frame, on the host.
fn next(filter: &mut TemporalFilter, frame: &Frame, mask: RawMask) -> AlphaMatte {
    filter.next(frame, mask).downloaded().expect("it is on the host")
}

fn mattes(smoothing: u8, lefts: &[Option<i64>], mask: impl Fn(usize) -> RawMask) -> Vec<AlphaMatte> {
    let mut filter = TemporalFilter::new(smoothing);
    lefts.iter().enumerate().map(|(at, &left)| next(&mut filter, &frame(left, 1), mask(at))).collect()
}

#[test]
fn filtering_halves_the_flicker_on_a_moving_subject_and_lowers_the_error() {
    let lefts: Vec<Option<i64>> = (0..16).map(|at| Some(10 + 3 * at)).collect();
    let of = |smoothing| errors(&mattes(smoothing, &lefts, |at| flickering(lefts[at], at as u64)), &lefts);
    let all @ [(error, change), _, half, full] = [0, 20, 50, 100].map(of);
    assert!(all.is_sorted_by(|(_, more), (_, less)| more > less), "flicker decreases with smoothing: {all:?}");
    for (filtered_error, filtered_change) in [half, full] {
        assert!(filtered_change < 0.5 * change, "flicker is {filtered_change} of {change}");
        assert!(filtered_error < error, "the error is {filtered_error}, {error} before");
    }
}

#[test]
fn a_subject_that_vanishes_or_jumps_leaves_no_ghost() {
    for gone in [None, Some(70)] {
        let lefts: Vec<Option<i64>> = (0..10).map(|at| if at < 6 { Some(10) } else { gone }).collect();
        for smoothing in [50, 100] {
            let mattes = mattes(smoothing, &lefts, |at| mask_of(truth(lefts[at])));
            // At the old position, from the first frame on.
            for matte in &mattes[6..] {
                let behind: usize = (44..84)
                    .flat_map(|y| (14..54).map(move |x| y * SIDE as usize + x))
                    .filter(|&at| matte.coverage()[at] > 25)
                    .count();
                assert!(behind < 20, "{behind} pixels of a ghost at {smoothing}, {gone:?}");
            }
        }
    }
}

#[test]
fn persistent_contradiction_overrides_the_past_of_an_unchanged_picture() {
    let lefts = [Some(30); 16];
    let nothing = || mask_of(vec![0.0; truth(None).len()]);
    for smoothing in [50, 100] {
        let mut filter = TemporalFilter::new(smoothing);
        let limit = usize::try_from(filter.contradiction_limit()).expect("not below zero");
        for left in &lefts[..10] {
            let _ = filter.next(&frame(*left, 1), mask_of(truth(*left)));
        }
        // The first contradictions count as errors of the network.
        let first = next(&mut filter, &frame(lefts[0], 1), nothing());
        assert!(first.coverage()[64 * SIDE as usize + 50] > 200, "it flickers at {smoothing}");
        let last = (1..limit).map(|_| next(&mut filter, &frame(lefts[0], 1), nothing())).last();
        let last = last.expect("there was at least one");
        assert!(last.coverage().iter().all(|&value| value == 0), "a ghost after {limit} frames at {smoothing}");
    }
}

#[test]
fn a_cut_restarts_the_filter() {
    let masks = [flickering(Some(20), 1), flickering(Some(60), 2)];
    for smoothing in [50, 100] {
        let mut filter = TemporalFilter::new(smoothing);
        for at in 0..4 {
            let _ = filter.next(&frame(Some(20 + at), 1), masks[0].clone());
        }
        let mut other = frame(Some(60), 99);
        other
            .pixels_mut()
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| at % 4 != 3)
            .for_each(|(_, value)| *value = 255 - *value);
        let after = next(&mut filter, &other, masks[1].clone());
        let alone = next(&mut TemporalFilter::new(smoothing), &other, masks[1].clone());
        assert!(after == alone, "the previous scene has influence at {smoothing}");
        assert_eq!(alone, next(&mut TemporalFilter::new(0), &other, masks[1].clone()));
    }
}

#[test]
fn without_smoothing_frames_are_independent() {
    let mut filter = TemporalFilter::new(0);
    for at in 0..4 {
        let (frame, mask) = (frame(Some(10 + 4 * at), 1), flickering(Some(10 + 4 * at), at as u64));
        let alone = matting::estimate_matte(&frame, &mask, &matting::Options::default()).expect("a subject");
        assert_eq!(next(&mut filter, &frame, mask), alone);
    }
}

#[test]
fn a_restored_filter_gives_identical_mattes() {
    for smoothing in [0, 50, 100] {
        let lefts: Vec<Option<i64>> = (0..8).map(|at| if at == 4 { None } else { Some(10 + 3 * at) }).collect();
        let whole = mattes(smoothing, &lefts, |at| flickering(lefts[at], at as u64));
        let mut filter = TemporalFilter::new(smoothing);
        for (at, &left) in lefts.iter().enumerate() {
            let saved = filter.save();
            filter = TemporalFilter::restore(smoothing, &saved).expect("its own bytes");
            assert_eq!(filter.save(), saved);
            assert!(
                next(&mut filter, &frame(left, 1), flickering(left, at as u64)) == whole[at],
                "frame {at} at {smoothing}"
            );
        }
    }
}

#[test]
fn foreign_bytes_are_rejected() {
    let mut filter = TemporalFilter::new(50);
    let _ = filter.next(&frame(Some(20), 1), flickering(Some(20), 1));
    let saved = filter.save();
    assert!(TemporalFilter::restore(50, &saved).is_some());
    assert!(TemporalFilter::restore(50, &[]).is_none());
    assert!(TemporalFilter::restore(50, &[7, 7, 7]).is_none());
    assert!(TemporalFilter::restore(50, &saved[..saved.len() - 1]).is_none(), "cut short");
    assert!(TemporalFilter::restore(50, &[saved.clone(), vec![0]].concat()).is_none(), "trailing bytes");
    // A grid size that contradicts the planes' lengths: its two numbers are the fourth and fifth of the record.
    let mut other = saved.clone();
    let at = other.iter().take(10).position(|&byte| byte == 64).expect("the columns");
    other[at] = 65;
    assert!(TemporalFilter::restore(50, &other).is_none());
    assert!(TemporalFilter::restore(50, &[b"\xff".repeat(64), saved].concat()).is_none());
}

#[test]
fn any_size_works_and_another_size_restarts_the_filter() {
    let grid = Size::new(8, 8);
    let mut filter = TemporalFilter::new(70);
    for (width, height) in
        [(1, 1), (1, 1), (1, 40), (1, 40), (37, 2), (37, 2), (33, 17), (33, 17), (8, 8), (101, 67), (101, 67)]
    {
        let size = Size::new(width, height);
        let frame = drawn(width, height, |x, y| [(chance((y * width + x).into()) * 255.0) as u8, 90, 7, 255]);
        for subject in [1.0, 0.6, 0.0] {
            let values = (0..64).map(|at| if at % 8 < 5 { subject } else { 0.0 }).collect::<Vec<f32>>();
            let mask = RawMask::new(grid, values).expect("probabilities");
            let matte = next(&mut filter, &frame, mask);
            assert_eq!((matte.size(), matte.coverage().len()), (size, size.area()));
        }
    }
    // Also with grids of one cell and of odd sizes.
    for grid in [Size::new(1, 1), Size::new(5, 3)] {
        for _ in 0..2 {
            let mask = RawMask::new(grid, vec![1.0; grid.area()]).expect("probabilities");
            let matte = next(&mut filter, &frame(Some(20), 1), mask);
            assert!(matte.coverage().iter().all(|&value| value == 255));
        }
    }
}
