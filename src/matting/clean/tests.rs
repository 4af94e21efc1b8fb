//! Tests of the clean-up on drawn pictures.

use super::*;
use crate::image::Trimap;
use crate::image::tests::{drawn, on_any_number_of_threads};
use std::ops::Range;

const BLUE: [u8; 3] = [40, 60, 180];
const RED: [u8; 3] = [190, 50, 40];
const GREEN: [u8; 3] = [60, 160, 60];
const WHITE: [u8; 3] = [244, 244, 242];
const PICTURE: Size = Size::new(300, 240);
/// Columns and rows in pixels: a block, a bar from it to the right border, and a separate block.
const BLOCK: [Range<f32>; 2] = [60.0..150.0, 40.0..200.0];
const BAR: [Range<f32>; 2] = [150.0..300.0, 90.0..150.0];
const APART: [Range<f32>; 2] = [220.0..260.0, 170.0..220.0];

fn is_in([across, down]: &[Range<f32>; 2], x: f32, y: f32) -> bool {
    across.contains(&x) && down.contains(&y)
}

fn picture(color: impl Fn(f32, f32) -> [u8; 3]) -> Frame {
    let grain = |x: u32, y: u32| (x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) >> 13) % 9;
    drawn(PICTURE.width, PICTURE.height, |x, y| {
        let [r, g, b] = color(x as f32, y as f32).map(|channel| channel.saturating_add(grain(x, y) as u8));
        [r, g, b, 255]
    })
}

/// A mask of `side` by `side` cells, with `value` at their centres in pixels.
fn mask(side: u32, value: impl Fn(f32, f32) -> f32) -> RawMask {
    let place = |cell: u32, pixels: u32| (cell as f32 + 0.5) * pixels as f32 / side as f32;
    let cells = (0..side).flat_map(|row| (0..side).map(move |column| (column, row)));
    let values = cells.map(|(column, row)| value(place(column, PICTURE.width), place(row, PICTURE.height)));
    RawMask::new(Size::new(side, side), values.collect::<Vec<f32>>()).expect("probabilities")
}

fn certain(is_subject: bool) -> f32 {
    f32::from(u8::from(is_subject))
}

fn cleaned(frame: &Frame, mask: &RawMask) -> CleanMask {
    clean(frame, mask, &Seeds::default(), CleanParams::default()).expect("a subject")
}

/// Number of cells that are not 1 inside and 0 outside of `is_subject`, except within `margin` pixels of its outline.
fn wrong(mask: &CleanMask, margin: f32, is_subject: impl Fn(f32, f32) -> bool) -> usize {
    let (columns, rows) = (mask.size().width as f32, mask.size().height as f32);
    let expected = |at: usize| {
        let (x, y) = ((at as f32 % columns).floor() + 0.5, (at as f32 / columns).floor() + 0.5);
        let (x, y) = (x * PICTURE.width as f32 / columns, y * PICTURE.height as f32 / rows);
        let around = [(-margin, 0.0), (margin, 0.0), (0.0, -margin), (0.0, margin)];
        let subject = is_subject(x, y);
        around.iter().all(|(right, down)| is_subject(x + right, y + down) == subject).then_some(subject)
    };
    let cells = mask.values().iter().enumerate();
    cells.filter(|&(at, &value)| expected(at).is_some_and(|subject| value != certain(subject))).count()
}

fn value_at(mask: &CleanMask, x: f32, y: f32) -> f32 {
    let [columns, rows] = [mask.size().width, mask.size().height].map(|side| side as f32);
    let cell = |at: f32, cells: f32, pixels: u32| (at * cells / pixels as f32) as usize;
    mask.values()[cell(y, rows, PICTURE.height) * columns as usize + cell(x, columns, PICTURE.width)]
}

fn in_block(x: f32, y: f32) -> bool {
    is_in(&BLOCK, x, y)
}

fn in_both(x: f32, y: f32) -> bool {
    in_block(x, y) || is_in(&BAR, x, y)
}

/// Certain block and background, with `probability` in the bar.
fn uncertain_bar(side: u32, probability: f32) -> RawMask {
    mask(side, |x, y| if is_in(&BAR, x, y) { probability } else { certain(in_block(x, y)) })
}

