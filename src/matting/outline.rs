//! Measures the outline and the thin parts of a matte against a true matte; errors there hardly change areas and means.
//!
//! *Raggedness*: the length of the ½ contour divided by its length after a Gaussian blur (σ = 2 px) of the matte, less
//! one. Contours under 30 px are left out, and so are surroundings of thin parts of the truth, which the blur would
//! remove. *Edge width*: pixels between coverage of a tenth and of nine tenths along the normal of the truth's contour,
//! where the truth itself takes at most 2 px. *Thin parts*: what an opening of the truth by a disc of 0.7 % of the
//! diagonal removes. Measured is the mean coverage on them, and on background within that distance of them.

use super::connected_components::Components;
use super::union_find::Forest;
use backdrop_kernels::gaussian::{self, Border};
use backdrop_kernels::interpolation::Plane;
use std::collections::HashMap;

/// Standard deviation of the blur, in pixels.
const SIGMA: f32 = 2.0;
/// Contours shorter than this, in pixels, are ignored.
const SHORTEST: f32 = 30.0;
/// Parts of the truth thinner than this, in pixels, vanish in the blur.
const VANISHING: f32 = 4.0;
/// Radius of the opening that removes thin parts, as a share of the diagonal.
const THIN: f64 = 0.007;
/// Profiles along a normal: pixels to either side, and samples for a pixel.
const PROFILE: usize = 10;
const SAMPLES: usize = 4;
/// Widest edge of the truth, in pixels, that counts as sharp.
const SHARP: f32 = 2.0;

/// Lengths, widths and means of one matte.
#[derive(Clone, Debug)]
pub struct Outline {
    /// Relative excess length of the contour; `None` without a contour.
    pub raggedness: Option<f64>,
    /// Widths of the edge at points of a sharp truth's contour, in quarters of a pixel, ascending.
    pub widths: Vec<u8>,
    /// Mean coverage of thin parts, and of the background next to them; `None` without thin parts in the truth.
    pub thin: Option<(f64, f64)>,
}

/// The percentile `percent` of the ascending `widths`, in pixels.
#[must_use]
pub fn width_percentile(widths: &[u8], percent: usize) -> Option<f64> {
    let last = widths.len().checked_sub(1)?;
    Some(f64::from(widths[last * percent / 100]) / SAMPLES as f64)
}

/// Measurements of one truth, for the comparison of several mattes.
#[derive(Debug)]
pub struct Reference {
    size: [usize; 2],
    /// Whether a pixel is near a part of the truth that vanishes in the blur.
    vanishing: Vec<bool>,
    normals: Vec<[f32; 4]>,
    /// Pixels of thin parts, and of background next to them.
    thin: [Vec<usize>; 2],
}

impl Reference {
    /// Measures a truth of 0 to 255, row after row, `width` pixels a row.
    #[must_use]
    pub fn of(truth: &[u8], width: usize) -> Self {
        let size = [width, truth.len() / width];
        let inside: Vec<bool> = truth.iter().map(|&value| value > 127).collect();
        let radius = (THIN * (size[0] as f64).hypot(size[1] as f64)).max(1.0) as f32;
        let removed = |radius: f32| {
            let opened = dilated(&eroded(&inside, size, radius), size, radius);
            inside.iter().zip(opened).map(|(inside, opened)| *inside && !opened).collect::<Vec<bool>>()
        };
        let vanishing = dilated(&removed(VANISHING / 2.0), size, (gaussian::reach(SIGMA) + 2) as f32);
        let thin = removed(radius);
        // An opening removes a few pixels at corners too; a thin part is longer than it is wide.
        let thin = opened_by_area(&thin, width, (radius * radius * 2.0) as usize);
        let near = dilated(&thin, size, radius);
        let background = |at: &usize| near[*at] && truth[*at] == 0;
        let beside = (0..truth.len()).filter(background).collect();
        let thin = (0..truth.len()).filter(|&at| thin[at]).collect();
        Self { size, vanishing, normals: normals(truth, size), thin: [thin, beside] }
    }

