//! Removes green or blue spill of the old background from the subject's edge.
//!
//! A green screen lights the subject before it, and a matte that is slightly too wide leaves screen colour in the edge.
//! Both show on a new background as a green rim. Near the edge, where the background next to it was green (or blue),
//! pixels whose largest channel is green (or blue) lose background colour until that channel is no longer the largest.
//! Other pixels stay, bit for bit: skin (red is largest), white, grey, and pixels far from the edge or before another
//! background.
//!
//! With the mixing model `p = (1-t) f + t s` of a pixel `p` and the background `s` next to it, `t` is the smallest
//! share at which the channel does not exceed the larger of the other two in `f`. Subtracting `t s`, instead of the
//! channel's excess alone, keeps mixed screens from leaving a rim: a blue one with some green would leave a green rim.
//! The remaining colour is made as bright as `f`, to avoid a dark rim of bright subjects; but no darker than `p` with
//! the channel merely limited, and no brighter than `p`, because spill may also be light added to the subject's own.
//!
//! The background is stored on a reduced grid, from pixels without coverage, and extrapolated beneath the subject
//! (pull-push), so that every edge pixel has a background colour.

use super::chamfer::chamfer;
use crate::image::{AlphaMatte, Buffer, Frame, Size};
use backdrop_kernels::pull_push;
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;

/// Side of a cell of the grid, in pixels.
const CELL: usize = 8;
/// Depth inside the subject to which spill is removed: a share of the longer side, and a minimum in pixels.
const REACH_SHARE: f32 = 0.006;
const REACH_PX: f32 = 3.0;
/// Share of the reach in which spill is removed in full.
const FULL: f32 = 0.25;
/// Dominance of a channel in the background, as a share of its value, from which despill starts and is complete: a lawn
/// and a screen are above, a greenish wall is not.
const DOMINANCE: [f32; 2] = [0.1, 0.35];
/// Dominance in encoded light, 0..=1, from which despill starts and is complete: black has no reliable hue.
const EXCESS: [f32; 2] = [0.04, 0.12];
/// Limit of `t`, the background's share of a pixel's light.
const MOST_BACKGROUND: f32 = 0.9;
/// Limit of the gain of the remaining colour. Missing brightness beyond it is added as grey, because the hue is noise.
const MOST_GAIN: f32 = 4.0;
/// Rows that one task works on.
const ROWS: usize = 128;

const GREEN: usize = 1;
const BLUE: usize = 2;
const LUMA: [f32; 3] = [0.2126, 0.7152, 0.0722];

/// The background's colours around the subject, measured before the frame loses them.
#[derive(Clone, Debug)]
pub struct Surroundings {
    size: Size,
    cells: [usize; 2],
    /// Encoded colour, 0..=1, row after row. Empty when no pixel is background.
    colours: Recycled<Vec<[f32; 4]>>,
}

impl Surroundings {
    /// Measures the background of the unmodified `frame`.
    ///
    /// # Panics
    /// When frame and matte differ in size.
    #[must_use]
    pub fn of(frame: &Frame, matte: &AlphaMatte) -> Self {
        let size = frame.size();
        assert_eq!(size, matte.size(), "the matte is of another picture");
        let width = size.width as usize;
        let columns = width.div_ceil(CELL);
        let (pixels, _) = frame.pixels().as_chunks::<4>();
        let rows = pixels.par_chunks(CELL * width).zip(matte.coverage().par_chunks(CELL * width));
        let mut colours = Recycled::for_overwrite(columns * (size.height as usize).div_ceil(CELL));
        colours.par_chunks_mut(columns).zip(rows).for_each_init(
            Recycled::<Vec<[u32; 4]>>::take,
            |sums, (colours, (pixels, coverage))| {
                sums.clear();
                sums.resize(columns, [0; 4]);
                for (pixels, coverage) in pixels.chunks_exact(width).zip(coverage.chunks_exact(width)) {
                    let cells = pixels.chunks(CELL).zip(coverage.chunks(CELL));
                    for (sum, (pixels, coverage)) in sums.iter_mut().zip(cells) {
                        for (pixel, _) in pixels.iter().zip(coverage).filter(|(_, coverage)| **coverage == 0) {
                            // Pixels that were already transparent have no colour.
                            let weight = u32::from(pixel[3]);
                            (0..3).for_each(|channel| sum[channel] += u32::from(pixel[channel]) * weight);
                            sum[3] += weight;
                        }
                    }
                }
                // The weight of a cell of background alone is one.
                let scale = 1.0 / (255 * CELL * CELL) as f32;
                for (to, &[red, green, blue, weight]) in colours.iter_mut().zip(&**sums) {
                    let colour = |sum: u32| sum as f32 * scale / 255.0;
                    *to = [colour(red), colour(green), colour(blue), weight as f32 * scale];
                }
            },
        );
        if !pull_push::cpu::fill(&mut colours, columns) {
            colours.clear();
        }
        Self { size, cells: [columns, (size.height as usize).div_ceil(CELL)], colours }
    }