fn block_and_bar(block: [u8; 3], bar: [u8; 3], ground: [u8; 3]) -> Frame {
    picture(|x, y| match () {
        () if is_in(&BAR, x, y) => bar,
        () if in_block(x, y) => block,
        () => ground,
    })
}

#[test]
fn an_uncertain_region_gets_the_label_that_its_colors_have_elsewhere() {
    for (side, margin) in [(96, 16.0), (384, 6.0), (900, 6.0)] {
        let subject = cleaned(&block_and_bar(BLUE, BLUE, RED), &uncertain_bar(side, 0.3));
        assert_eq!(wrong(&subject, margin, in_both), 0, "{side}");
        let ground = cleaned(&block_and_bar(BLUE, RED, RED), &uncertain_bar(side, 0.7));
        assert_eq!(wrong(&ground, margin, in_block), 0, "{side}");
    }
}

#[test]
fn without_discriminating_colors_cells_keep_the_masks_label() {
    for frame in [block_and_bar(BLUE, GREEN, RED), block_and_bar(WHITE, WHITE, WHITE)] {
        assert_eq!(wrong(&cleaned(&frame, &uncertain_bar(384, 0.6)), 9.0, in_both), 0);
        assert_eq!(wrong(&cleaned(&frame, &uncertain_bar(384, 0.4)), 9.0, in_block), 0);
    }
}

#[test]
fn the_label_changes_where_the_color_does() {
    let half = |x: f32, y: f32| in_block(x, y) || is_in(&BAR, x, y) && x < 220.0;
    let frame = picture(|x, y| if half(x, y) { BLUE } else { RED });
    // Corners of an uncertain region, which a wide disc does not reach, keep the mask's values.
    assert_eq!(wrong(&cleaned(&frame, &uncertain_bar(384, 0.5)), 5.0, half), 0);
}

#[test]
fn specks_get_the_label_of_their_surroundings() {
    let speck = |x: f32, y: f32| (x as u32).is_multiple_of(4) && (y as u32).is_multiple_of(4);
    let frame = picture(|x, y| if in_both(x, y) != (is_in(&BAR, x, y) && speck(x, y)) { BLUE } else { RED });
    assert_eq!(wrong(&cleaned(&frame, &uncertain_bar(384, 0.5)), 5.0, in_both), 0);
}

#[test]
fn certain_cells_keep_their_label_against_their_colors() {
    let frame = block_and_bar(BLUE, RED, RED);
    let sure = mask(384, |x, y| certain(in_both(x, y)));
    assert_eq!(wrong(&cleaned(&frame, &sure), 0.0, in_both), 0);
}

#[test]
fn an_edge_keeps_the_values_of_its_ramp() {
    let ramp = mask(384, |x, y| {
        let inside = (x - BLOCK[0].start).min(BLOCK[0].end - x).min(y - BLOCK[1].start).min(BLOCK[1].end - y);
        (0.5 + inside / 4.0).clamp(0.0, 1.0)
    });
    let flat = picture(|_, _| WHITE);
    let after = cleaned(&flat, &ramp);
    let moved = after.values().iter().zip(ramp.values()).filter(|(after, before)| (*after - *before).abs() > 0.06);
    assert!(moved.count() < 60);
    assert!(after.values().iter().any(|value| (0.2..0.8).contains(value)));
}

#[test]
fn relabelled_cells_keep_the_masks_value_only_in_a_thin_strip_at_the_edge() {
    let value = |width: f32| {
        let in_strip = |x: f32, y: f32| is_in(&[150.0..150.0 + width, 40.0..200.0], x, y);
        let mask = mask(384, |x, y| if in_strip(x, y) { 0.6 } else { certain(in_block(x, y)) });
        value_at(&cleaned(&block_and_bar(BLUE, RED, RED), &mask), 150.4, 120.0)
    };
    // Two cells, and thirteen.
    assert_eq!([value(1.5), value(10.0)], [0.6, 0.0]);
}

