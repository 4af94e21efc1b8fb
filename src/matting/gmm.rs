//! Gaussian mixture models of the foreground and background colours of one picture, fitted near the matte's edge.
//!
//! Two mixtures of five components with full covariance, as in Rother, Kolmogorov and Blake, "GrabCut: Interactive
//! Foreground Extraction Using Iterated Graph Cuts", SIGGRAPH 2004: hard assignment of every colour to its most likely
//! component, then re-estimation, a fixed number of times. Components are initialised by splits along principal axes
//! (Orchard and Bouman, "Color Quantization of Images", IEEE Trans. Signal Processing 1991), so nothing is random. Sums run
//! in one fixed order: the same picture gives the same model, bit for bit.
//!
//! Colours are sRGB-encoded, in which camera noise is about even, on an orthonormal grey-and-opponent basis: grey may
//! vary more than hue (shading) before it is another colour. Both mixtures share a faint uniform component, so that a colour
//! that neither side contains has a log ratio near 0.

use super::chamfer::{STRAIGHT, edge_distance};
use crate::image::{AlphaMatte, Frame};
use rayon::prelude::*;

const COMPONENTS: usize = 5;
/// Rounds of assignment and estimation: after these, components hardly move.
const ROUNDS: usize = 8;
/// Samples are taken on a grid of at most so many columns or rows.
const GRID: usize = 512;
/// How many samples of each side, those nearest to the edge, are candidates, and how many of them (evenly) are used.
const NEAREST: usize = 60_000;
const SAMPLES: usize = 20_000;
/// With fewer samples of either side no model is fitted.
const MIN_SAMPLES: usize = 64;
/// Components of fewer samples are noise.
const MIN_MEMBERS: usize = 8;
/// Coverage of 255 up to which a pixel is certain background, and from which it is certain subject.
const CERTAIN_BACKGROUND: u8 = 5;
const CERTAIN_SUBJECT: u8 = 250;
/// Steps of the grid next to the edge that are not sampled: colours mix there, and the matte may be off by as much.
const MARGIN: u16 = 2 * STRAIGHT;
/// Added to the variances along grey and along the opponent axes, in steps of 255: noise, and unsampled variation.
const VARIANCE: [f32; 3] = [16.0, 9.0, 9.0];
/// Share of the uniform component over the whole colour cube.
const UNIFORM: f32 = 0.1;
/// Nodes of the look-up table along each channel, eight steps of 255 apart.
const NODES: usize = 33;
const NODE_STEP: usize = 8;

/// The log likelihood ratio of two Gaussian mixtures, as a look-up table.
#[derive(Debug)]
pub(super) struct ColorModels {
    /// The ratio at each node: red slowest, blue fastest.
    ratios: Vec<f32>,
    overlap: f32,
}

impl ColorModels {
    /// Fits to the pixels of `frame` that `matte` is certain of, those nearer to the edge first. `None` when there are
    /// too few of either side.
    pub(super) fn of(frame: &Frame, matte: &AlphaMatte) -> Option<Self> {
        let [subject, background] = samples(frame, matte)?;
        let (subject_mixture, background_mixture) = rayon::join(|| Mixture::of(&subject), || Mixture::of(&background));
        let node = |at: usize| {
            let channels = [at / (NODES * NODES), at / NODES % NODES, at % NODES];
            let colour = opponent(channels.map(|channel| (channel * NODE_STEP).min(255) as f32));
            subject_mixture.log_density(colour) - background_mixture.log_density(colour)
        };
        let ratios = (0..NODES * NODES * NODES).into_par_iter().map(node).collect();
        let mut models = Self { ratios, overlap: 0.0 };
        // ∫ min(p, q), as the mean over samples of p of min(1, q / p), and the other way round.
        let shared = |samples: &[[u8; 3]], sign: f32| {
            let sum: f64 = samples.iter().map(|&rgb| f64::from((sign * models.log_ratio(rgb)).exp().min(1.0))).sum();
            sum / samples.len() as f64
        };
        models.overlap = (f64::midpoint(shared(&subject, -1.0), shared(&background, 1.0)) as f32).clamp(0.0, 1.0);
        Some(models)
    }

