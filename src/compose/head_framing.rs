//! Head-and-shoulders crop: measures the head on the cutout and computes the portrait's window.
//!
//! The eyes lie on the upper third line, the face is centred horizontally, and there is headroom above the hair.
//! Background fills the window beyond the picture. At a border that crops the person, however, the window ends, so that
//! no straight crop edge floats on the background. Conflicts relax first the window's size, then eye line and centring;
//! the whole head is always visible.

use super::SUBJECT_ALPHA;
use crate::image::{Alpha, Face, Rect, Size};
use std::ops::Range;

/// Coverage, of 255, from which a pixel belongs to the head; fainter wisps of hair may leave the window.
const HEAD_ALPHA: u8 = 64;
/// Search range for hair and hats around the face: above its box in face heights, aside in face widths from its centre.
const HAIR_SEARCH_ABOVE: f32 = 1.5;
const HAIR_SEARCH_ASIDE: f32 = 1.1;
/// Search range for the shoulders below the face, in face widths from its centre. The lowest row found counts.
const SHOULDER_SEARCH_ASIDE: f32 = 1.5;
/// Share of rows in contact with a side of the picture from which that side crops the person.
const CROPPED_ROWS_SHARE: f32 = 0.02;

/// Height of the window in face heights: head and shoulders.
const WINDOW_HEIGHT: f64 = 2.9;
/// Position of the eyes, as a share of the window's height.
const EYE_LINE: f64 = 1.0 / 3.0;
/// Space above the hair in face heights, and its minimum where the picture ends early.
const HEADROOM: f64 = 0.2;
const MIN_HEADROOM: f64 = 0.08;
/// Space left and right of the head, in face heights.
const SIDE_MARGIN: f64 = 0.15;
/// Smallest share to which the window shrinks before centring is relaxed for a cropped side.
const MAX_SHRINK: f64 = 0.8;
/// Maximum of lengths in pixels, far beyond any canvas, so that sums do not overflow.
const MAX_LENGTH: f64 = 1e9;

/// A head and the body below it, in pixels of its picture; see [`Head::measured`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// Column of the face's centre.
    pub middle: f64,
    /// Row of the eyes.
    pub eyes: f64,
    /// First row of the hair.
    pub top: f64,
    /// First column of the head with its hair.
    pub left: f64,
    /// The column after the last one of the head.
    pub right: f64,
    /// The row below the chin.
    pub chin: f64,
    /// Height of the face.
    pub face: f64,
    /// The row below the person's last row, in the columns around the head.
    pub bottom: f64,
    /// Whether the picture's upper border crops the head.
    pub cut_above: bool,
    /// Whether the left border crops the person.
    pub cut_left: bool,
    /// Whether the right border crops the person.
    pub cut_right: bool,
}

