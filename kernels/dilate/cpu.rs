//! Dilation on the CPU: nearest seeds by columns in stripes, then by rows, each in parallel.

use super::{Limits, MAX_RADIUS, SEED};
use crate::srgb::byte;
use crate::stripes::stripes;
use rayon::prelude::*;

const STRIPE: usize = 256;

/// Maximum steps along the edge. The nearest seed's centre is at most a pixel or two nearer than the pixel where the
/// edge is nearest, so they are at most about √(4 · 1024) pixels apart.
pub(super) const MAX_STEPS: u32 = 64;

/// Minimum gain of a step in pixels; less is rounding.
pub(super) const LEAST_GAIN: f32 = 1e-4;

/// No seed within reach in this column.
const NONE: i16 = i16::MAX;

/// Coverage of everything within `radius` pixels of the shape in `coverage` (row-major, `width` a row). A radius of 0
/// or less changes nothing. Takes two bytes a pixel in addition to input and output.
///
/// # Panics
/// When `coverage` is not whole rows.
#[must_use]
pub fn dilate(coverage: &[u8], width: usize, radius: f32) -> Vec<u8> {
    if coverage.is_empty() || radius.is_nan() || radius <= 0.0 {
        return coverage.to_vec();
    }
    assert_eq!(coverage.len() % width, 0, "a plane is made of whole rows");
    let radius = radius.min(MAX_RADIUS);
    let limits = Limits::new(radius);
    let offsets = nearest_in_columns(coverage, width, limits.reach);
    let shape = Shape { coverage, width: width as i64, height: (coverage.len() / width) as i64, radius };
    let mut dilated = vec![0; coverage.len()];
    dilated.par_chunks_mut(width).zip(offsets.par_chunks(width)).enumerate().for_each_init(
        Vec::new,
        |sites, (y, (result, offsets))| {
            find_sites(offsets, sites);
            let ends = sites.iter().skip(1).map(|site| site.start).chain([width as i64]);
            for (site, end) in sites.iter().zip(ends) {
                for x in site.start..end {
                    let at = x as usize;
                    let squared = if offsets[at] == 0 { 0 } else { site.squared_distance(x) };
                    if squared <= limits.near {
                        result[at] = 255;
                    } else if squared < limits.far {
                        let column = if offsets[at] == 0 { x } else { site.column };
                        let seed = (column, y as i64 + i64::from(offsets[column as usize]));
                        result[at] = shape.dilated((x, y as i64), seed);
                    }
                }
            }
        },
    );
    dilated
}

/// For each pixel the offset of the nearest seed in its column: negative upwards, [`NONE`] beyond `reach`.
fn nearest_in_columns(coverage: &[u8], width: usize, reach: usize) -> Vec<i16> {
    let reach = i16::try_from(reach).expect("the radius is limited");
    let mut offsets = vec![NONE; coverage.len()];
    stripes(&mut offsets, width, STRIPE).into_par_iter().enumerate().for_each(|(stripe, mut rows)| {
        let columns = rows[0].len();
        let covered = |y: usize| &coverage[y * width + stripe * STRIPE..][..columns];
        let mut away = [NONE; STRIPE];
        for (y, row) in rows.iter_mut().enumerate() {
            for ((offset, away), &covered) in row.iter_mut().zip(&mut away).zip(covered(y)) {
                *away = if covered >= SEED { 0 } else { away.saturating_add(1) };
                *offset = *away;
            }
        }
        away = [NONE; STRIPE];
        for (y, row) in rows.iter_mut().enumerate().rev() {
            for ((offset, away), &covered) in row.iter_mut().zip(&mut away).zip(covered(y)) {
                *away = if covered >= SEED { 0 } else { away.saturating_add(1) };
                let nearest = if *away < *offset { *away } else { -*offset };
                *offset = if nearest.abs() > reach { NONE } else { nearest };
            }
        }
    });
    offsets
}