    /// [`Surroundings::of`] for despill of this `strength`; `None` when the strength is 0.
    ///
    /// # Panics
    /// As [`Surroundings::of`].
    #[must_use]
    pub fn for_strength(frame: &Frame, matte: &AlphaMatte, strength: f32) -> Option<Self> {
        (strength > 0.0).then(|| Self::of(frame, matte))
    }

    /// Whether any of the background could have spilled onto the subject.
    #[must_use]
    pub fn spill(&self) -> bool {
        self.colours.iter().any(|&[red, green, blue, _]| Screen::of([red, green, blue]).is_some())
    }

    /// Background colour at the pixel (`x`, `y`), bilinear.
    fn at(&self, x: usize, y: usize) -> [f32; 3] {
        let between = |at: usize, len: usize| {
            let place = ((at as f32 + 0.5) / CELL as f32 - 0.5).clamp(0.0, (len - 1) as f32);
            let first = (place as usize).min(len.saturating_sub(2));
            (first, (first + 1).min(len - 1), place - first as f32)
        };
        let [columns, rows] = self.cells;
        let ((left, right, across), (above, below, down)) = (between(x, columns), between(y, rows));
        let cell = |column: usize, row: usize| self.colours[row * columns + column];
        let corners = [cell(left, above), cell(right, above), cell(left, below), cell(right, below)];
        std::array::from_fn(|channel| {
            let [a, b, c, d] = corners.map(|colour| colour[channel]);
            let (top, bottom) = (a + (b - a) * across, c + (d - c) * across);
            top + (bottom - top) * down
        })
    }
}

/// Removes green or blue light of the old background from the edge of `cutout`. `strength`: 0 to 1.
///
/// # Panics
/// When the cutout and the frame in which the surroundings were measured differ in size.
pub fn despill(cutout: &mut Frame, surroundings: &Surroundings, strength: f32) {
    let size = cutout.size();
    assert_eq!(size, surroundings.size, "the surroundings are of another picture");
    if strength.is_nan() || strength <= 0.0 || !surroundings.spill() {
        return;
    }
    let strength = strength.min(1.0);
    let width = size.width as usize;
    let reach = (REACH_SHARE * size.longest() as f32).max(REACH_PX);
    let near = Near::of(cutout, reach);
    let (pixels, _) = cutout.pixels_mut().as_chunks_mut::<4>();
    pixels.par_chunks_mut(width).zip(near.thirds.par_chunks(width)).enumerate().for_each(|(y, (pixels, thirds))| {
        for (x, (pixel, &thirds)) in pixels.iter_mut().zip(thirds).enumerate() {
            let weight = near.weights[usize::from(thirds)];
            // Most pixels have no excess of green or blue, whatever their background.
            if weight > 0.0 && pixel[3] > 0 && pixel[GREEN].max(pixel[BLUE]) > pixel[0] {
                despill_pixel(pixel, surroundings.at(x, y), weight * strength);
            }
        }
    });
}