impl Head {
    /// Measures the head around `face` on the coverage of `cutout`.
    #[must_use]
    pub fn measured(cutout: &impl Alpha, face: &Face) -> Self {
        let size = cutout.size();
        let (width, height) = (face.right - face.left, face.bottom - face.top);
        let middle = (face.left + face.right) / 2.0;
        let covers = |x: usize, y: usize, least: u8| cutout.alpha(x as u32, y as u32) >= least;
        let columns = |reach: f32| span(middle - reach * width, middle + reach * width, size.width);
        let rows = |first: f32, last: f32| span(first, last, size.height);
        let is_covered = |y: usize, columns: &Range<usize>| columns.clone().any(|x| covers(x, y, HEAD_ALPHA));

        let over_face = columns(0.5);
        let above = rows(face.top - HAIR_SEARCH_ABOVE * height, face.top);
        let hair = above.rev().take_while(|&y| is_covered(y, &over_face)).last();
        let top = hair.map_or(face.top.max(0.0), |y| y as f32);

        let eyes = (face.landmarks[0][1] + face.landmarks[1][1]) / 2.0;
        // Below the midpoint of eyes and chin the rows may contain shoulders.
        let head_rows = rows(top, (eyes + face.bottom) / 2.0);
        // From the centre outwards while the coverage is contiguous.
        let covered = |x: &usize| head_rows.clone().any(|y| covers(*x, y, HEAD_ALPHA));
        let aside = columns(HAIR_SEARCH_ASIDE);
        let centre = span(middle, middle, size.width).start;
        let left = (aside.start..centre).rev().take_while(covered).last();
        let right = (centre..aside.end).take_while(covered).last();
        let left = left.map_or(face.left, |x| face.left.min(x as f32));
        let right = right.map_or(face.right, |x| face.right.max((x + 1) as f32));

        let under = columns(SHOULDER_SEARCH_ASIDE);
        let mut below = rows(face.bottom, size.height as f32).rev();
        let bottom = below.find(|&y| under.clone().any(|x| covers(x, y, HEAD_ALPHA)));

        // The rows of a portrait of typical size.
        let clipped_window = rows(top, eyes + (1.0 - EYE_LINE as f32) * WINDOW_HEIGHT as f32 * height);
        let is_cut = |x: usize| {
            let reached = clipped_window.clone().filter(|&y| covers(x, y, SUBJECT_ALPHA)).count();
            reached as f32 > CROPPED_ROWS_SHARE * clipped_window.len() as f32
        };
        Self {
            middle: middle.into(),
            eyes: eyes.into(),
            top: top.into(),
            left: left.into(),
            right: right.into(),
            chin: face.bottom.into(),
            face: height.into(),
            bottom: bottom.map_or(face.bottom, |y| (y + 1) as f32).into(),
            cut_above: is_covered(0, &over_face) && top < 1.0,
            cut_left: is_cut(0),
            cut_right: is_cut(size.width as usize - 1),
        }
    }

    /// A head that fills a picture of `size`: for memory bounds before the face is detected.
    #[must_use]
    pub fn anywhere(size: Size) -> Self {
        let (width, height) = (f64::from(size.width), f64::from(size.height));
        Self {
            middle: width / 2.0,
            eyes: height / 3.0,
            top: 0.0,
            left: 0.0,
            right: width,
            chin: height,
            face: height,
            bottom: height,
            cut_above: false,
            cut_left: false,
            cut_right: false,
        }
    }
}

/// The columns or rows `first..last`, clamped to a side of `side` pixels; at least one.
fn span(first: f32, last: f32, side: u32) -> Range<usize> {
    let side = side as usize;
    let low = (first.max(0.0) as usize).min(side - 1);
    low..(last.max(0.0).ceil() as usize).min(side).max(low + 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) size: Size,
    pub(super) from: Rect,
    /// Columns of the window to the left of that part, and rows above it.
    pub(super) before: (u32, u32),
}

/// The window of the aspect of `shape` around `head`, in a picture of size `source`.
pub(super) fn window(head: &Head, shape: Size, source: Size) -> Window {
    let head = head.clamped(source);
    let aspect = f64::from(shape.width.max(1)) / f64::from(shape.height.max(1));
    let height = head.height(aspect, source).clamp(1.0, MAX_LENGTH).round();
    let size = Size::new(shape.width_at(height as u32), height as u32);
    let top = head.first_row(f64::from(size.height)).floor() as i64;
    let left = head.first_column(f64::from(size.width), source).round() as i64;
    let (columns, left) = clipped(left, size.width, source.width);
    let (rows, top) = clipped(top, size.height, source.height);
    let from = Rect { left: columns.0, top: rows.0, width: columns.1, height: rows.1 };
    Window { size, from, before: (left, top) }
}

/// Clips a window of `length` that begins at `first` to a side of `side` pixels. Returns start and length of the
/// visible part, and the length of the window before it. At least one pixel is visible, whatever the rounding.
pub(super) fn clipped(first: i64, length: u32, side: u32) -> ((u32, u32), u32) {
    let first = first.clamp(1 - i64::from(length), i64::from(side) - 1);
    let low = first.max(0);
    let high = (first + i64::from(length)).min(i64::from(side));
    ((low as u32, (high - low) as u32), (low - first) as u32)
}