/// A column whose seed is the nearest one along part of a row.
#[derive(Clone, Copy, Debug)]
struct Site {
    column: i64,
    /// Squared distance of the seed from the row.
    height: i64,
    /// First pixel to which the seed is nearest.
    start: i64,
}

impl Site {
    const fn squared_distance(&self, x: i64) -> i64 {
        (x - self.column) * (x - self.column) + self.height
    }
}

/// Finds the column of the nearest seed for each part of a row, from the left. A seed may get another seed.
fn find_sites(offsets: &[i16], sites: &mut Vec<Site>) {
    sites.clear();
    for (x, &offset) in offsets.iter().enumerate() {
        // Within a run of seeds only the first and the last can be nearest to other pixels.
        let inside = |x: usize| offsets.get(x) == Some(&0);
        if offset == NONE || (offset == 0 && x > 0 && inside(x - 1) && inside(x + 1)) {
            continue;
        }
        let (column, height) = (x as i64, i64::from(offset) * i64::from(offset));
        let mut site = Site { column, height, start: 0 };
        while let Some(last) = sites.last() {
            if last.squared_distance(last.start) > site.squared_distance(last.start) {
                sites.pop();
                continue;
            }
            let level =
                (column * column - last.column * last.column + height - last.height) / (2 * (column - last.column));
            site.start = level + 1;
            break;
        }
        if site.start < offsets.len() as i64 {
            sites.push(site);
        }
    }
}

/// The coverage to dilate, and the radius.
struct Shape<'a> {
    coverage: &'a [u8],
    width: i64,
    height: i64,
    radius: f32,
}

impl Shape<'_> {
    /// The result at a pixel, by walking along the edge from the nearest seed.
    fn dilated(&self, (x, y): (i64, i64), seed: (i64, i64)) -> u8 {
        let away = |(column, row): (i64, i64)| ((x - column).abs() as f32, (y - row).abs() as f32);
        let distance = |at| edge_distance(away(at), f32::from(self.covered(at)) / 255.0);
        let (mut here, mut nearest) = (seed, distance(seed));
        for _ in 0..MAX_STEPS {
            let (mut next, mut least) = (here, nearest - LEAST_GAIN);
            for row in (here.1 - 1).max(0)..(here.1 + 2).min(self.height) {
                for column in (here.0 - 1).max(0)..(here.0 + 2).min(self.width) {
                    if self.belongs((column, row)) {
                        let there = distance((column, row));
                        if there < least {
                            (next, least) = ((column, row), there);
                        }
                    }
                }
            }
            if next == here {
                break;
            }
            (here, nearest) = (next, least);
        }
        byte(share_within(away(here), self.radius - nearest))
    }

    fn covered(&self, (x, y): (i64, i64)) -> u8 {
        self.coverage[(y * self.width + x) as usize]
    }

    /// Whether a pixel is a seed, or partly covered and adjacent to one.
    fn belongs(&self, (x, y): (i64, i64)) -> bool {
        let seed = |x, y| self.covered((x, y)) >= SEED;
        seed(x, y)
            || (self.covered((x, y)) > 0
                && ((y - 1).max(0)..(y + 2).min(self.height))
                    .any(|y| ((x - 1).max(0)..(x + 2).min(self.width)).any(|x| seed(x, y))))
    }
}

/// A direction, mirrored to between an axis and a diagonal: the components of its unit vector, and its length.
fn direction((across, down): (f32, f32)) -> (f32, f32, f32) {
    let (long, short) = (across.max(down), across.min(down));
    if long == 0.0 {
        // At distance 0 any direction is valid.
        return (1.0, 0.0, 0.0);
    }
    let length = (long * long + short * short).sqrt();
    (long / length, short / length, length)
}