    /// Natural logarithm of the likelihood ratio of this colour under the subject's and the background's model; above 0:
    /// subject.
    pub(super) fn log_ratio(&self, rgb: [u8; 3]) -> f32 {
        // Trilinear between the eight nodes around.
        let low = rgb.map(|channel| usize::from(channel) / NODE_STEP);
        let part = rgb.map(|channel| (usize::from(channel) % NODE_STEP) as f32 / NODE_STEP as f32);
        let between = |a: f32, b: f32, part: f32| a + (b - a) * part;
        let along = |red: usize, green: usize| {
            let at = (red * NODES + green) * NODES + low[2];
            between(self.ratios[at], self.ratios[at + 1], part[2])
        };
        let plane = |red: usize| between(along(red, low[1]), along(red, low[1] + 1), part[1]);
        between(plane(low[0]), plane(low[0] + 1), part[0])
    }

    /// Overlap of the two distributions, 0 (nothing in common) to 1 (white on white).
    pub(super) const fn overlap(&self) -> f32 {
        self.overlap
    }
}

/// On the orthonormal basis of grey, red against blue, and green against both.
fn opponent([red, green, blue]: [f32; 3]) -> [f32; 3] {
    const ROOTS: [f32; 3] = [0.577_350_26, std::f32::consts::FRAC_1_SQRT_2, 0.408_248_3];
    [(red + green + blue) * ROOTS[0], (red - blue) * ROOTS[1], (2.0 * green - red - blue) * ROOTS[2]]
}

/// Colours of certain subject and certain background near the edge between them.
fn samples(frame: &Frame, matte: &AlphaMatte) -> Option<[Vec<[u8; 3]>; 2]> {
    let [width, height] = [matte.size().width as usize, matte.size().height as usize];
    let step = width.max(height).div_ceil(GRID).max(1);
    let [columns, rows] = [width.div_ceil(step), height.div_ceil(step)];
    let place = |at: usize| {
        let [x, y] = [at % columns, at / columns].map(|cell| cell * step + step / 2);
        y.min(height - 1) * width + x.min(width - 1)
    };
    let coverage: Vec<u8> = (0..columns * rows).map(|at| matte.coverage()[place(at)]).collect();
    // The nearest cell where the matte is uncertain or crosses one half.
    let uncertain = |at: usize| coverage[at] > CERTAIN_BACKGROUND && coverage[at] < CERTAIN_SUBJECT;
    let distance = edge_distance(coverage.len(), columns, |at| coverage[at] >= 128, uncertain);
    let (pixels, _) = frame.pixels().as_chunks::<4>();
    let nearest = |is_certain: &dyn Fn(u8) -> bool| {
        let fits = |at: usize| is_certain(coverage[at]) && distance[at] >= MARGIN && pixels[place(at)][3] > 0;
        let mut counts = vec![0usize; usize::from(u16::MAX) + 1];
        (0..coverage.len()).filter(|&at| fits(at)).for_each(|at| counts[usize::from(distance[at])] += 1);
        let mut total = 0;
        let reach = counts.iter().position(|&count| {
            total += count;
            total >= NEAREST
        });
        let reach = reach.unwrap_or(usize::from(u16::MAX));
        let near = (0..coverage.len()).filter(|&at| fits(at) && usize::from(distance[at]) <= reach);
        let every = total.div_ceil(SAMPLES).max(1);
        let colours: Vec<[u8; 3]> = near
            .step_by(every)
            .map(|at| {
                let [r, g, b, _] = pixels[place(at)];
                [r, g, b]
            })
            .collect();
        (colours.len() >= MIN_SAMPLES).then_some(colours)
    };
    Some([nearest(&|coverage| coverage >= CERTAIN_SUBJECT)?, nearest(&|coverage| coverage <= CERTAIN_BACKGROUND)?])
}

/// A cluster of colours: how many, their mean and covariance.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    count: usize,
    mean: [f32; 3],
    /// Upper triangle, row after row: 00 01 02 11 12 22.
    covariance: [f32; 6],
}

