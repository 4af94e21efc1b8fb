//! Ground shadow: contact shadow and cast shadow of a subject that stands in the background picture.
//!
//! *Contact shadow*: a dark, narrow band along the lower silhouette, in the columns whose lower end is near the lowest
//! point. Higher parts do not touch the ground.
//!
//! *Cast shadow*: the silhouette projected onto the ground. A point `h` above the lowest point falls `h · length` away
//! from it, foreshortened. The penumbra widens with the distance: three blurs of growing σ, mixed by `h`.
//!
//! Computed on a grid of [`MAX_CELLS`] cells along the subject's longer side. A subject cropped by the picture's lower
//! border has no visible ground and no shadow.

use super::shadow::{ShadowGrid, reach};
use super::{Grounding, Light};
use crate::image::{Frame, Rect, Size};
use backdrop_kernels::gaussian::{self, Border};
use rayon::prelude::*;

/// Maximum number of cells along the subject's longer side.
const MAX_CELLS: usize = 224;
/// Upper bound on the memory of the grid and its blurs, in pixels of four bytes: planes for the coverage, two blurs of
/// the contact shadow, three of the cast shadow and the result, each at most 3 × 3 subjects large.
pub(super) const MAX_PIXELS: usize = 7 * 9 * MAX_CELLS * MAX_CELLS;

/// Coverage, of 255, from which the subject hides the ground.
const OPAQUE_ALPHA: f32 = 128.0;
/// Share of the subject's width in contact with the picture's lower border above which it counts as cropped.
const CROPPED_SHARE: f32 = 0.02;
/// Maximum height of ground contact above the lowest point, as a share of the subject's longer side: contact points
/// farther back are higher in the picture.
const CONTACT_DEPTH: f32 = 0.075;
/// Foreshortening of lengths on the ground towards and away from the viewer.
const FORESHORTENING: f32 = 0.36;
/// Smallest vertical extent of a shadow, as a share of the subject's height: under side light its depth remains.
const MIN_HEIGHT: f32 = 0.09;
/// Opacity of the contact shadow, which also blocks skylight, and its increase with the light's shadow strength.
const CONTACT_OPACITY: [f32; 2] = [0.35, 0.75];

/// Coverage of the subject on the reduced grid.
pub(super) struct Silhouette {
    /// Coverage 0..=255, row-major.
    cells: Vec<f32>,
    columns: usize,
    rows: usize,
    /// Side of a cell in pixels.
    side: usize,
}

/// Side in pixels of a cell for a subject of this size.
pub(super) fn cell_side(subject: Rect) -> usize {
    (subject.width.max(subject.height) as usize).div_ceil(MAX_CELLS).max(1)
}

impl Silhouette {
    fn new(canvas: &Frame, subject: Rect) -> Self {
        let side = cell_side(subject);
        let (columns, rows) = ((subject.width as usize).div_ceil(side), (subject.height as usize).div_ceil(side));
        let width = canvas.size().width as usize;
        let pixels = canvas.pixels().as_chunks::<4>().0;
        let mut cells = vec![0.0; columns * rows];
        cells.par_chunks_mut(columns).enumerate().for_each(|(row, cells)| {
            let top = subject.top as usize + row * side;
            let bottom = (top + side).min((subject.top + subject.height) as usize);
            for y in top..bottom {
                let line = &pixels[y * width + subject.left as usize..][..subject.width as usize];
                for (cell, line) in cells.iter_mut().zip(line.chunks(side)) {
                    *cell += line.iter().map(|pixel| f32::from(pixel[3])).sum::<f32>();
                }
            }
        });
        Self::of_sums(cells, subject)
    }

    /// From the mean coverage (0..=1) of each cell of `subject`, row-major. Pixels beyond `subject` count as 0.
    #[cfg(feature = "gpu")]
    pub(super) fn of_means(means: Vec<f32>, subject: Rect) -> Self {
        let pixels = 255.0 * cell_side(subject).pow(2) as f32;
        // The sums are whole numbers below 2²⁴, exact in f32.
        Self::of_sums(means.into_iter().map(|mean| (mean * pixels).round()).collect(), subject)
    }