/// Distance of a pixel from the edge, by the offset and the coverage of a pixel on the edge.
fn edge_distance(away: (f32, f32), covered: f32) -> f32 {
    let (long, short, length) = direction(away);
    // The edge cuts off one, two or three corners.
    let corner = 0.5 * short / long;
    let beyond = if covered < corner {
        (2.0 * long * short * covered).sqrt() - 0.5 * (long + short)
    } else if covered <= 1.0 - corner {
        (covered - 0.5) * long
    } else {
        0.5 * (long + short) - (2.0 * long * short * (1.0 - covered)).sqrt()
    };
    length - beyond
}

/// Coverage of a pixel whose centre lies `beyond` inside an edge across a direction: the inverse of [`edge_distance`].
fn share_within(away: (f32, f32), beyond: f32) -> f32 {
    let (long, short, _) = direction(away);
    let left = 0.5 * (long + short) - beyond.abs();
    let cut = if left <= 0.0 {
        0.0
    } else if left < short {
        left * left / (2.0 * long * short)
    } else {
        0.5 - beyond.abs() / long
    };
    if beyond < 0.0 { cut } else { 1.0 - cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(at: usize) -> u8 {
        ((at as u32 ^ 0x5bd1).wrapping_mul(2_654_435_761) >> 24) as u8
    }

    /// An anti-aliased disc, sampled at 16 × 16 points of each pixel.
    fn disc(side: usize, centre: (f64, f64), radius: f64) -> Vec<u8> {
        let inside = |x: f64, y: f64| (x - centre.0).hypot(y - centre.1) <= radius;
        let covered = |at: usize| {
            let (x, y) = ((at % side) as f64, (at / side) as f64);
            let away = (x + 0.5 - centre.0).hypot(y + 0.5 - centre.1) - radius;
            if away.abs() > 1.0 {
                return if away < 0.0 { 255 } else { 0 };
            }
            let point = |index: usize| (index as f64 + 0.5) / 16.0;
            let hits = (0..256).filter(|index| inside(x + point(index % 16), y + point(index / 16))).count();
            ((hits * 255 + 128) / 256) as u8
        };
        (0..side * side).map(covered).collect()
    }

    fn by_search(coverage: &[u8], width: usize, radius: f32) -> Vec<u8> {
        let height = coverage.len() / width;
        let shape = Shape { coverage, width: width as i64, height: height as i64, radius };
        let seeds: Vec<(i64, i64)> = (0..width)
            .flat_map(|x| (0..height).map(move |y| (x, y)))
            .filter(|(x, y)| coverage[y * width + x] >= SEED)
            .map(|(x, y)| (x as i64, y as i64))
            .collect();
        let pixels = (0..height as i64).flat_map(|y| (0..width as i64).map(move |x| (x, y)));
        pixels
            .map(|(x, y)| {
                let squared = |seed: &&(i64, i64)| (seed.0 - x).pow(2) + (seed.1 - y).pow(2);
                // The leftmost of the nearest seeds, and of these the upper one.
                seeds.iter().min_by_key(squared).map_or(0, |seed| shape.dilated((x, y), *seed))
            })
            .collect()
    }

    #[test]
    fn every_pixel_matches_a_search_through_all_seeds() {
        for (case, (width, height)) in
            [(1, 1), (1, 40), (40, 1), (2, 2), (17, 23), (31, 9), (64, 33)].into_iter().enumerate()
        {
            for (share, radius) in
                [(2, 0.3), (5, 0.5), (20, 1.0), (60, 2.7), (60, 7.5), (128, 1.5), (1, 12.0), (3, 300.0)]
            {
                let mask: Vec<u8> = (0..width * height)
                    .map(|at| {
                        let (chance, covered) = (noise(7 * at + case), noise(13 * at + 5 * case));
                        if chance < share {
                            covered | 128
                        } else if chance < 3 * (share.min(60)) {
                            covered
                        } else {
                            0
                        }
                    })
                    .collect();
                let expected = by_search(&mask, width, radius);
                assert_eq!(dilate(&mask, width, radius), expected, "{width}×{height}, radius {radius}");
            }
        }
    }

    #[test]
    fn a_disc_grows_to_the_larger_disc() {
        let side = 120;
        for (centre, radius) in [((60.0, 60.0), 20.0), ((59.7, 60.2), 13.3), ((60.1, 59.6), 30.6)] {
            for width in [0.4, 0.5, 1.0, 2.5, 7.0, 20.25] {
                let grown = dilate(&disc(side, centre, radius), side, width as f32);
                let expected = disc(side, centre, radius + width);
                let mut rim = (0u32, 0u32, 0u32);
                for (actual, expected) in grown.iter().zip(&expected) {
                    let off = u32::from(actual.abs_diff(*expected));
                    if (1..255).contains(expected) || off > 0 {
                        rim = (rim.0 + 1, rim.1 + off, rim.2.max(off));
                    }
                }
                let mean = f64::from(rim.1) / f64::from(rim.0);
                let (most_mean, most) = if width < 2.0 { (9.0, 48) } else { (5.0, 16) };
                assert!(mean < most_mean && rim.2 <= most, "{radius} by {width}: {mean} on average, {} at most", rim.2);
            }
        }
    }

    #[test]
    fn straight_edges_move_by_exactly_the_radius() {
        for covered in [0, 1, 40, 127, 128, 200, 254, 255] {
            for radius in [0.25, 0.5, 1.0, 3.7, 10.0] {
                let row = |x: usize| match x {
                    0..20 => 255,
                    20 => covered,
                    _ => 0,
                };
                let across: Vec<u8> = (0..9).flat_map(|_| (0..40).map(row)).collect();
                let down: Vec<u8> = (0..40).flat_map(|y| [row(y); 9]).collect();
                let edge = 20.0 + f32::from(covered) / 255.0 + radius;
                let (across, down) = (dilate(&across, 40, radius), dilate(&down, 9, radius));
                for x in 0..40 {
                    let expected = 255.0 * (edge - x as f32).clamp(0.0, 1.0);
                    for actual in [across[4 * 40 + x], down[9 * x + 4]] {
                        let off = (f32::from(actual) - expected).abs();
                        assert!(off < 0.51, "{covered} by {radius} at {x}: {actual} for {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_pixel_grows_to_a_round_spot() {
        let side = 41;
        let mut mask = vec![0; side * side];
        mask[20 * side + 20] = 255;
        let spot = dilate(&mask, side, 10.0);
        assert_eq!(spot[20 * side + 29], 255);
        assert_eq!((spot[20 * side + 30], spot[20 * side + 31]), (255, 0));
        // A square of 1 with round joins of 10: 1 + 4 · 10 + 100 π pixels.
        let area = spot.iter().map(|&covered| f64::from(covered)).sum::<f64>() / 255.0;
        assert!((area - 355.2).abs() < 2.0, "{area}");
        for (at, covered) in spot.iter().enumerate() {
            let (x, y) = (at % side, at / side);
            assert_eq!(*covered, spot[x * side + y], "not symmetric under rotation");
            assert_eq!(*covered, spot[y * side + side - 1 - x], "not symmetric under reflection");
        }
    }

    #[test]
    fn empty_stays_empty_full_stays_full_and_no_radius_changes_nothing() {
        for (width, height) in [(1, 1), (1, 9), (9, 1), (50, 30)] {
            for radius in [0.5, 5.0, 1e9] {
                // Faint coverage without a seed is not part of a shape.
                for (covered, expected) in [(0, 0), (100, 0), (255, 255)] {
                    let grown = dilate(&vec![covered; width * height], width, radius);
                    assert_eq!(grown, vec![expected; width * height], "{covered} by {radius}");
                }
            }
        }
        assert!(dilate(&[], 5, 3.0).is_empty());
        let mask: Vec<u8> = (0..300).map(noise).collect();
        for radius in [0.0, -3.0, f32::NAN] {
            assert_eq!(dilate(&mask, 20, radius), mask);
        }
    }
}
