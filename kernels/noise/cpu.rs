//! Gradient noise, fractal sums and cellular noise on the CPU, in lanes for vectorisation.

use super::{ACROSS, AMPLITUDE, DOWN, Fbm, MIX, Mapping, NEXT_OCTAVE, PER_HALF, PER_NUMBER, TURN};
use multiversion::multiversion;
use rayon::prelude::*;

const LANES: usize = 16;
/// Coordinates processed before the next octave.
const BLOCK: usize = 256;

/// An f32 of this magnitude has no fraction: adding it rounds to an integer, which is left in the low bits.
const WHOLE: f32 = 12_582_912.0;

/// The largest integer not above `value`, as f32 and as integer. Not `f32::floor`, which is a call on old machines.
#[inline(always)]
fn floor(value: f32) -> (f32, u32) {
    let rounded = value + WHOLE;
    let near = rounded - WHOLE;
    let above = u32::from(near > value);
    (near - above as f32, rounded.to_bits().wrapping_sub(WHOLE.to_bits()).wrapping_sub(above))
}

#[inline(always)]
fn mixed(lattice: u32) -> u32 {
    let mut hash = lattice;
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(MIX[0]);
    hash ^= hash >> 12;
    hash = hash.wrapping_mul(MIX[1]);
    hash ^ (hash >> 15)
}

/// A hash of a lattice point and a seed, as a number in 0..1.
#[must_use]
pub fn random(x: i32, y: i32, seed: u32) -> f32 {
    let hash = mixed(x.cast_unsigned().wrapping_mul(ACROSS) ^ y.cast_unsigned().wrapping_mul(DOWN) ^ seed);
    (hash >> 8) as f32 * PER_NUMBER
}

/// The low and the high half of a hash, in -1..1.
#[inline(always)]
fn halves(hash: u32) -> (f32, f32) {
    let signed = |half: u32| (half.cast_signed() - 32768) as f32 * PER_HALF;
    (signed(hash & 0xFFFF), signed(hash >> 16))
}

#[inline(always)]
fn gradient_at(x: f32, y: f32, seed: u32) -> f32 {
    let ((left, column), (top, row)) = (floor(x), floor(y));
    let (fx, fy) = (x - left, y - top);
    let (west, north) = (column.wrapping_mul(ACROSS), row.wrapping_mul(DOWN));
    let (east, south) = (west.wrapping_add(ACROSS), north.wrapping_add(DOWN));
    let corner = |lattice: u32, dx: f32, dy: f32| {
        let (gx, gy) = halves(mixed(lattice ^ seed));
        gx * dx + gy * dy
    };
    let (nw, ne) = (corner(west ^ north, fx, fy), corner(east ^ north, fx - 1.0, fy));
    let (sw, se) = (corner(west ^ south, fx, fy - 1.0), corner(east ^ south, fx - 1.0, fy - 1.0));
    let fade = |t: f32| t * t * t * (t * (t * 6.0 - 15.0) + 10.0);
    let (across, down) = (fade(fx), fade(fy));
    let (upper, lower) = (nw + across * (ne - nw), sw + across * (se - sw));
    (upper + down * (lower - upper)) * AMPLITUDE
}