    /// From the summed coverage of each cell of `subject`, row-major.
    fn of_sums(mut cells: Vec<f32>, subject: Rect) -> Self {
        let side = cell_side(subject);
        let columns = (subject.width as usize).div_ceil(side);
        let within = |at: usize, length: u32| side.min(length as usize - at * side);
        for (row, cells) in cells.chunks_mut(columns).enumerate() {
            for (column, cell) in cells.iter_mut().enumerate() {
                *cell /= (within(column, subject.width) * within(row, subject.height)) as f32;
            }
        }
        let rows = cells.len() / columns;
        Self { cells, columns, rows, side }
    }

    /// Lower end of each column in cells; `None` for a column without an opaque cell.
    fn bottoms(&self) -> Vec<Option<f32>> {
        let cell = |row: usize, column: usize| self.cells[row * self.columns + column];
        (0..self.columns)
            .map(|column| {
                let row = (0..self.rows).rev().find(|row| cell(*row, column) >= OPAQUE_ALPHA)?;
                let below = if row + 1 < self.rows { cell(row + 1, column) / 255.0 } else { 0.0 };
                Some(row as f32 + 1.0 + below)
            })
            .collect()
    }

    /// Coverage, 0..=1, interpolated bilinearly; zero outside.
    fn at(&self, x: f32, y: f32) -> f32 {
        let (left, top) = ((x - 0.5).floor(), (y - 0.5).floor());
        let (across, down) = (x - 0.5 - left, y - 0.5 - top);
        let cell = |column: f32, row: f32| {
            let inside = column >= 0.0 && row >= 0.0 && column < self.columns as f32 && row < self.rows as f32;
            if inside { self.cells[row as usize * self.columns + column as usize] / 255.0 } else { 0.0 }
        };
        let upper = cell(left, top) * (1.0 - across) + cell(left + 1.0, top) * across;
        let lower = cell(left, top + 1.0) * (1.0 - across) + cell(left + 1.0, top + 1.0) * across;
        upper + down * (lower - upper)
    }
}

/// The shadow's grid: cells of the silhouette's size, with the corner at (`left`, `top`) relative to the silhouette.
#[derive(Clone, Copy)]
struct Grid {
    left: f32,
    top: f32,
    columns: usize,
    rows: usize,
}

impl Grid {
    fn plane(self, value: impl Fn(f32, f32) -> f32 + Sync) -> Vec<[f32; 1]> {
        let mut plane = vec![[0.0]; self.columns * self.rows];
        plane.par_chunks_mut(self.columns).enumerate().for_each(|(row, cells)| {
            let y = self.top + row as f32 + 0.5;
            for (column, cell) in cells.iter_mut().enumerate() {
                *cell = [value(self.left + column as f32 + 0.5, y)];
            }
        });
        plane
    }
}

/// The shadow of `subject` on `canvas`; `place` is the source's rectangle on the canvas, whose border may crop the
/// subject. `None` without a ground or shadow strength, and for a subject above the horizon.
pub(super) fn ground_shadow(canvas: &Frame, subject: Rect, place: Rect, grounding: &Grounding) -> Option<ShadowGrid> {
    let scene = GroundScene::of(canvas.size(), subject, place, grounding)?;
    if scene.touches_border && is_cropped(last_row(canvas, subject).map(|[.., alpha]| *alpha), subject) {
        return None;
    }
    scene.shadow(&Silhouette::new(canvas, subject))
}

fn last_row(canvas: &Frame, subject: Rect) -> impl Iterator<Item = &[u8; 4]> {
    let Rect { left, top, width, height } = subject;
    let from = (top + height - 1) as usize * canvas.size().width as usize + left as usize;
    canvas.pixels().as_chunks::<4>().0[from..][..width as usize].iter()
}

/// Whether the picture's border crops the subject, by the coverage (0..=255) of its last row.
pub(super) fn is_cropped(last_row: impl Iterator<Item = u8>, subject: Rect) -> bool {
    let solid = last_row.filter(|&alpha| f32::from(alpha) >= OPAQUE_ALPHA).count();
    solid as f32 > CROPPED_SHARE * subject.width as f32
}

