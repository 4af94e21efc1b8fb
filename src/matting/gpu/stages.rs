//! The stages on the device, from the picture and the clean mask to the packed cutout. Each is a kernel of `backdrop_kernels` or a
//! few, and does what the module of the same name does on the CPU.

use crate::image::Size;
use crate::matting::clean::CleanMask;
use crate::matting::closed_form::{COARSEST_SIDE, DECIDING_SIDE, steps};
use crate::matting::hair::Hair;
use crate::matting::options::Edge;
use crate::matting::prior::MaskPrior;
use crate::matting::trimap::{params, raised_by};
use backdrop_kernels::device::Plane;
use backdrop_kernels::edge::gpu::{hardened, unmixed_by, without_traces};
use backdrop_kernels::laplacian::solver_gpu::Problem;
use backdrop_kernels::mask_upsample::gpu::mask_upsample;
use backdrop_kernels::pyramid::{Mix, gpu::halve};
use backdrop_kernels::trimap::gpu::trimap;
use backdrop_kernels::{foreground, linear_alpha, prolongation, temporal_prior};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// What matting needs of the mask, on its grid, f32 `[rows, columns]`.
pub(crate) struct Grids {
    mask: Tensor<2>,
    expected: Tensor<2>,
    /// What the band is widened by for hair; a single 0 without.
    raised: Tensor<2>,
}

impl Grids {
    /// Uploads them for a picture of `size`.
    pub(crate) fn of(mask: &CleanMask, size: Size, hair: Option<&Hair>, device: &Device) -> Self {
        let prior = MaskPrior::of(mask);
        let shape = [mask.size().height as usize, mask.size().width as usize];
        let upload = |values: Vec<f32>| Tensor::from_data(TensorData::new(values, shape), device);
        let raised = hair.map(|hair| upload(raised_by(hair, mask, size)));
        let (mask, expected) = (upload(mask.values().to_vec()), upload(prior.values().to_vec()));
        Self { mask, expected, raised: raised.unwrap_or_else(|| Tensor::zeros([1, 1], device)) }
    }

    /// Bytes that were uploaded.
    pub(crate) fn bytes(&self) -> u64 {
        let cells = |grid: &Tensor<2>| grid.dims().iter().product::<usize>();
        let raised = cells(&self.raised);
        let uploaded = 2 * cells(&self.mask) + if raised > 1 { raised } else { 0 };
        (uploaded * size_of::<f32>()) as u64
    }
}

/// The previous frame of a clip.
pub(crate) struct Past {
    /// Its coverage, u32 `[H, W]`.
    pub(crate) matte: Plane,
    /// The motion back to it, to the right and down, in cells, f32 `[rows, columns]`.
    pub(crate) flow: [Tensor<2>; 2],
    /// Its weight, f32 `[rows, columns]`.
    pub(crate) share: Tensor<2>,
}

/// The packed cutout of `picture`, finalized by `edge`.
pub(crate) fn cutout(picture: Plane, grids: &Grids, edge: Edge) -> Plane {
    let pictures = pyramid(picture);
    let labels = labels(&pictures[0], grids);
    let alpha = alpha(&pictures, labels, grids, None);
    cutout_by(&pictures, alpha, edge)
}

/// The packed cutout of a picture and its halves by its `alpha`, finalized by `edge`.
pub(crate) fn cutout_by(pictures: &[Plane], alpha: Plane, edge: Edge) -> Plane {
    let picture = pictures[0].clone();
    match edge {
        Edge::Soft => {
            let coverage = without_traces(alpha);
            let colours = colours(pictures, &coverage);
            linear_alpha::gpu::cut_out(picture, coverage, colours)
        }
        Edge::Hard => {
            let coverage = hardened(alpha, 0.5);
            let colours = colours(pictures, &coverage);
            linear_alpha::gpu::cut_out_hard(picture, coverage.clone(), coverage, colours)
        }
    }
}

/// The packed cutout of an opaque subject by its `alpha`, with a hard edge where that is `crossing`: colours are unmixed by the coverage
/// that was solved before the edge was hardened.
pub(crate) fn opaque_cutout(picture: Plane, alpha: Plane, crossing: f32) -> Plane {
    let pictures = pyramid(picture);
    let coverage = hardened(alpha.clone(), crossing);
    let unmixed_by = unmixed_by(alpha, coverage.clone());
    let colours = colours(&pictures, &unmixed_by);
    linear_alpha::gpu::cut_out_hard(pictures[0].clone(), coverage, unmixed_by, colours)
}