/// Adds `weight` times an octave to `out`; with `fold` times its magnitude, which has creases.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn add_octave(x: &[f32], y: &[f32], seed: u32, weight: f32, fold: bool, out: &mut [f32]) {
    let (xs, ys) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let outs = out.as_chunks_mut::<LANES>();
    if fold {
        for ((out, x), y) in outs.0.iter_mut().zip(xs.0).zip(ys.0) {
            for lane in 0..LANES {
                out[lane] += weight * gradient_at(x[lane], y[lane], seed).abs();
            }
        }
    } else {
        for ((out, x), y) in outs.0.iter_mut().zip(xs.0).zip(ys.0) {
            for lane in 0..LANES {
                out[lane] += weight * gradient_at(x[lane], y[lane], seed);
            }
        }
    }
    for ((out, &x), &y) in outs.1.iter_mut().zip(xs.1).zip(ys.1) {
        let value = gradient_at(x, y, seed);
        *out += weight * if fold { value.abs() } else { value };
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn turn(x: &mut [f32], y: &mut [f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (TURN[0] * *x - TURN[1] * *y, TURN[1] * *x + TURN[0] * *y);
    }
}

fn sum(x: &[f32], y: &[f32], fbm: &Fbm, fold: bool, out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len(), "as many coordinates as results");
    out.fill(0.0);
    let weights = fbm.weights();
    let (mut turned_x, mut turned_y) = ([0.0; BLOCK], [0.0; BLOCK]);
    for ((out, x), y) in out.chunks_mut(BLOCK).zip(x.chunks(BLOCK)).zip(y.chunks(BLOCK)) {
        let (turned_x, turned_y) = (&mut turned_x[..out.len()], &mut turned_y[..out.len()]);
        turned_x.copy_from_slice(x);
        turned_y.copy_from_slice(y);
        let mut seed = fbm.seed;
        for (octave, &weight) in weights.iter().enumerate() {
            if octave > 0 {
                turn(turned_x, turned_y);
                seed = seed.wrapping_add(NEXT_OCTAVE);
            }
            add_octave(turned_x, turned_y, seed, weight, fold, out);
        }
    }
}

/// The fractal sum at each position.
///
/// # Panics
/// When the numbers of coordinates and results differ.
pub fn fbm(x: &[f32], y: &[f32], fbm: &Fbm, out: &mut [f32]) {
    sum(x, y, fbm, false, out);
}

/// The fractal sum of the octaves' magnitudes, 0 and up: creased like cloth and smoke (Perlin's turbulence).
///
/// # Panics
/// When the numbers of coordinates and results differ.
pub fn turbulence(x: &[f32], y: &[f32], fbm: &Fbm, out: &mut [f32]) {
    sum(x, y, fbm, true, out);
}

/// The outputs of [`cells`].
#[derive(Debug)]
pub struct Cells<'a> {
    /// Distance to the nearest point.
    pub nearest: &'a mut [f32],
    /// Distance to the second nearest point.
    pub second: &'a mut [f32],
    /// The nearest point's random number, 0..1.
    pub own: &'a mut [f32],
}