impl Head {
    /// The head with values clamped to its picture and in order.
    fn clamped(&self, source: Size) -> Self {
        let (width, height) = (f64::from(source.width), f64::from(source.height));
        // `max` before `min`: both turn a NaN into a bound.
        let within = |value: f64, low: f64, high: f64| value.max(low).min(high);
        let top = within(self.top, 0.0, height - 1.0);
        let chin = within(self.chin, top + 1.0, height);
        let middle = within(self.middle, 0.0, width);
        Self {
            middle,
            eyes: within(self.eyes, top, chin),
            top,
            left: within(self.left, 0.0, middle),
            right: within(self.right, middle, width),
            chin,
            face: within(self.face, 1.0, height.max(1.0)),
            bottom: within(self.bottom, chin, height),
            ..*self
        }
    }

    fn least_top(&self) -> f64 {
        if self.cut_above { self.top } else { self.top - MIN_HEADROOM * self.face }
    }

    fn height(&self, aspect: f64, source: Size) -> f64 {
        // Next to a cropped person there is no space: only the head must be visible, and it need not be centred.
        let across = if self.cut_left || self.cut_right {
            (self.right - self.left) / aspect
        } else {
            2.0 * ((self.middle - self.left).max(self.right - self.middle) + SIDE_MARGIN * self.face) / aspect
        };
        let down = (self.chin - self.eyes) / (1.0 - EYE_LINE);
        let least = across.max(down).max(self.chin - self.least_top());
        let room = if self.cut_above { 0.0 } else { HEADROOM * self.face };
        let usual = (WINDOW_HEIGHT * self.face).max((self.eyes - self.top + room) / EYE_LINE).max(least);
        // Down to the person's end: with the eyes on the third or, if that leaves too little, with all headroom.
        let below = ((self.bottom - self.eyes) / (1.0 - EYE_LINE)).max(self.bottom - self.least_top());
        let usual = usual.min(below);
        // Largest height at which the window ends at the cropped sides.
        let above = if self.cut_above { self.eyes / EYE_LINE } else { MAX_LENGTH };
        let left = if self.cut_left { 2.0 * self.middle / aspect } else { MAX_LENGTH };
        let right = if self.cut_right { 2.0 * (f64::from(source.width) - self.middle) / aspect } else { MAX_LENGTH };
        usual.min(above.min(left).min(right).max(MAX_SHRINK * usual)).max(least)
    }

    fn first_row(&self, height: f64) -> f64 {
        let by_eyes = (self.eyes - EYE_LINE * height).min(self.least_top());
        let by_eyes = if self.cut_above { by_eyes.max(0.0) } else { by_eyes };
        by_eyes.min(self.bottom - height)
    }