#[test]
fn only_thin_uncertain_regions_keep_the_masks_values_far_from_the_edge() {
    let value = |width: f32| {
        let in_strand = |x: f32, y: f32| is_in(&[150.0..200.0, 100.0..100.0 + width], x, y);
        let mask = mask(384, |x, y| if in_strand(x, y) { 0.3 } else { certain(in_block(x, y)) });
        value_at(&cleaned(&picture(|_, _| WHITE), &mask), 190.0, 100.0 + width / 2.0)
    };
    // Five cells, and twenty-four.
    assert_eq!([value(3.0), value(15.0)], [0.3, 0.0]);
}

/// The block, certain, and a second part with `highest` in a corner and 0.6 elsewhere.
fn with_second_part(part: &[Range<f32>; 2], highest: f32) -> RawMask {
    mask(384, |x, y| match () {
        () if in_block(x, y) => 1.0,
        () if is_in(part, x, y) && x < part[0].start + 3.0 => highest,
        () if is_in(part, x, y) => highest.min(0.6),
        () => 0.0,
    })
}

#[test]
fn a_small_part_stays_only_with_a_certain_cell() {
    let (frame, small) = (picture(|_, _| WHITE), [200.0..210.0, 60.0..80.0]);
    assert_eq!(wrong(&cleaned(&frame, &with_second_part(&small, 0.98)), 0.0, in_block), 0);
    assert!(value_at(&cleaned(&frame, &with_second_part(&small, 0.999)), 201.0, 70.0) > 0.5);
    let large = [200.0..260.0, 60.0..200.0];
    assert!(value_at(&cleaned(&frame, &with_second_part(&large, 0.6)), 230.0, 130.0) > 0.5);
}

#[test]
fn haze_is_background() {
    let (frame, part) = (picture(|_, _| WHITE), [180.0..290.0, 20.0..230.0]);
    assert_eq!(wrong(&cleaned(&frame, &with_second_part(&part, 0.45)), 0.0, in_block), 0);
}

/// The block with a hole of probability `depth`, in the colour `hole`.
fn holed(depth: f32, hole: [u8; 3]) -> (Frame, RawMask) {
    let is_hole = |x: f32, y: f32| is_in(&[95.0..115.0, 110.0..130.0], x, y);
    let frame = picture(|x, y| match () {
        () if is_hole(x, y) => hole,
        () if in_block(x, y) => BLUE,
        () => RED,
    });
    (frame, mask(384, |x, y| if is_hole(x, y) { depth } else { certain(in_block(x, y)) }))
}

#[test]
fn a_hole_is_filled_unless_mask_and_colors_say_background() {
    let is_filled = |depth: f32, params: CleanParams, color: [u8; 3]| {
        let (frame, mask) = holed(depth, color);
        let value = value_at(&clean(&frame, &mask, &Seeds::default(), params).expect("a subject"), 105.0, 120.0);
        assert!(value == 0.0 || value == 1.0, "{value}");
        value == 1.0
    };
    let standard = CleanParams::default();
    assert!(is_filled(0.1, standard, BLUE) && is_filled(0.1, standard, GREEN));
    assert!(is_filled(0.3, standard, RED), "the mask is not certain");
    assert!(!is_filled(0.1, standard, RED) && !is_filled(0.001, standard, RED));
    let opaque = CleanParams { opaque: true, ..standard };
    assert!(is_filled(0.001, opaque, BLUE) && is_filled(0.001, opaque, GREEN));
    assert!(!is_filled(0.001, opaque, RED), "the background shows through");
}

#[test]
fn without_colors_the_mask_alone_decides() {
    let labels = |mask: &RawMask| clean_without_colors(mask).expect("a subject");
    assert_eq!(wrong(&labels(&uncertain_bar(384, 0.6)), 6.0, in_both), 0);
    assert_eq!(wrong(&labels(&uncertain_bar(384, 0.4)), 6.0, in_block), 0);
}

#[test]
fn decontamination_removes_certain_cells_with_background_colors_near_the_edge() {
    let in_strip = |x: f32, y: f32| is_in(&[150.0..158.0, 60.0..180.0], x, y);
    let kept = mask(384, |x, y| if in_strip(x, y) { 0.97 } else { certain(in_block(x, y)) });
    let params = CleanParams { decontaminate: true, ..CleanParams::default() };
    let labels = |frame: &Frame| {
        on_any_number_of_threads("cells", || clean(frame, &kept, &Seeds::default(), params).expect("a subject"))
    };
    assert_eq!(wrong(&labels(&block_and_bar(BLUE, RED, RED)), 4.0, in_block), 0);
    let alike = picture(|_, _| WHITE);
    assert_eq!(wrong(&labels(&alike), 4.0, |x, y| in_block(x, y) || in_strip(x, y)), 0);
    let standard = cleaned(&block_and_bar(BLUE, RED, RED), &kept);
    assert!(value_at(&standard, 154.0, 120.0) > 0.5, "only with decontamination");
}