/// A subject on a ground, under a light that casts a shadow.
pub(super) struct GroundScene {
    light: Light,
    horizon: f32,
    height: u32,
    subject: Rect,
    /// Whether the subject ends at the lower border of its source or of the canvas, which may crop it.
    pub(super) touches_border: bool,
}

impl GroundScene {
    /// The scene of `subject` on a canvas of `size`; `place` is the source's rectangle on it. `None` without a ground
    /// or shadow strength, and for a subject above the horizon.
    pub(super) fn of(size: Size, subject: Rect, place: Rect, grounding: &Grounding) -> Option<Self> {
        let light = clamped(&grounding.light);
        let horizon = grounding.horizon.filter(|horizon| horizon.is_finite())? * size.height as f32;
        let bottom = subject.top + subject.height;
        let touches_border = bottom >= place.top + place.height || bottom >= size.height;
        let has_shadow = light.strength > 0.0 && bottom as f32 > horizon;
        has_shadow.then_some(Self { light, horizon, height: size.height, subject, touches_border })
    }

    pub(super) fn shadow(&self, silhouette: &Silhouette) -> Option<ShadowGrid> {
        let Self { light, horizon, height: canvas_height, subject, .. } = *self;
        let bottoms = silhouette.bottoms();
        let lowest = bottoms.iter().flatten().copied().fold(f32::NEG_INFINITY, f32::max);
        if !lowest.is_finite() {
            return None;
        }
        let side = silhouette.side as f32;
        let longest = silhouette.columns.max(silhouette.rows) as f32;
        let blurs = [0.006 + 0.012 * light.softness, 0.02 + 0.05 * light.softness, 0.035 + 0.1 * light.softness];
        let blurs = blurs.map(|share| share * longest);
        // Offset of the shadow, right and down, per cell of height above the lowest point.
        let (sine, cosine) = light.shadow_angle.to_radians().sin_cos();
        let tall = light.shadow_length * sine * FORESHORTENING;
        let down =
            if tall.abs() >= MIN_HEIGHT { tall } else { MIN_HEIGHT.copysign(if sine == 0.0 { -1.0 } else { tall }) };
        let across = light.shadow_length * cosine;
        let height = silhouette.rows as f32;
        let margin = (reach(blurs[2]) + 2) as f32;
        let grid = {
            let (left, right) = ((across * height).min(0.0), (across * height).max(0.0) + silhouette.columns as f32);
            // The contact shadow needs room around the lowest points even if the cast shadow is short.
            let least = CONTACT_DEPTH * longest;
            let (top, end) = (lowest + (down * height).min(-least), lowest + (down * height).max(0.0));
            let (columns, rows) = ((right - left + 2.0 * margin) as usize + 1, (end - top + 2.0 * margin) as usize + 1);
            Grid { left: left - margin, top: top - margin, columns, rows }
        };
        let mut cast = [(); 3].map(|()| {
            grid.plane(|x, y| {
                let above = (y - lowest) / down;
                if (0.0..=height).contains(&above) { silhouette.at(x - above * across, lowest - above) } else { 0.0 }
            })
        });
        for (plane, sigma) in cast.iter_mut().zip(blurs) {
            gaussian::cpu::blur(plane, grid.columns, sigma, Border::Zero);
        }
        let [tight, wide] = contact(&bottoms, lowest, longest, grid);
        let fade = 0.03 * canvas_height as f32;
        let origin = [subject.left as f32, subject.top as f32];
        let [near, middle, far] = cast;
        let mut opacity = tight;
        opacity.par_chunks_mut(grid.columns).enumerate().for_each(|(row, cells)| {
            let y = grid.top + row as f32 + 0.5;
            let share = ((y - lowest) / down / height).clamp(0.0, 1.0);
            // Skylight brightens distant parts of the shadow.
            let strength = light.strength * (1.0 - (0.45 + 0.4 * light.softness) * share);
            // No ground above the horizon.
            let on_ground = ((origin[1] + y * side - horizon) / fade).clamp(0.0, 1.0);
            for (column, cell) in cells.iter_mut().enumerate() {
                let at = row * grid.columns + column;
                let ([near], [middle], [far]) = (near[at], middle[at], far[at]);
                let blurred = if share < 0.4 {
                    near + share / 0.4 * (middle - near)
                } else {
                    middle + (share - 0.4) / 0.6 * (far - middle)
                };
                let contact = CONTACT_OPACITY[0] + CONTACT_OPACITY[1] * light.strength;
                let touched = (contact * (1.2 * cell[0] + 1.3 * wide[at][0])).min(0.9);
                *cell = [on_ground * (1.0 - (1.0 - touched) * (1.0 - strength * blurred.clamp(0.0, 1.0)))];
            }
        });
        Some(ShadowGrid::from_cells(
            opacity,
            grid.columns,
            silhouette.side,
            origin[0] + grid.left * side,
            origin[1] + grid.top * side,
        ))
    }
}