/// The coverage of `picture` before its edge is finalized, with a clip's previous frame as prior where there is one.
pub(crate) fn solved_alpha(picture: Plane, grids: &Grids, past: Option<Past>) -> Plane {
    let pictures = pyramid(picture);
    let labels = labels(&pictures[0], grids);
    let prior = past.map(|Past { matte, flow, share }| temporal_prior::gpu::warp(matte, flow, share, labels.clone()));
    let alpha = alpha(&pictures, labels, grids, prior.as_ref());
    match prior {
        Some(prior) => temporal_prior::gpu::blended(alpha, prior),
        None => alpha,
    }
}

/// `picture` and its halves, down to one pixel.
pub(crate) fn pyramid(picture: Plane) -> Vec<Plane> {
    let halves = |finer: &Plane| (longest(finer) > 1).then(|| halve(finer.clone(), Mix::Colour));
    std::iter::successors(Some(picture), halves).collect()
}

/// The trimap.
pub(crate) fn labels(picture: &Plane, grids: &Grids) -> Plane {
    let ([height, width], [rows, columns]) = (picture.dims(), grids.mask.dims());
    let size = Size::new(width as u32, height as u32);
    trimap(grids.mask.clone(), grids.raised.clone(), height, width, params((columns, rows), size))
}

/// Coverage: closed-form matting, coarse to fine. On the finest level it starts from what the temporal `prior` expects, where there is
/// one.
pub(crate) fn alpha(pictures: &[Plane], labels: Plane, grids: &Grids, prior: Option<&Plane>) -> Plane {
    let halves = |finer: &Plane| (shortest(finer) >= 2 * COARSEST_SIDE).then(|| halve(finer.clone(), Mix::Label));
    let trimaps: Vec<Plane> = std::iter::successors(Some(labels), halves).collect();
    let mut coarser: Option<Plane> = None;
    for (index, (picture, labels)) in pictures.iter().zip(trimaps).enumerate().rev() {
        let [height, width] = labels.dims();
        let (start, decided) = match coarser {
            None => (mask_upsample(grids.expected.clone(), height, width), labels.clone()),
            Some(coarser) if longest(&coarser) >= DECIDING_SIDE => {
                let decided = prolongation::gpu::decide(coarser.clone(), labels.clone());
                (prolongation::gpu::start(coarser, height, width), decided)
            }
            Some(coarser) => (prolongation::gpu::start(coarser, height, width), labels.clone()),
        };
        let start = match prior.filter(|_| index == 0) {
            Some(prior) => temporal_prior::gpu::toward(start, prior.clone()),
            None => start,
        };
        let (expected, gamma) = (grids.expected.clone(), MaskPrior::WEIGHT);
        let problem = Problem { picture: picture.clone(), labels, decided, start, expected, gamma };
        coarser = Some(problem.solved(steps([width, height])));
    }
    coarser.expect("at least the picture itself")
}

/// Foreground and background colours of the partly covered pixels, u32 `[2, H, W]`: from one pixel up to full size.
pub(crate) fn colours(pictures: &[Plane], coverage: &Plane) -> Tensor<3, Int> {
    let halves = |finer: &Plane| (longest(finer) > 1).then(|| halve(finer.clone(), Mix::Coverage));
    let coverages: Vec<Plane> = std::iter::successors(Some(coverage.clone()), halves).collect();
    // A single pixel explains itself.
    let pixel = pictures.last().expect("at least the picture itself");
    let mut colours: Tensor<3, Int> = Tensor::stack(vec![pixel.clone(), pixel.clone()], 0);
    for (index, (picture, coverage)) in pictures.iter().zip(coverages).enumerate().rev().skip(1) {
        colours = foreground::gpu::relax(picture.clone(), coverage, colours, index == 0);
    }
    colours
}

fn shortest(plane: &Plane) -> usize {
    let [height, width] = plane.dims();
    width.min(height)
}

fn longest(plane: &Plane) -> usize {
    let [height, width] = plane.dims();
    width.max(height)
}