/// The running sums of a [`Cluster`].
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: usize,
    colours: [f64; 3],
    products: [f64; 6],
}

impl Sums {
    fn add(&mut self, colour: [f32; 3]) {
        let [a, b, c] = colour.map(f64::from);
        self.count += 1;
        self.colours = [self.colours[0] + a, self.colours[1] + b, self.colours[2] + c];
        for (product, value) in self.products.iter_mut().zip([a * a, a * b, a * c, b * b, b * c, c * c]) {
            *product += value;
        }
    }

    fn cluster(&self) -> Cluster {
        let one = 1.0 / (self.count as f64).max(1.0);
        let [a, b, c] = self.colours.map(|sum| sum * one);
        let means = [a * a, a * b, a * c, b * b, b * c, c * c];
        let covariance = std::array::from_fn(|at| (self.products[at] * one - means[at]) as f32);
        Cluster { count: self.count, mean: [a as f32, b as f32, c as f32], covariance }
    }
}

impl Cluster {
    /// The direction in which colours vary most, and their total variance along it.
    fn principal_axis(&self) -> ([f32; 3], f32) {
        let [aa, ab, ac, bb, bc, cc] = self.covariance;
        // Power iteration. Should it start at right angles to the answer, the next axis does as well for a split.
        let mut axis = [aa, bb, cc].map(|variance| if variance == aa.max(bb).max(cc) { 1.0f32 } else { 0.1 });
        let mut variance = 0.0;
        for _ in 0..24 {
            let [a, b, c] = axis;
            let turned = [aa * a + ab * b + ac * c, ab * a + bb * b + bc * c, ac * a + bc * b + cc * c];
            variance = turned.iter().map(|value| value * value).sum::<f32>().sqrt();
            if variance <= f32::EPSILON {
                return ([1.0, 0.0, 0.0], 0.0);
            }
            axis = turned.map(|value| value / variance);
        }
        (axis, variance * self.count as f32)
    }
}

/// One Gaussian, ready to be evaluated.
#[derive(Clone, Copy, Debug)]
struct Component {
    mean: [f32; 3],
    inverse: [f32; 6],
    /// Logarithm of weight and normalisation.
    peak: f32,
}

impl Component {
    fn of(cluster: &Cluster, total: usize) -> Self {
        let [mut aa, ab, ac, mut bb, bc, mut cc] = cluster.covariance;
        for (variance, more) in [&mut aa, &mut bb, &mut cc].into_iter().zip(VARIANCE) {
            *variance = variance.max(0.0) + more;
        }
        let minors = [
            bb * cc - bc * bc,
            ac * bc - ab * cc,
            ab * bc - ac * bb,
            aa * cc - ac * ac,
            ab * ac - aa * bc,
            aa * bb - ab * ab,
        ];
        // At least the product of what was added, rounding aside.
        let least = VARIANCE[0] * VARIANCE[1] * VARIANCE[2];
        let determinant = (aa * minors[0] + ab * minors[1] + ac * minors[2]).max(least);
        let weight = (1.0 - UNIFORM) * cluster.count as f32 / total as f32;
        let peak = weight.ln() - 0.5 * determinant.ln() - 1.5 * std::f32::consts::TAU.ln();
        Self { mean: cluster.mean, inverse: minors.map(|minor| minor / determinant), peak }
    }

    fn log_density(&self, colour: [f32; 3]) -> f32 {
        let [a, b, c]: [f32; 3] = std::array::from_fn(|at| colour[at] - self.mean[at]);
        let [aa, ab, ac, bb, bc, cc] = self.inverse;
        let square = aa * a * a + bb * b * b + cc * c * c + 2.0 * (ab * a * b + ac * a * c + bc * b * c);
        self.peak - 0.5 * square.max(0.0)
    }
}

struct Mixture(Vec<Component>);