/// Contact shadow along the columns that touch the ground: a tight and a wide band.
fn contact(bottoms: &[Option<f32>], lowest: f32, longest: f32, grid: Grid) -> [Vec<[f32; 1]>; 2] {
    let depth = (CONTACT_DEPTH * longest).max(1.0);
    let thick = (0.009 * longest).max(0.6);
    let touching: Vec<Option<(f32, f32)>> = bottoms
        .iter()
        .map(|bottom| {
            let bottom = (*bottom)?;
            let near = 1.0 - (lowest - bottom) / depth;
            (near > 0.0).then_some((bottom, near * near))
        })
        .collect();
    let drawn = |half: f32| {
        grid.plane(|x, y| {
            let column = x.floor();
            let inside = column >= 0.0 && (column as usize) < touching.len();
            match touching.get(column.max(0.0) as usize).copied().flatten().filter(|_| inside) {
                Some((bottom, near)) => near * (half + 0.5 - (y - bottom).abs()).clamp(0.0, 1.0),
                None => 0.0,
            }
        })
    };
    let [mut tight, mut wide] = [drawn(1.6 * thick), drawn(4.5 * thick)];
    gaussian::cpu::blur(&mut tight, grid.columns, 0.007 * longest, Border::Zero);
    gaussian::cpu::blur(&mut wide, grid.columns, 0.04 * longest, Border::Zero);
    [tight, wide]
}