/// The block and a separate part, both certain, on a picture with a green square next to them.
fn two_parts() -> (Frame, RawMask) {
    let frame = picture(|x, y| match () {
        () if in_block(x, y) => BLUE,
        () if is_in(&APART, x, y) => RED,
        () if is_in(&[180.0..210.0, 50.0..90.0], x, y) => GREEN,
        () => WHITE,
    });
    (frame, mask(384, |x, y| certain(in_block(x, y) || is_in(&APART, x, y))))
}

fn with(seeds: &Seeds) -> CleanMask {
    let (frame, mask) = two_parts();
    clean(&frame, &mask, seeds, CleanParams::default()).expect("a subject")
}

#[test]
fn a_point_changes_only_a_disc_that_the_mask_has_wrong() {
    let right = Seeds { subject: vec![[100, 120]], background: vec![[10, 10]], ..Seeds::default() };
    assert_eq!(with(&right), with(&Seeds::default()));
    let seeds = Seeds { subject: vec![[195, 70]], background: vec![[240, 200], [196, 71]], ..Seeds::default() };
    let labels = with(&seeds);
    let values = [(195.5, 70.5), (195.5, 68.5), (196.5, 71.5), (195.5, 55.5)].map(|(x, y)| value_at(&labels, x, y));
    assert_eq!(values, [1.0, 1.0, 0.0, 0.0], "a point beside another one has its cell alone");
    let values = [(240.0, 200.0), (100.0, 120.0)].map(|(x, y)| value_at(&labels, x, y));
    assert_eq!(values, [0.0, 1.0]);
}

#[test]
fn a_subject_point_in_an_empty_mask_makes_a_subject() {
    let frame = picture(|_, _| WHITE);
    let mask = mask(384, |_, _| 0.0);
    for point in [[0, 0], [128, 100], [PICTURE.width - 1, PICTURE.height - 1]] {
        let seeds = Seeds { subject: vec![point], ..Seeds::default() };
        let labels = clean(&frame, &mask, &seeds, CleanParams::default()).expect("a subject");
        assert_eq!(value_at(&labels, point[0] as f32, point[1] as f32), 1.0, "{point:?}");
        let seeds = Seeds { background: vec![[point[0].abs_diff(1), point[1]]], ..seeds };
        assert!(
            clean(&frame, &mask, &seeds, CleanParams::default()).is_ok(),
            "{point:?} beside a point of the background"
        );
    }
}

#[test]
fn strokes_override_the_mask_and_are_never_relabelled() {
    let stroke = |x: f32, y: f32| match () {
        () if is_in(&[10.0..30.0, 10.0..14.0], x, y) => Trimap::FOREGROUND,
        () if is_in(&[100.0..104.0, 60.0..180.0], x, y) => Trimap::BACKGROUND,
        () => Trimap::UNKNOWN,
    };
    let places = (0..PICTURE.height).flat_map(|y| (0..PICTURE.width).map(move |x| (x as f32, y as f32)));
    let strokes = Trimap::new(PICTURE, places.map(|(x, y)| stroke(x, y)).collect());
    let labels = with(&Seeds { strokes: Some(strokes), ..Seeds::default() });
    assert_eq!(value_at(&labels, 20.0, 12.0), 1.0);
    assert_eq!(value_at(&labels, 102.0, 120.0), 0.0);
    assert_eq!(value_at(&labels, 80.0, 120.0), 1.0);
}

#[test]
fn background_marked_all_over_leaves_no_subject() {
    let strokes = Trimap::new(PICTURE, vec![Trimap::BACKGROUND; PICTURE.area()]);
    let (frame, mask) = two_parts();
    let seeds = Seeds { strokes: Some(strokes), ..Seeds::default() };
    assert!(clean(&frame, &mask, &seeds, CleanParams::default()).is_err());
}