    fn first_column(&self, width: f64, source: Size) -> f64 {
        let (centred, last) = (self.middle - width / 2.0, f64::from(source.width) - width);
        let at_borders = match (self.cut_left, self.cut_right) {
            (false, false) => return centred,
            (true, false) => centred.max(0.0),
            (false, true) => centred.min(last),
            (true, true) => centred.max(last.min(0.0)).min(last.max(0.0)),
        };
        at_borders.min(self.left).max(self.right - width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Frame;
    use crate::image::tests::drawn;
    use proptest::prelude::*;

    const SOURCE: Size = Size::new(1000, 1200);
    const SQUARE: Size = Size::new(1, 1);

    /// A centred head above a whole body.
    const TYPICAL: Head = Head {
        middle: 500.0,
        eyes: 400.0,
        top: 300.0,
        left: 410.0,
        right: 590.0,
        chin: 520.0,
        face: 200.0,
        bottom: 1200.0,
        cut_above: false,
        cut_left: false,
        cut_right: false,
    };

    /// First column and row of the window, and column and row after the last, in pixels of the source.
    fn sides(window: Window) -> [f64; 4] {
        let Window { size, from, before } = window;
        let (left, top) = (f64::from(from.left) - f64::from(before.0), f64::from(from.top) - f64::from(before.1));
        [left, top, left + f64::from(size.width), top + f64::from(size.height)]
    }

    fn window_of(head: Head) -> [f64; 4] {
        sides(window(&head, SQUARE, SOURCE))
    }

    #[test]
    fn head_and_shoulders_with_the_eyes_on_the_third() {
        let [left, top, right, bottom] = window_of(TYPICAL);
        assert_eq!((right - left, bottom - top), (580.0, 580.0), "2.9 faces");
        assert_eq!((left + right) / 2.0, 500.0);
        assert!(((400.0 - top) / 580.0 - EYE_LINE).abs() < 2e-3, "{top}");
        // High hair needs a larger window, with headroom above the hair and an unchanged eye line.
        let [_, top, _, bottom] = window_of(Head { top: 180.0, ..TYPICAL });
        assert!(top <= 140.0 && ((400.0 - top) / (bottom - top) - EYE_LINE).abs() < 3e-3);
    }

    #[test]
    fn a_head_cropped_above_touches_the_window() {
        let cut = Head { eyes: 120.0, top: 0.0, chin: 240.0, cut_above: true, ..TYPICAL };
        let [_, top, _, bottom] = window_of(cut);
        assert_eq!(top, 0.0);
        assert!(bottom - top <= 2.9 * 200.0);
        let whole = Head { cut_above: false, ..cut };
        assert!(window_of(whole)[1] < 0.0, "headroom above a head that only touches the border");
    }

    #[test]
    fn a_window_ends_at_a_cropped_side() {
        let at_left = Head { middle: 150.0, left: 60.0, right: 240.0, cut_left: true, ..TYPICAL };
        let [left, _, right, _] = window_of(at_left);
        assert_eq!(left, 0.0);
        assert!((right - 150.0) < 400.0, "the window shrinks before it loses its centring: {right}");
        let at_right = Head { middle: 850.0, left: 760.0, right: 940.0, cut_left: false, cut_right: true, ..at_left };
        assert_eq!(window_of(at_right)[2], 1000.0);
        // Far from the sides, or uncropped, the face is centred.
        assert_eq!(window_of(Head { cut_left: true, cut_right: true, ..TYPICAL })[0], 210.0);
        let [left, _, right, _] = window_of(Head { cut_left: false, ..at_left });
        assert_eq!((left + right) / 2.0, 150.0);
        assert!(left < 0.0);
    }

    fn cutout(size: Size, covers: impl Fn(u32, u32) -> bool) -> Frame {
        drawn(size.width, size.height, |x, y| if covers(x, y) { [9, 9, 9, 255] } else { [0; 4] })
    }

    fn face(left: f32, top: f32, width: f32, height: f32) -> Face {
        let at = |x: f32, y: f32| [left + x * width, top + y * height];
        let landmarks = [at(0.3, 0.4), at(0.7, 0.4), at(0.5, 0.6), at(0.35, 0.8), at(0.65, 0.8)];
        Face { left, top, right: left + width, bottom: top + height, landmarks, score: 0.9 }
    }

    #[test]
    fn a_head_is_measured_with_its_hair_and_its_shoulders() {
        let size = Size::new(400, 500);
        // Hair from 60 to 340 across, from 50 down; shoulders from 300 down but in the first ten columns; a lamp above.
        let person = |x: u32, y: u32| {
            ((120..280).contains(&x) && (50..320).contains(&y)) || (x >= 10 && (320..450).contains(&y)) || y < 20
        };
        let head = Head::measured(&cutout(size, person), &face(150.0, 100.0, 100.0, 140.0));
        assert_eq!((head.top, head.left, head.right, head.bottom), (50.0, 120.0, 280.0, 450.0));
        assert_eq!((head.middle, head.eyes, head.chin, head.face), (200.0, 156.0, 240.0, 140.0));
        assert_eq!((head.cut_above, head.cut_left, head.cut_right), (false, false, true));
        let close = Head::measured(&cutout(size, |x, y| x > 30 && y < 400), &face(150.0, 40.0, 150.0, 200.0));
        assert!(close.cut_above && close.top == 0.0 && !close.cut_left && close.cut_right);
        assert_eq!(close.bottom, 400.0);
    }

    fn any_float() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => -300.0..1500.0_f32, 1 => -1e30..1e30_f32,
            1 => prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), Just(0.0)],
        ]
    }

    proptest! {
        #[test]
        fn a_typical_head_keeps_every_framing_rule(
            (width, height) in (300..2000_u32, 300..2000_u32), (x, y) in (0.1..0.9_f64, 0.2..0.7_f64), size in 0.05..0.3_f64,
            hair in 0.0..0.8_f64, (across, down) in (1..40_u32, 1..40_u32), cut in any::<[bool; 3]>(), below in 0.0..1.0_f64,
        ) {
            let source = Size::new(width, height);
            let (width, height) = (f64::from(width), f64::from(height));
            let face = size * height;
            let (middle, eyes) = (x * width, y * height);
            let half = (0.4 + 0.3 * hair) * face;
            let top = if cut[0] { 0.0 } else { (eyes - (0.5 + hair) * face).max(0.0) };
            let chin = (eyes + 0.6 * face).min(height);
            let head = Head {
                middle, eyes, top, chin, face,
                left: (middle - half).max(0.0),
                right: (middle + half).min(width),
                bottom: chin + below * (height - chin),
                cut_above: cut[0], cut_left: cut[1], cut_right: cut[2],
            };
            let shape = Size::new(across, down);
            let window = window(&head, shape, source);
            let [left, first, right, last] = sides(window);
            // The aspect, within a pixel of rounding.
            prop_assert_eq!(window.size.width, shape.width_at(window.size.height));
            let pixel = 1.0 + f64::from(across) / f64::from(down);
            prop_assert!(left <= head.left + pixel && right >= head.right - pixel, "{:?} {:?}", head, window);
            prop_assert!(first <= head.top + pixel && last >= head.chin - pixel, "{:?} {:?}", head, window);
            // The body ends at the window's end or below it.
            prop_assert!(last <= head.bottom + pixel, "{:?} {:?}", head, window);
            let eyes_at = (eyes - first) / (last - first);
            let is_free = last < head.bottom - pixel && cut == [false; 3];
            if is_free {
                prop_assert!((eyes_at - EYE_LINE).abs() < 0.02 + 2.0 / (last - first), "{eyes_at} {:?} {:?}", head, window);
            }
            if !cut[1] && !cut[2] {
                prop_assert!(((left + right) / 2.0 - middle).abs() <= 1.0);
            }
        }

        #[test]
        fn no_head_panics_or_gives_a_window_outside_the_picture(
            numbers in proptest::collection::vec(any_float(), 8), cut in any::<[bool; 3]>(),
            (width, height) in (1..3000_u32, 1..3000_u32), (across, down) in (1..u32::MAX, 1..u32::MAX),
        ) {
            let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
            let [middle, eyes, top, left, right, chin, face, bottom] = numbers[..] else { unreachable!() };
            let head = Head {
                middle, eyes, top, left, right, chin, face, bottom,
                cut_above: cut[0], cut_left: cut[1], cut_right: cut[2],
            };
            let source = Size::new(width, height);
            for shape in [Size::new(across, down), Size::new(across % 20 + 1, down % 20 + 1)] {
                let Window { size, from, before } = window(&head, shape, source);
                prop_assert!(from.width > 0 && from.height > 0);
                prop_assert!(from.left + from.width <= width && from.top + from.height <= height);
                prop_assert!(before.0.checked_add(from.width).is_some_and(|end| end <= size.width));
                prop_assert!(before.1.checked_add(from.height).is_some_and(|end| end <= size.height));
            }
        }

        #[test]
        fn any_face_can_be_measured(
            numbers in proptest::collection::vec(any_float(), 14), (width, height) in (1..40_u32, 1..40_u32), every in 1..9_u32,
        ) {
            let landmarks = std::array::from_fn(|at| [numbers[4 + 2 * at], numbers[5 + 2 * at]]);
            let face = Face { left: numbers[0], top: numbers[1], right: numbers[2], bottom: numbers[3], landmarks, score: 0.5 };
            let size = Size::new(width, height);
            let head = Head::measured(&cutout(size, |x, y| (x * 7 + y * 3) % every == 0), &face);
            let _ = window(&head, SQUARE, size);
        }
    }
}