impl Mixture {
    fn of(samples: &[[u8; 3]]) -> Self {
        let colours: Vec<[f32; 3]> = samples.iter().map(|rgb| opponent(rgb.map(f32::from))).collect();
        let mut member = vec![0usize; colours.len()];
        let cluster_of = |member: &[usize], index: usize| {
            let mut sums = Sums::default();
            colours.iter().zip(member).filter(|&(_, &of)| of == index).for_each(|(&colour, _)| sums.add(colour));
            sums.cluster()
        };
        let mut clusters = vec![cluster_of(&member, 0)];
        while clusters.len() < COMPONENTS {
            let spreads = clusters.iter().map(Cluster::principal_axis).enumerate();
            // The first of the widest; none when all are single colours.
            let widest = spreads.fold(None, |widest: Option<(usize, [f32; 3], f32)>, (index, (axis, spread))| {
                if spread > widest.map_or(0.0, |(_, _, most)| most) { Some((index, axis, spread)) } else { widest }
            });
            let Some((split, axis, _)) = widest else { break };
            let (mean, new) = (clusters[split].mean, clusters.len());
            for (colour, member) in colours.iter().zip(&mut member).filter(|(_, member)| **member == split) {
                let along: f32 = (0..3).map(|at| (colour[at] - mean[at]) * axis[at]).sum();
                if along > 0.0 {
                    *member = new;
                }
            }
            clusters[split] = cluster_of(&member, split);
            clusters.push(cluster_of(&member, new));
        }
        let mut components = Self::components(&clusters, colours.len());
        for _ in 0..ROUNDS {
            let mut sums = vec![Sums::default(); components.len()];
            colours.iter().for_each(|&colour| sums[best(&components, colour)].add(colour));
            let clusters: Vec<Cluster> = sums.iter().map(Sums::cluster).collect();
            components = Self::components(&clusters, colours.len());
        }
        Self(components)
    }

    fn components(clusters: &[Cluster], total: usize) -> Vec<Component> {
        let large = clusters.iter().filter(|cluster| cluster.count >= MIN_MEMBERS);
        large.map(|cluster| Component::of(cluster, total)).collect()
    }

    fn log_density(&self, colour: [f32; 3]) -> f32 {
        let even = (UNIFORM / (256.0 * 256.0 * 256.0)).ln();
        let mut logs = [even; COMPONENTS + 1];
        logs.iter_mut().zip(&self.0).for_each(|(log, component)| *log = component.log_density(colour));
        let logs = &logs[..=self.0.len()];
        let most = logs.iter().copied().fold(even, f32::max);
        most + logs.iter().map(|log| (log - most).exp()).sum::<f32>().ln()
    }
}