    /// Measures a matte of 0 to 255, row after row.
    ///
    /// # Panics
    /// When the matte is smaller than the truth.
    #[must_use]
    pub fn measure(&self, matte: &[u8]) -> Outline {
        let values: Vec<f32> = matte.iter().map(|&value| f32::from(value) / 255.0).collect();
        let plane = Plane { values: &values, size: self.size };
        let smooth = blurred(&values, self.size[0], SIGMA);
        let [own, smoothed] =
            [plane, Plane { values: &smooth, size: self.size }].map(|plane| contour_length(plane, &self.vanishing));
        let [thin, beside] = self
            .thin
            .each_ref()
            .map(|pixels| pixels.iter().map(|&at| f64::from(values[at])).sum::<f64>() / pixels.len().max(1) as f64);
        let mut widths: Vec<u8> = self.normals.iter().filter_map(|normal| width_along(plane, normal)).collect();
        widths.sort_unstable();
        Outline {
            raggedness: (smoothed > 0.0).then(|| f64::from(own / smoothed) - 1.0),
            widths,
            thin: (!self.thin[0].is_empty()).then_some((thin, beside)),
        }
    }
}

fn blurred(values: &[f32], width: usize, sigma: f32) -> Vec<f32> {
    let mut samples: Vec<[f32; 1]> = values.iter().map(|&value| [value]).collect();
    gaussian::cpu::blur(&mut samples, width, sigma, Border::Clamp);
    samples.into_flattened()
}

/// Total length of the ½ contours by marching squares, without short contours and `excluded` segments.
fn contour_length(plane: Plane<'_, f32>, excluded: &[bool]) -> f32 {
    let [width, height] = plane.size;
    let plane = |x: usize, y: usize| plane.values[y * width + x];
    let mut forest = Forest::default();
    let mut nodes: HashMap<usize, usize> = HashMap::new();
    let mut segments: Vec<(usize, f32, bool)> = Vec::new();
    let crossing = |a: f32, b: f32| (0.5 - a) / (b - a);
    for y in 0..height.saturating_sub(1) {
        for x in 0..width.saturating_sub(1) {
            let corners = [plane(x, y), plane(x + 1, y), plane(x + 1, y + 1), plane(x, y + 1)];
            let is_in = corners.map(|value| value >= 0.5);
            if is_in == [is_in[0]; 4] {
                continue;
            }
            // Crossings of the four sides, each with the index of the side in the picture.
            let here = 2 * (y * width + x);
            let sides = [here, here + 3, here + 2 * width, here + 1];
            let point = |side: usize| {
                let t = crossing(corners[side], corners[(side + 1) % 4]);
                match side {
                    0 => [t, 0.0],
                    1 => [1.0, t],
                    2 => [1.0 - t, 1.0],
                    _ => [0.0, 1.0 - t],
                }
            };
            let crossed: Vec<usize> = (0..4).filter(|&side| is_in[side] != is_in[(side + 1) % 4]).collect();
            let pairs: &[[usize; 2]] = match (crossed.len(), is_in[0] == (corners.iter().sum::<f32>() >= 2.0)) {
                (2, _) => &[[0, 1]],
                (_, true) => &[[0, 1], [2, 3]],
                (_, false) => &[[0, 3], [1, 2]],
            };
            for pair in pairs {
                let [a, b] = pair.map(|at| crossed[at]);
                let [from, to] = [point(a), point(b)];
                let mut node = |side: usize| {
                    let next = nodes.len();
                    *nodes.entry(sides[side]).or_insert_with(|| {
                        forest.push();
                        next
                    })
                };
                let (first, second) = (node(a), node(b));
                forest.join(first, second);
                segments.push((first, (from[0] - to[0]).hypot(from[1] - to[1]), excluded[y * width + x]));
            }
        }
    }
    let mut lengths = vec![[0.0; 2]; nodes.len()];
    for (node, length, is_excluded) in segments {
        let lengths = &mut lengths[forest.root(node)];
        lengths[0] += length;
        lengths[1] += if is_excluded { 0.0 } else { length };
    }
    lengths.iter().filter(|[all, _]| *all >= SHORTEST).map(|[_, counted]| counted).sum()
}