/// Removes the light of the background `around` from one pixel, weighted by `weight`.
fn despill_pixel(pixel: &mut [u8; 4], around: [f32; 3], weight: f32) {
    let Some(screen) = Screen::of(around) else { return };
    let colour: [f32; 3] = std::array::from_fn(|channel| f32::from(pixel[channel]) / 255.0);
    let Some(cleaned) = screen.removed_from(colour) else { return };
    let weight = weight * screen.force;
    for channel in 0..3 {
        let value = colour[channel] + (cleaned[channel] - colour[channel]) * weight;
        pixel[channel] = (value.clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
    }
}

#[derive(Clone, Copy, Debug)]
struct Screen {
    colour: [f32; 3],
    channel: usize,
    force: f32,
}

impl Screen {
    fn of(colour: [f32; 3]) -> Option<Self> {
        let channel = if colour[GREEN] >= colour[BLUE] { GREEN } else { BLUE };
        let [one, other] = others(channel);
        let excess = colour[channel] - colour[one].max(colour[other]);
        if excess <= 0.0 {
            return None;
        }
        let force = smoothstep(DOMINANCE, excess / colour[channel]) * smoothstep(EXCESS, excess);
        (force > 0.0).then_some(Self { colour, channel, force })
    }

    /// `pixel` without this background's light; `None` when the pixel has no excess.
    fn removed_from(&self, pixel: [f32; 3]) -> Option<[f32; 3]> {
        let channel = self.channel;
        let [one, other] = others(channel);
        let limit = pixel[one].max(pixel[other]);
        if pixel[channel] <= limit {
            return None;
        }
        let share = |of: usize| (pixel[channel] - pixel[of]) / (self.colour[channel] - self.colour[of]);
        let share = share(one).min(share(other));
        // By the choice of `share`, the channel now equals the larger of the other two.
        let rest: [f32; 3] = std::array::from_fn(|at| (pixel[at] - share * self.colour[at]).max(0.0));
        let mut limited = pixel;
        limited[channel] = limit;
        let brightness = (luma(rest) / (1.0 - share.min(MOST_BACKGROUND))).clamp(luma(limited), luma(pixel));
        let gain = (brightness / luma(rest).max(f32::EPSILON)).min(MOST_GAIN);
        let largest = rest[0].max(rest[1]).max(rest[2]);
        let gain = gain.min(1.0 / largest.max(f32::EPSILON));
        let grey = brightness - luma(rest) * gain;
        Some(rest.map(|value| value * gain + grey))
    }
}

const fn others(channel: usize) -> [usize; 2] {
    if channel == GREEN { [0, BLUE] } else { [0, GREEN] }
}

fn luma(colour: [f32; 3]) -> f32 {
    colour.iter().zip(LUMA).map(|(value, weight)| value * weight).sum()
}

/// Smooth step from 0 at `from` to 1 at `to`.
fn smoothstep([from, to]: [f32; 2], value: f32) -> f32 {
    let at = ((value - from) / (to - from)).clamp(0.0, 1.0);
    at * at * (3.0 - 2.0 * at)
}

struct Near {
    /// Chamfer distance to the nearest pixel that is not fully covered, in thirds of a pixel, up to 255.
    thirds: Buffer,
    /// Weight by distance: 1 at the edge, falling smoothly to 0 within the reach.
    weights: [f32; 256],
}

impl Near {
    fn of(cutout: &Frame, reach: f32) -> Self {
        // A distance is a byte. A side of 8192 pixels reaches 50 pixels, 150 thirds.
        let reach = reach.min(80.0);
        let margin = reach.ceil() as usize + 1;
        let (width, height) = (cutout.size().width as usize, cutout.size().height as usize);
        let (pixels, _) = cutout.pixels().as_chunks::<4>();
        let mut thirds = cutout.buffer(pixels.len());
        let strips = thirds.par_chunks_mut(ROWS * width).enumerate();
        strips.for_each_init(Recycled::<Vec<u16>>::take, |distances, (strip, out)| {
            let first = (strip * ROWS).saturating_sub(margin);
            let last = (strip * ROWS + ROWS + margin).min(height);
            let part =
                pixels[first * width..last * width].iter().map(|pixel| if pixel[3] < 255 { 0 } else { u16::MAX });
            distances.clear();
            distances.extend(part);
            chamfer(distances, width);
            let skipped = (strip * ROWS - first) * width;
            out.iter_mut().zip(&distances[skipped..]).for_each(|(out, &thirds)| *out = thirds.min(255) as u8);
        });
        let weights = std::array::from_fn(|thirds| 1.0 - smoothstep([FULL * reach, reach], thirds as f32 / 3.0));
        Self { thirds, weights }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Buffer;
    use crate::image::tests::changed;

    const SIZE: Size = Size::new(200, 160);
    const CENTRE: [f32; 2] = [97.0, 83.0];
    const RADIUS: f32 = 50.0;
    const SCREEN: [u8; 3] = [30, 190, 50];
    const BLUE_SCREEN: [u8; 3] = [25, 60, 200];
    const WALL: [u8; 3] = [235, 233, 228];

    /// A disc before a background: the picture, its matte, and its cutout with the disc's own colours.
    struct Disc {
        frame: Frame,
        matte: AlphaMatte,
        cutout: Frame,
    }

    /// `colour`: the disc's, by the distance to its edge in pixels, negative outside.
    fn disc(ground: [u8; 3], colour: impl Fn(f32) -> [u8; 3]) -> Disc {
        let (mut frame, mut coverage, mut cutout) = (Vec::new(), Vec::new(), Vec::new());
        for (x, y) in (0..SIZE.height).flat_map(|y| (0..SIZE.width).map(move |x| (x as f32, y as f32))) {
            let inside = RADIUS - f32::hypot(x - CENTRE[0], y - CENTRE[1]);
            let covered = (inside + 0.5).clamp(0.0, 1.0);
            let own = colour(inside);
            let mixed = |at: usize| f32::from(ground[at]) + (f32::from(own[at]) - f32::from(ground[at])) * covered;
            let alpha = (covered * 255.0).round() as u8;
            frame.extend([mixed(0) as u8, mixed(1) as u8, mixed(2) as u8, 255]);
            coverage.push(alpha);
            cutout.extend(if alpha == 0 { [0; 4] } else { [own[0], own[1], own[2], alpha] });
        }
        let picture = |bytes: Vec<u8>| Frame::new(SIZE, Buffer::from(bytes));
        Disc { frame: picture(frame), matte: AlphaMatte::new(SIZE, coverage), cutout: picture(cutout) }
    }

    /// A grey disc with spill in `channel` that fades over three pixels.
    fn spilt(ground: [u8; 3], channel: usize) -> Disc {
        disc(ground, |inside| {
            let mut colour = [120, 120, 120];
            colour[channel] += (60.0 * (1.0 - inside.max(0.0) / 3.0)).max(0.0) as u8;
            colour
        })
    }

    fn despilled(disc: &Disc, strength: f32) -> Frame {
        let mut cutout = disc.cutout.clone();
        despill(&mut cutout, &Surroundings::of(&disc.frame, &disc.matte), strength);
        cutout
    }

    /// Sum over all pixels of the excess of `channel` over the others.
    fn excess(cutout: &Frame, channel: usize) -> f32 {
        let [one, other] = others(channel);
        let excess = |pixel: &[u8; 4]| f32::from(pixel[channel].saturating_sub(pixel[one].max(pixel[other])));
        cutout.pixels().as_chunks::<4>().0.iter().map(excess).sum()
    }

    #[test]
    fn the_comparers_detect_a_single_green_pixel() {
        let before = disc(SCREEN, |_| [120; 3]).cutout;
        let mut after = before.clone();
        after.pixels_mut()[(83 * 200 + 97) * 4 + 1] += 9;
        assert_eq!((changed(&before, &before), changed(&before, &after)), (vec![], vec![(97, 83)]));
        assert_eq!((excess(&before, GREEN), excess(&after, GREEN), excess(&after, BLUE)), (0.0, 9.0, 0.0));
    }

    #[test]
    fn spill_is_removed_in_proportion_to_the_strength() {
        for (ground, channel) in [(SCREEN, GREEN), (BLUE_SCREEN, BLUE)] {
            let disc = spilt(ground, channel);
            let before = excess(&disc.cutout, channel);
            let left = |strength: f32| excess(&despilled(&disc, strength), channel) / before;
            assert!(left(1.0) < 0.2, "{} is left", left(1.0));
            let half = 1.0 - (1.0 - left(1.0)) / 2.0;
            assert!((left(0.5) - half).abs() < 0.03, "{} is left, not {half}", left(0.5));
            assert!(left(9.0) == left(1.0) && left(0.25) > left(0.5));
        }
    }

    #[test]
    fn nothing_happens_without_strength() {
        let disc = spilt(SCREEN, GREEN);
        for strength in [0.0, -1.0, f32::NAN] {
            assert!(changed(&disc.cutout, &despilled(&disc, strength)).is_empty());
        }
    }

    #[test]
    fn only_the_edge_is_touched_and_never_its_coverage() {
        let disc = disc(SCREEN, |_| [90, 160, 70]);
        let after = despilled(&disc, 1.0);
        for (x, y) in (0..SIZE.height).flat_map(|y| (0..SIZE.width).map(move |x| (x, y))) {
            let inside = RADIUS - f32::hypot(x as f32 - CENTRE[0], y as f32 - CENTRE[1]);
            let (before, after) = (disc.cutout.pixel(x, y), after.pixel(x, y));
            assert_eq!(before[3], after[3]);
            if inside > 5.0 || before[3] == 0 {
                assert_eq!(before, after, "greenery inside, at {x},{y}");
            } else if inside < 0.0 {
                assert!(after[1] <= after[0] + 1, "{before:?} became {after:?} at {x},{y}");
            }
        }
    }

    #[test]
    fn skin_and_other_colours_that_green_does_not_dominate_stay() {
        for colour in [[205, 150, 120], [80, 52, 40], [255, 255, 255], [0, 0, 0], [120, 120, 120], [220, 200, 60]] {
            let disc = disc(SCREEN, |_| colour);
            assert!(changed(&disc.cutout, &despilled(&disc, 1.0)).is_empty(), "{colour:?}");
        }
    }

    #[test]
    fn green_before_another_background_stays() {
        for ground in [WALL, [0, 0, 0], [128, 128, 128], [200, 60, 50], [120, 128, 118], [4, 9, 3], BLUE_SCREEN] {
            let disc = disc(ground, |_| [60, 140, 50]);
            assert!(changed(&disc.cutout, &despilled(&disc, 1.0)).is_empty(), "{ground:?}");
        }
    }

    #[test]
    fn each_edge_loses_only_the_light_of_its_own_background() {
        // The left half is before a screen, the right half before a wall.
        let mut disc = spilt(SCREEN, GREEN);
        let wall = spilt(WALL, GREEN).frame;
        for (at, pixel) in disc.frame.pixels_mut().as_chunks_mut::<4>().0.iter_mut().enumerate() {
            if at % SIZE.width as usize >= 97 {
                *pixel = wall.pixel((at % SIZE.width as usize) as u32, (at / SIZE.width as usize) as u32);
            }
        }
        let after = despilled(&disc, 1.0);
        let edge = |left: u32| (disc.cutout.pixel(left, 83), after.pixel(left, 83));
        let (before, left) = edge(47);
        assert!(before[1] > before[0] + 40 && left[1] <= left[0] + 2, "{before:?} became {left:?}");
        let (before, right) = edge(147);
        assert_eq!(before, right);
    }

    #[test]
    fn a_mixed_screen_leaves_no_rim_of_its_second_colour() {
        for (ground, channel) in [([30, 70, 190], BLUE), ([80, 190, 60], GREEN), ([20, 170, 110], GREEN)] {
            let disc = disc(ground, |inside| {
                let spill = (1.0 - inside.max(0.0) / 3.0).max(0.0) * 0.3;
                ground.map(|value| (120.0 + f32::from(value) * spill) as u8)
            });
            assert!(excess(&disc.cutout, channel) > 0.0);
            let after = despilled(&disc, 1.0);
            for pixel in after.pixels().as_chunks::<4>().0.iter().filter(|pixel| (1..255).contains(&pixel[3])) {
                let range = pixel[..3].iter().max().unwrap() - pixel[..3].iter().min().unwrap();
                assert!(range <= 2, "{pixel:?} before {ground:?}");
            }
        }
    }

    #[test]
    fn the_edge_of_a_bright_subject_stays_bright_and_that_of_a_dark_one_dark() {
        // Half screen, half subject, as a matte that is too wide leaves it.
        let half = |own: u8| SCREEN.map(|value| u8::midpoint(value, own));
        for own in [240_u8, 20] {
            let disc = disc(SCREEN, |inside| if inside < 1.0 { half(own) } else { [own; 3] });
            let [before, after] = [disc.cutout.pixel(47, 83), despilled(&disc, 1.0).pixel(47, 83)];
            let grey = (u16::from(after[0]) + u16::from(after[1]) + u16::from(after[2])) / 3;
            // Between the mixture as it was and with its green limited: spill may be added light.
            let bounds =
                [before[0].max(before[2]), before[1]].map(|green| luma([before[0], green, before[2]].map(f32::from)));
            let expected = f32::from(own).clamp(bounds[0], bounds[1]) as u16;
            assert!(grey.abs_diff(expected) <= 2, "{own}: {before:?} became {after:?}, not {expected}");
        }
    }

    #[test]
    fn a_picture_without_background_does_not_change() {
        let mut disc = spilt(SCREEN, GREEN);
        disc.matte.coverage_mut().fill(255);
        assert!(changed(&disc.cutout, &despilled(&disc, 1.0)).is_empty());
        // A picture that was cut out before has no background, whatever the colour of its transparent pixels.
        let mut disc = spilt(SCREEN, GREEN);
        disc.frame.pixels_mut().as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| pixel[3] = 0);
        assert!(changed(&disc.cutout, &despilled(&disc, 1.0)).is_empty());
    }

    #[test]
    fn distances_are_right_to_a_twelfth_and_independent_of_strips() {
        let size = Size::new(61, 3 * ROWS as u32 + 5);
        let holes = [(3, 2), (40, 9), (30, 127), (31, 128), (60, 257), (0, 300), (20, 388)];
        let mut frame = Frame::new(size, Buffer::from(vec![255; size.area() * 4]));
        for (x, y) in holes {
            frame.pixels_mut()[(y * 61 + x) * 4 + 3] = 254;
        }
        let near = Near::of(&frame, 12.0);
        for (at, &thirds) in near.thirds.iter().enumerate() {
            let (x, y) = ((at % 61) as f32, (at / 61) as f32);
            let exact = holes.iter().map(|hole| f32::hypot(hole.0 as f32 - x, hole.1 as f32 - y));
            let exact = exact.fold(f32::INFINITY, f32::min);
            let weight = near.weights[usize::from(thirds)];
            if exact < 12.0 / 1.09 {
                assert!((f32::from(thirds) / 3.0 - exact).abs() <= exact / 12.0, "{thirds} thirds for {exact}");
            } else if exact > 13.0 {
                assert_eq!(weight, 0.0);
            }
            assert!((weight == 1.0) == (exact <= 3.0), "{weight} at {exact}");
        }
    }
}