/// The first of the components that explain `colour` best.
fn best(components: &[Component], colour: [f32; 3]) -> usize {
    let logs = components.iter().map(|component| component.log_density(colour)).enumerate();
    logs.fold((0, f32::NEG_INFINITY), |best, (index, log)| if log > best.1 { (index, log) } else { best }).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Buffer, Size};

    /// The left half subject, the right half background.
    fn halves(size: Size, colour: impl Fn(u32, u32) -> [u8; 3]) -> (Frame, AlphaMatte) {
        let (mut pixels, mut coverage) = (Vec::new(), Vec::new());
        for (x, y) in (0..size.height).flat_map(|y| (0..size.width).map(move |x| (x, y))) {
            let [red, green, blue] = colour(x, y);
            pixels.extend([red, green, blue, 255]);
            coverage.push(if x < size.width / 2 { 255 } else { 0 });
        }
        (Frame::new(size, Buffer::from(pixels)), AlphaMatte::new(size, coverage))
    }

    /// Grain of up to ±6, the same every time.
    fn grain(x: u32, y: u32) -> i16 {
        (x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(2_246_822_519)) >> 13) as i16 % 13 - 6
    }

    fn grainy(rgb: [u8; 3], x: u32, y: u32) -> [u8; 3] {
        rgb.map(|channel| (i16::from(channel) + grain(x, y)).clamp(0, 255) as u8)
    }

    const SIZE: Size = Size::new(120, 90);

    fn red_and_blue() -> ColorModels {
        let (frame, matte) = halves(SIZE, |x, y| grainy(if x < 60 { [190, 40, 50] } else { [30, 60, 180] }, x, y));
        ColorModels::of(&frame, &matte).unwrap()
    }

    #[test]
    fn each_side_has_its_own_colours_and_neither_has_others() {
        let models = red_and_blue();
        assert!(models.log_ratio([190, 40, 50]) > 4.0 && models.log_ratio([197, 47, 57]) > 4.0);
        assert!(models.log_ratio([30, 60, 180]) < -4.0 && models.log_ratio([24, 54, 174]) < -4.0);
        for unseen in [[40, 190, 60], [0; 3], [255; 3], [110, 50, 115]] {
            assert!(models.log_ratio(unseen).abs() < 0.1, "{unseen:?}: {}", models.log_ratio(unseen));
        }
        assert!(models.overlap() < 0.01);
    }

    #[test]
    fn white_on_white_is_an_overlap_and_discriminates_nothing() {
        let (frame, matte) = halves(SIZE, |x, y| grainy([246; 3], x, y));
        let models = ColorModels::of(&frame, &matte).unwrap();
        assert!(models.overlap() > 0.9, "{}", models.overlap());
        assert!(models.log_ratio([246; 3]).abs() < 0.3);
    }

    #[test]
    fn several_colours_of_a_side_all_belong_to_it() {
        let dress = |y: u32| {
            [[220, 40, 40], [250, 250, 250], [30, 30, 30], [240, 200, 60], [120, 40, 120]][y as usize % 90 / 18]
        };
        let (frame, matte) = halves(SIZE, |x, y| grainy(if x < 60 { dress(y) } else { [90, 140, 90] }, x, y));
        let models = ColorModels::of(&frame, &matte).unwrap();
        for y in [9, 27, 45, 63, 81] {
            assert!(models.log_ratio(dress(y)) > 3.0, "{:?}", dress(y));
        }
        assert!(models.log_ratio([90, 140, 90]) < -3.0);
    }

    #[test]
    fn a_slab_of_background_in_the_matte_is_still_background() {
        let (frame, matte) = halves(SIZE, |x, y| {
            let slab = (50..60).contains(&x) && (20..50).contains(&y);
            grainy(if x < 60 && !slab { [190, 40, 50] } else { [30, 60, 180] }, x, y)
        });
        assert!(ColorModels::of(&frame, &matte).unwrap().log_ratio([30, 60, 180]) < -2.0);
    }

    #[test]
    fn with_too_little_of_either_side_there_is_no_model() {
        for size in [Size::new(1, 1), Size::new(2, 1), Size::new(1, 50), Size::new(9, 7)] {
            let (frame, matte) = halves(size, |x, y| grainy([90; 3], x, y));
            assert!(ColorModels::of(&frame, &matte).is_none(), "{size}");
        }
        for value in [0, 255, 100] {
            let (frame, mut matte) = halves(SIZE, |x, y| grainy([90; 3], x, y));
            matte.coverage_mut().fill(value);
            assert!(ColorModels::of(&frame, &matte).is_none(), "all {value}");
        }
    }

    #[test]
    fn one_colour_and_the_ends_of_the_cube_do_not_panic() {
        for (left, right) in [([0; 3], [0; 3]), ([255; 3], [255; 3]), ([0; 3], [255; 3]), ([255, 0, 0], [0, 255, 255])]
        {
            let (frame, matte) = halves(SIZE, |x, _| if x < 60 { left } else { right });
            let models = ColorModels::of(&frame, &matte).unwrap();
            assert!(models.log_ratio(left).is_finite() && (0.0..=1.0).contains(&models.overlap()));
            if left == right {
                assert!(models.overlap() > 0.99 && models.log_ratio(left).abs() < 1e-3);
            } else {
                assert!(models.log_ratio(left) > 3.0 && models.log_ratio(right) < -3.0 && models.overlap() < 0.01);
            }
        }
    }

    #[test]
    fn the_model_does_not_depend_on_the_number_of_threads() {
        let ratios = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(red_and_blue).ratios.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(ratios(1), ratios(5));
    }
}