/// `light` with its values clamped to their ranges.
fn clamped(light: &Light) -> Light {
    let within = |value: f32, low: f32, high: f32| if value.is_nan() { low } else { value.clamp(low, high) };
    Light {
        shadow_angle: if light.shadow_angle.is_finite() { light.shadow_angle.rem_euclid(360.0) } else { 90.0 },
        // A longer shadow would leave most pictures, and the grid.
        shadow_length: within(light.shadow_length, 0.0, 1.0),
        softness: within(light.softness, 0.0, 1.0),
        strength: within(light.strength, 0.0, 1.0),
        tint: light.tint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::tests::flattened;
    use crate::compose::{Background, Resize, SUBJECT_ALPHA, Scene};
    use crate::image::color::Color;
    use crate::image::tests;

    const SIZE: Size = Size::new(240, 200);

    fn light(angle: f32, length: f32) -> Light {
        Light { shadow_angle: angle, shadow_length: length, softness: 0.3, strength: 0.6, tint: [1.0; 3] }
    }

    fn on(light: Light, horizon: Option<f32>) -> Option<Grounding> {
        Some(Grounding { light, horizon })
    }

    fn drawn(size: Size, alpha: impl Fn(u32, u32) -> u8) -> Frame {
        tests::drawn(size.width, size.height, |x, y| match alpha(x, y) {
            0 => [0; 4],
            alpha => [200, 60, 40, alpha],
        })
    }

    /// A block on two feet, its lowest row 149.
    fn figure(x: u32, y: u32) -> u8 {
        let body = (90..150).contains(&x) && (40..120).contains(&y);
        let feet = ((90..105).contains(&x) || (135..150).contains(&x)) && (120..150).contains(&y);
        if body || feet { 255 } else { 0 }
    }

    fn stood(picture: Frame, grounding: Option<Grounding>) -> Frame {
        flattened(picture, &Scene { background: Background::Color(Color::WHITE), grounding, ..Scene::default() })
    }

    fn darkness(frame: &Frame, x: u32, y: u32) -> u32 {
        255 - u32::from(frame.pixel(x, y)[1])
    }

    #[test]
    fn the_contact_shadow_is_below_the_feet_and_not_below_the_body() {
        let after = stood(drawn(SIZE, figure), on(light(330.0, 0.05), Some(0.5)));
        let (foot, between, under_body) =
            (darkness(&after, 97, 151), darkness(&after, 120, 151), darkness(&after, 120, 124));
        assert!(foot > 60, "{foot}");
        assert!(foot > 2 * between, "{foot} at a foot, {between} between the feet");
        assert!(under_body < 10, "{under_body} below the body, which touches nothing");
        assert_eq!(darkness(&after, 5, 5), 0);
    }

    #[test]
    fn the_cast_shadow_follows_the_angle_of_the_light() {
        let around = |frame: &Frame, columns: std::ops::Range<u32>, rows: std::ops::Range<u32>| {
            rows.flat_map(|y| columns.clone().map(move |x| (x, y))).map(|(x, y)| darkness(frame, x, y)).sum::<u32>()
        };
        let at = |angle| stood(drawn(SIZE, figure), on(light(angle, 0.7), Some(0.3)));
        let (right, left, down) = (at(0.0), at(180.0), at(90.0));
        assert!(around(&right, 155..235, 110..190) > 4 * around(&right, 5..85, 110..190));
        assert!(around(&left, 5..85, 110..190) > 4 * around(&left, 155..235, 110..190));
        assert!(around(&down, 90..150, 155..190) > 4 * around(&down, 155..215, 155..190));
        let up = at(300.0);
        assert!(around(&up, 155..215, 100..140) > 4 * around(&up, 155..215, 156..196));
    }

    #[test]
    fn a_longer_shadow_reaches_farther_and_a_soft_one_has_a_soft_end() {
        let farthest = |grounding| {
            let after = stood(drawn(SIZE, figure), grounding);
            (0..SIZE.width).rev().find(|x| (100..199).any(|y| darkness(&after, *x, y) > 12)).expect("a shadow")
        };
        let hard = |length| on(light(0.0, length), Some(0.3));
        assert!(farthest(hard(0.7)) > farthest(hard(0.3)) + 20);
        let steepest = |softness| {
            let after = stood(drawn(SIZE, figure), on(Light { softness, ..light(0.0, 0.6) }, Some(0.3)));
            (160..238).map(|x| darkness(&after, x, 145).abs_diff(darkness(&after, x + 1, 145))).max()
        };
        assert!(steepest(0.0) > steepest(1.0), "{:?} and {:?}", steepest(0.0), steepest(1.0));
    }

    #[test]
    fn the_edge_is_tinted_by_the_light_and_the_background() {
        let half = |x: u32, y: u32| if (60..120).contains(&x) && (50..100).contains(&y) { 128 } else { figure(x, y) };
        let plain = stood(drawn(SIZE, half), on(light(90.0, 0.0), None)).pixel(70, 70);
        let tinted = |tint| stood(drawn(SIZE, half), on(Light { tint, ..light(90.0, 0.0) }, None)).pixel(70, 70);
        let (warm, cool) = (tinted([1.6, 1.0, 0.5]), tinted([0.5, 1.0, 1.6]));
        assert!(warm[0] > plain[0] && plain[0] > cool[0], "red {} {} {}", warm[0], plain[0], cool[0]);
        assert_eq!(warm[1], cool[1]);
        let none = stood(drawn(SIZE, half), None).pixel(70, 70);
        // White from behind lifts red, green and blue alike.
        assert!((1..3).all(|channel| plain[channel] > none[channel]), "{plain:?} after {none:?}");
    }

    #[test]
    fn a_cropped_or_floating_subject_and_a_picture_without_ground_have_no_shadow() {
        let clean =
            |frame: &Frame| (0..SIZE.height).all(|y| [20, 60, 170, 220].iter().all(|x| darkness(frame, *x, y) == 0));
        let bust = |x: u32, y: u32| if (80..160).contains(&x) && y >= 80 { 255 } else { 0 };
        assert!(clean(&stood(drawn(SIZE, bust), on(light(0.0, 0.8), Some(0.3)))));
        let resize = Resize { width: Some(240), height: Some(400), max_dim: None };
        let (background, grounding) = (Background::Color(Color::WHITE), on(light(0.0, 0.8), Some(0.1)));
        let larger = flattened(drawn(SIZE, bust), &Scene { resize, background, grounding, ..Scene::default() });
        assert!((300..400).all(|y| darkness(&larger, 120, y) == 0), "on a larger canvas");
        assert!(clean(&stood(drawn(SIZE, figure), on(light(0.0, 0.8), Some(0.8)))), "above the horizon");
        assert!(clean(&stood(drawn(SIZE, figure), on(light(0.0, 0.8), None))));
        assert!(clean(&stood(drawn(SIZE, figure), on(Light { strength: 0.0, ..light(0.0, 0.8) }, Some(0.3)))));
        assert!(!clean(&stood(drawn(SIZE, figure), on(light(0.0, 0.8), Some(0.3)))), "the comparison detects a shadow");
    }

    #[test]
    fn the_shadow_ends_at_the_horizon() {
        let after = stood(drawn(SIZE, figure), on(light(290.0, 1.0), Some(0.6)));
        assert!((0..SIZE.width).all(|x| (0..118).all(|y| figure(x, y) == 255 || darkness(&after, x, y) == 0)));
    }

    #[test]
    fn out_of_range_lights_are_clamped() {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -7.0] {
            let odd =
                Light { shadow_angle: value, shadow_length: value, softness: value, strength: value, tint: [value; 3] };
            let after = stood(drawn(SIZE, figure), on(odd, Some(0.2)));
            assert_eq!(after.pixel(100, 60), [200, 60, 40, 255]);
            stood(drawn(SIZE, figure), on(light(0.0, 0.5), Some(value)));
        }
        for size in [Size::new(1, 1), Size::new(1, 90), Size::new(90, 1), Size::new(3, 2)] {
            let whole = drawn(size, |_, y| if y + 1 < size.height || size.height == 1 { 255 } else { 0 });
            stood(whole, on(light(200.0, 1.0), Some(0.0)));
        }
    }

    #[test]
    fn the_grid_stays_within_its_memory_bound() {
        let square = drawn(Size::new(1000, 1000), |x, y| if x > 3 && x < 996 && y > 3 && y < 990 { 255 } else { 0 });
        let subject = square.covered(SUBJECT_ALPHA).expect("a subject");
        for angle in [0.0, 45.0, 90.0, 180.0, 270.0, 350.0] {
            let soft = Light { softness: 1.0, ..light(angle, 1.0) };
            let grounding = Grounding { light: soft, horizon: Some(0.1) };
            let cast = ground_shadow(&square, subject, Rect::whole(square.size()), &grounding).expect("a shadow");
            assert!(7 * cast.cells() <= MAX_PIXELS, "{} cells at {angle}", cast.cells());
        }
    }

    #[test]
    fn the_shadow_is_independent_of_the_scale() {
        let large = Size::new(SIZE.width * 3, SIZE.height * 3);
        let small = stood(drawn(SIZE, figure), on(light(20.0, 0.5), Some(0.3)));
        let same = stood(drawn(large, |x, y| figure(x / 3, y / 3)), on(light(20.0, 0.5), Some(0.3)));
        let (mut worst, mut sum, mut count) = (0, 0, 0);
        for (x, y) in (4..196).step_by(3).flat_map(|y| (4..236).step_by(3).map(move |x| (x, y))) {
            let off = darkness(&small, x, y).abs_diff(darkness(&same, 3 * x + 1, 3 * y + 1));
            (worst, sum, count) = (worst.max(off), sum + off, count + 1);
        }
        // The contact shadow is steep, and the two grids are not aligned.
        assert!(worst < 32 && sum < count, "{worst} at worst, {sum} over {count} places");
    }
}