/// Points where a sharp truth crosses one half, with the direction of its gradient.
fn normals(truth: &[u8], size: [usize; 2]) -> Vec<[f32; 4]> {
    let values: Vec<f32> = truth.iter().map(|&value| f32::from(value) / 255.0).collect();
    let [width, height] = size;
    let smooth = blurred(&values, width, 1.0);
    let sharp = Plane { values: &values, size };
    let [plane, smooth] = [&values, &smooth].map(|values| move |x: usize, y: usize| values[y * width + x]);
    let margin = PROFILE;
    let mut normals = Vec::new();
    for y in margin..height.saturating_sub(margin) {
        for x in margin..width.saturating_sub(margin) {
            if plane(x, y) < 0.5
                || (plane(x - 1, y) >= 0.5
                    && plane(x + 1, y) >= 0.5
                    && plane(x, y - 1) >= 0.5
                    && plane(x, y + 1) >= 0.5)
            {
                continue;
            }
            let gradient = [smooth(x + 1, y) - smooth(x - 1, y), smooth(x, y + 1) - smooth(x, y - 1)];
            let norm = gradient[0].hypot(gradient[1]);
            if norm < 0.2 {
                continue;
            }
            let normal = [x as f32, y as f32, gradient[0] / norm, gradient[1] / norm];
            // Only one edge: outside at one end, inside at the other.
            let ends = [-4.0, 4.0].map(|d| sharp.linear(normal[0] + d * normal[2], normal[1] + d * normal[3]));
            if ends[0] <= 0.05
                && ends[1] >= 0.95
                && width_along(sharp, &normal).is_some_and(|width| f32::from(width) <= SHARP * SAMPLES as f32)
            {
                normals.push(normal);
            }
        }
    }
    normals
}

/// Distance between the last sample of at most a tenth and the first of at least nine tenths around the crossing
/// nearest to the profile's middle, in quarters of a pixel; at most the whole profile.
fn width_along(plane: Plane<'_, f32>, &[x, y, along, down]: &[f32; 4]) -> Option<u8> {
    let count = 2 * PROFILE * SAMPLES;
    let profile: Vec<f32> = (0..=count)
        .map(|at| (at as f32 / SAMPLES as f32) - PROFILE as f32)
        .map(|d| plane.linear(x + d * along, y + d * down))
        .collect();
    let crossing = (1..=count).filter(|&at| profile[at - 1] < 0.5 && profile[at] >= 0.5);
    let middle = crossing.min_by_key(|at| at.abs_diff(count / 2))?;
    let low = (0..middle).rev().find(|&at| profile[at] <= 0.1).unwrap_or(0);
    let high = (middle..=count).find(|&at| profile[at] >= 0.9).unwrap_or(count);
    Some((high - low) as u8)
}

/// Erosion of the set by a disc of `radius`; beyond the border counts as inside.
fn eroded(members: &[bool], size: [usize; 2], radius: f32) -> Vec<bool> {
    let complement: Vec<bool> = members.iter().map(|member| !member).collect();
    dilated(&complement, size, radius).into_iter().map(|near| !near).collect()
}