/// Cellular noise at each position. `jitter`: displacement of the points, 0 (a square grid) to 1.
///
/// # Panics
/// When the numbers of coordinates and results differ.
pub fn cells(x: &[f32], y: &[f32], seed: u32, jitter: f32, out: &mut Cells<'_>) {
    let length = x.len();
    assert!(y.len() == length, "as many coordinates across as down");
    fill_cells(x, y, seed, jitter, (&mut out.nearest[..length], &mut out.second[..length], &mut out.own[..length]));
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn fill_cells(x: &[f32], y: &[f32], seed: u32, jitter: f32, out: (&mut [f32], &mut [f32], &mut [f32])) {
    let (nearest, second, own) = out;
    let chunks = x
        .chunks(LANES)
        .zip(y.chunks(LANES))
        .zip(nearest.chunks_mut(LANES).zip(second.chunks_mut(LANES)).zip(own.chunks_mut(LANES)));
    for ((x, y), ((nearest, second), own)) in chunks {
        let (mut xs, mut ys) = ([0.0; LANES], [0.0; LANES]);
        xs[..x.len()].copy_from_slice(x);
        ys[..y.len()].copy_from_slice(y);
        let (mut first_of, mut second_of, mut hash_of) = ([9.0_f32; LANES], [9.0_f32; LANES], [0_u32; LANES]);
        for place in 0..9_u32 {
            let (dx, dy) = ((place % 3).wrapping_sub(1), (place / 3).wrapping_sub(1));
            let (ox, oy) = (dx.cast_signed() as f32 + 0.5, dy.cast_signed() as f32 + 0.5);
            for lane in 0..LANES {
                let ((left, column), (top, row)) = (floor(xs[lane]), floor(ys[lane]));
                let lattice = column.wrapping_add(dx).wrapping_mul(ACROSS) ^ row.wrapping_add(dy).wrapping_mul(DOWN);
                let hash = mixed(lattice ^ seed);
                let (jx, jy) = halves(hash);
                let (to_x, to_y) = (left + ox + 0.5 * jitter * jx - xs[lane], top + oy + 0.5 * jitter * jy - ys[lane]);
                let squared = to_x * to_x + to_y * to_y;
                let closer = squared < first_of[lane];
                second_of[lane] = if closer { first_of[lane] } else { second_of[lane].min(squared) };
                hash_of[lane] = if closer { hash } else { hash_of[lane] };
                first_of[lane] = if closer { squared } else { first_of[lane] };
            }
        }
        for lane in 0..x.len() {
            nearest[lane] = first_of[lane].sqrt();
            second[lane] = second_of[lane].sqrt();
            own[lane] = (mixed(hash_of[lane]) >> 8) as f32 * PER_NUMBER;
        }
    }
}

/// Fills a plane (`width` a row) with the fractal sum on a surface in perspective.
///
/// # Panics
/// When the plane is not whole rows.
pub fn fill(plane: &mut [f32], width: usize, mapping: &Mapping, settings: &Fbm) {
    if plane.is_empty() {
        return;
    }
    assert_eq!(plane.len() % width, 0, "a plane is made of whole rows");
    let Mapping([a, b, c, d, e, f, g, h]) = *mapping;
    let scratch = || (vec![0.0; width], vec![0.0; width]);
    plane.par_chunks_mut(width).enumerate().for_each_init(scratch, |(x, y), (row, out)| {
        let j = row as f32 + 0.5;
        for (column, (x, y)) in x.iter_mut().zip(y.iter_mut()).enumerate() {
            let i = column as f32 + 0.5;
            let w = g * i + h * j + 1.0;
            *x = (a * i + b * j + c) / w;
            *y = (d * i + e * j + f) / w;
        }
        fbm(x, y, settings, out);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(side: usize, step: f32) -> (Vec<f32>, Vec<f32>) {
        (0..side * side).map(|at| ((at % side) as f32 * step - 7.3, (at / side) as f32 * step - 3.1)).unzip()
    }

    fn octave(seed: u32) -> Fbm {
        Fbm { seed, octaves: 1, gain: 0.5, footprint: 0.0 }
    }

    #[test]
    fn floor_matches_the_standard_library() {
        for value in [-3.0_f32, -2.5, -0.5, -0.001, 0.0, 0.4, 0.5, 0.999, 1.0, 7.5, 8.5, -7.5, 4e6, -4e6, 123_456.7] {
            let (whole, bits) = floor(value);
            assert_eq!(whole, value.floor());
            assert_eq!(bits.cast_signed(), value.floor() as i32, "{value}");
        }
    }

    #[test]
    fn noise_is_zero_on_the_lattice_and_smooth_between() {
        let (x, y): (Vec<f32>, Vec<f32>) = (-40..40).map(|at| (at as f32, (at * 3) as f32)).unzip();
        let mut out = vec![9.0; x.len()];
        fbm(&x, &y, &octave(5), &mut out);
        assert!(out.iter().all(|value| *value == 0.0), "{out:?}");
        let (x, y): (Vec<f32>, Vec<f32>) = (0..5000).map(|at| (at as f32 * 0.002, 0.37)).unzip();
        let mut out = vec![0.0; x.len()];
        fbm(&x, &y, &octave(5), &mut out);
        let steepest = out.windows(2).map(|pair| (pair[0] - pair[1]).abs()).fold(0.0, f32::max);
        assert!(steepest < 0.02, "{steepest}");
        assert!(out.iter().any(|value| *value > 0.3) && out.iter().any(|value| *value < -0.3));
    }

    #[test]
    fn octaves_finer_than_a_sample_are_left_out() {
        let fine = Fbm { octaves: 8, footprint: 0.04, ..octave(3) };
        // Frequencies 1, 2, 4, 8 are whole or fading, 16 at 0.64 is fading, 32 is omitted.
        assert_eq!(fine.weights().len(), 5);
        assert!(fine.weights()[4] < 0.5_f32.powi(4));
        assert_eq!(Fbm { footprint: 0.8, ..fine }.weights(), [0.0; 0]);
        assert_eq!(Fbm { footprint: f32::NAN, ..fine }.weights(), [0.0; 0]);
        assert_eq!(Fbm { octaves: 500, footprint: 0.0, ..fine }.weights().len(), super::super::MAX_OCTAVES as usize);
        let (x, y) = grid(20, 0.5);
        let mut out = vec![1.0; x.len()];
        fbm(&x, &y, &Fbm { footprint: 9.0, ..fine }, &mut out);
        assert!(out.iter().all(|value| *value == 0.0));
    }

    #[test]
    fn any_part_of_a_row_gives_the_same_bits() {
        let (x, y) = grid(40, 0.13);
        let settings = Fbm { octaves: 5, ..octave(9) };
        let mut whole = vec![0.0; x.len()];
        turbulence(&x, &y, &settings, &mut whole);
        for (first, length) in [(0, 1), (3, 17), (250, 13), (1, 1599), (700, 300)] {
            let mut part = vec![0.0; length];
            turbulence(&x[first..first + length], &y[first..first + length], &settings, &mut part);
            assert_eq!(part, &whole[first..first + length]);
        }
    }

    #[test]
    fn cells_match_a_search_over_all_points() {
        let (x, y) = grid(30, 0.217);
        let [mut nearest, mut second, mut own] = [vec![0.0; 900], vec![0.0; 900], vec![0.0; 900]];
        let jitter = 0.8;
        let mut out = Cells { nearest: &mut nearest, second: &mut second, own: &mut own };
        cells(&x, &y, 77, jitter, &mut out);
        let points: Vec<(f32, f32)> = (-12..6)
            .flat_map(|row: i32| (-12..6).map(move |column: i32| (column, row)))
            .map(|(column, row)| {
                let lattice = column.cast_unsigned().wrapping_mul(ACROSS) ^ row.cast_unsigned().wrapping_mul(DOWN);
                let (jx, jy) = halves(mixed(lattice ^ 77));
                (column as f32 + 0.5 + 0.5 * jitter * jx, row as f32 + 0.5 + 0.5 * jitter * jy)
            })
            .collect();
        for at in 0..900 {
            let mut distances: Vec<f32> = points.iter().map(|(px, py)| (px - x[at]).hypot(py - y[at])).collect();
            distances.sort_by(f32::total_cmp);
            assert!((nearest[at] - distances[0]).abs() < 1e-4);
            // The second nearest point may lie just outside of the 3 × 3 squares that are searched.
            assert!(second[at] >= distances[1] - 1e-4);
            assert!((0.0..1.0).contains(&own[at]));
        }
    }

    #[test]
    fn a_plane_in_perspective_matches_its_points() {
        let (width, height) = (33, 21);
        let mapping = Mapping([0.2, 0.01, -1.0, 0.0, 0.3, 2.0, 0.001, 0.02]);
        let settings = Fbm { octaves: 4, footprint: 0.03, ..octave(4) };
        let mut plane = vec![0.0; width * height];
        fill(&mut plane, width, &mapping, &settings);
        for (column, row) in [(0, 0), (32, 20), (7, 13)] {
            let (i, j) = (column as f32 + 0.5, row as f32 + 0.5);
            let w = 0.001 * i + 0.02 * j + 1.0;
            let mut point = [0.0];
            fbm(&[(0.2 * i + 0.01 * j - 1.0) / w], &[(0.3 * j + 2.0) / w], &settings, &mut point);
            assert!((point[0] - plane[row * width + column]).abs() < 1e-5);
        }
    }
}