/// Dilation of the set by a disc of `radius`, by discs around its border.
fn dilated(members: &[bool], [width, height]: [usize; 2], radius: f32) -> Vec<bool> {
    let mut all = members.to_vec();
    let reach = radius as isize;
    let chords: Vec<(isize, usize)> =
        (-reach..=reach).map(|dy| (dy, (radius * radius - (dy * dy) as f32).max(0.0).sqrt() as usize)).collect();
    for at in (0..members.len()).filter(|&at| members[at]) {
        let (x, y) = (at % width, at / width);
        let is_inner = x > 0
            && x + 1 < width
            && y > 0
            && y + 1 < height
            && members[at - 1]
            && members[at + 1]
            && members[at - width]
            && members[at + width];
        if is_inner {
            continue;
        }
        for &(dy, half) in &chords {
            let row = y as isize + dy;
            if (0..height as isize).contains(&row) {
                let row = row as usize * width;
                all[row + x.saturating_sub(half)..=row + (x + half).min(width - 1)].fill(true);
            }
        }
    }
    all
}

fn opened_by_area(members: &[bool], width: usize, least: usize) -> Vec<bool> {
    let mut components = Components::default();
    components.find(members, width, |member| member);
    let mut sizes = vec![0; components.count()];
    components.runs().for_each(|(run, component)| sizes[component] += run.len());
    let mut kept = members.to_vec();
    components.runs().filter(|(_, component)| sizes[*component] < least).for_each(|(run, _)| kept[run].fill(false));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: usize = 120;

    /// Coverage of a disc of radius 40, with an edge `width` pixels wide, moved outwards by `offset(x, y)` pixels.
    fn disc(width: f32, offset: impl Fn(usize, usize) -> f32) -> Vec<u8> {
        let pixel = |at: usize| {
            let (x, y) = (at % SIDE, at / SIDE);
            let distance = (x as f32 - 59.5).hypot(y as f32 - 59.5);
            ((0.5 + (40.0 + offset(x, y) - distance) / width).clamp(0.0, 1.0) * 255.0).round() as u8
        };
        (0..SIDE * SIDE).map(pixel).collect()
    }

    #[test]
    fn a_smooth_outline_is_not_ragged_and_a_torn_one_is() {
        let truth = disc(1.0, |_, _| 0.0);
        let reference = Reference::of(&truth, SIDE);
        let raggedness = |matte: &[u8]| reference.measure(matte).raggedness.expect("a contour");
        assert!(raggedness(&truth).abs() < 0.01, "{}", raggedness(&truth));
        let torn = disc(1.0, |x, y| if (x / 3 + y / 3).is_multiple_of(2) { 1.5 } else { -1.5 });
        assert!(raggedness(&torn) > 0.1, "{}", raggedness(&torn));
        assert!(reference.measure(&vec![0; SIDE * SIDE]).raggedness.is_none());
    }

    #[test]
    fn the_width_of_an_edge_is_from_a_tenth_to_nine_tenths() {
        let reference = Reference::of(&disc(1.0, |_, _| 0.0), SIDE);
        for width in [1.0_f32, 5.0, 10.0] {
            let widths = reference.measure(&disc(width, |_, _| 0.0)).widths;
            assert!(widths.len() > 100);
            let median = width_percentile(&widths, 50).expect("widths");
            // Bilinear sampling widens the narrowest edge, and widths are rounded to quarters of a pixel.
            let least = 0.8 * f64::from(width);
            assert!((least..least + 1.0).contains(&median), "{width}: {median}");
        }
    }

    #[test]
    fn thin_parts_are_measured_separately() {
        let draw = |rod: u8| {
            let mut drawn = disc(1.0, |_, _| 0.0);
            (0..18).for_each(|y| drawn[y * SIDE + 60] = rod);
            drawn
        };
        let reference = Reference::of(&draw(255), SIDE);
        let thin = |matte: &[u8]| reference.measure(matte).thin.expect("the rod");
        assert!(thin(&draw(255)).0 > 0.95 && thin(&draw(255)).1 < 0.05, "{:?}", thin(&draw(255)));
        assert!((0.3..0.6).contains(&thin(&draw(102)).0), "{:?}", thin(&draw(102)));
        assert!(Reference::of(&disc(1.0, |_, _| 0.0), SIDE).measure(&draw(255)).thin.is_none());
    }
}
