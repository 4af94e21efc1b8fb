//! The stages of matting on the device, from the picture and the clean mask to the packed cutout. Each stage is one or
//! a few kernels of `backdrop_kernels`, and is equivalent to the CPU's module of that name.

use crate::image::{Frame, Size};
use crate::matting::clean::CleanMask;
use crate::matting::closed_form::{COARSEST_SIDE, DECIDING_SIDE, steps};
use crate::matting::frame_matte::FrameMatte;
use crate::matting::hair::Hair;
use crate::matting::options::Edge;
use crate::matting::prior::{CONTRAST, MaskPrior, POWER, least_gamma};
use crate::matting::trimap::{params, raised_by};
use backdrop_kernels::device::Plane;
use backdrop_kernels::edge::gpu::{hardened, sharpened, unmixed_by, without_traces};
use backdrop_kernels::laplacian::solver_gpu::Problem;
use backdrop_kernels::mask_upsample::gpu::mask_upsample;
use backdrop_kernels::pyramid::{Mix, gpu::halve};
use backdrop_kernels::trimap::gpu::trimap;
use backdrop_kernels::{foreground, linear_alpha, prolongation, temporal_prior};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Planes of the mask's grid, f32 `[rows, columns]`, on the host.
pub(crate) struct HostGrids {
    mask: TensorData,
    hardness: TensorData,
    /// The mask raised for hair, by which the band is widened.
    raised: Option<TensorData>,
}

impl HostGrids {
    pub(crate) fn of(frame: &Frame, mask: &CleanMask, hair: Option<&Hair>) -> Self {
        let size = frame.size();
        let shape = [mask.size().height as usize, mask.size().width as usize];
        let grid = |values: Vec<f32>| TensorData::new(values, shape);
        let raised = hair.map(|hair| grid(raised_by(hair, mask, size)));
        let hardness = grid(MaskPrior::of(frame, mask).hardness().to_vec());
        Self { mask: grid(mask.values().to_vec()), hardness, raised }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let grids = [&self.mask, &self.hardness].into_iter().chain(&self.raised);
        grids.map(|grid| grid.as_bytes().len() as u64).sum()
    }

    pub(crate) fn uploaded(self, device: &Device) -> Grids {
        let upload = |grid: TensorData| Tensor::<2>::from_data(grid, device);
        let raised = self.raised.map_or_else(|| Tensor::zeros([1, 1], device), upload);
        Grids { mask: upload(self.mask), hardness: upload(self.hardness), raised }
    }
}

/// [`HostGrids`] on the device.
pub(crate) struct Grids {
    mask: Tensor<2>,
    hardness: Tensor<2>,
    /// A single 0 without hair.
    raised: Tensor<2>,
}

pub(crate) struct Past {
    /// Its matte, on the same device or on the host.
    pub(crate) matte: FrameMatte,
    /// Motion back to the previous frame, to the right and down, in cells, f32 `[rows, columns]`, on the host.
    pub(crate) flow: [TensorData; 2],
    /// Weight of the previous matte, f32 `[rows, columns]`, on the host.
    pub(crate) share: TensorData,
}

impl Past {
    /// Uploads the host's data, and moves the matte along the motion: the prior of a frame with these `labels`.
    fn warped(self, labels: Plane) -> Plane {
        let device = labels.device();
        let matte = match self.matte {
            FrameMatte::Device(matte) => matte.alpha(),
            FrameMatte::Host(matte) => words(matte.coverage(), labels.dims(), &device),
        };
        let upload = |grid: TensorData| Tensor::<2>::from_data(grid, &device);
        temporal_prior::gpu::warp(matte, self.flow.map(upload), upload(self.share), labels)
    }
}

/// Uploads `bytes` to `device` as a plane of `shape`, one byte a word.
pub(crate) fn words(bytes: &[u8], shape: [usize; 2], device: &Device) -> Plane {
    let words: Vec<u32> = bytes.iter().copied().map(u32::from).collect();
    Plane::from_data(TensorData::new(words, shape), (device, DType::U32))
}

pub(crate) fn cutout(picture: Plane, grids: HostGrids, edge: Edge) -> Plane {
    let grids = grids.uploaded(&picture.device());
    let pictures = pyramid(picture);
    let labels = labels(&pictures[0], &grids);
    let alpha = alpha(&pictures, labels, &grids, None);
    cutout_by(&pictures, alpha, edge)
}

/// The packed cutout of `pictures`, a picture and its halves, by its `alpha`, finalized by `edge`.
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

/// The packed cutout of an opaque subject by its `alpha`, with a hard edge at coverage `crossing`, unmixed by `alpha`.
pub(crate) fn opaque_cutout(picture: Plane, alpha: Plane, crossing: f32) -> Plane {
    let pictures = pyramid(picture);
    let coverage = hardened(alpha.clone(), crossing);
    let unmixed_by = unmixed_by(alpha, coverage.clone());
    let colours = colours(&pictures, &unmixed_by);
    linear_alpha::gpu::cut_out_hard(pictures[0].clone(), coverage, unmixed_by, colours)
}

/// The coverage of `picture` before its edge is finalized, optionally with a clip's previous frame as prior.
pub(crate) fn solved_alpha(picture: Plane, grids: HostGrids, past: Option<Past>) -> Plane {
    let grids = grids.uploaded(&picture.device());
    let pictures = pyramid(picture);
    let labels = labels(&pictures[0], &grids);
    let prior = past.map(|past| past.warped(labels.clone()));
    let alpha = alpha(&pictures, labels, &grids, prior.as_ref());
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

pub(crate) fn labels(picture: &Plane, grids: &Grids) -> Plane {
    let ([height, width], [rows, columns]) = (picture.dims(), grids.mask.dims());
    let size = Size::new(width as u32, height as u32);
    trimap(grids.mask.clone(), grids.raised.clone(), height, width, params((columns, rows), size))
}

/// Coverage: closed-form matting, coarse to fine. The finest level starts from the temporal `prior`, if given.
pub(crate) fn alpha(pictures: &[Plane], labels: Plane, grids: &Grids, prior: Option<&Plane>) -> Plane {
    let halves = |finer: &Plane| (shortest(finer) >= 2 * COARSEST_SIDE).then(|| halve(finer.clone(), Mix::Label));
    let trimaps: Vec<Plane> = std::iter::successors(Some(labels), halves).collect();
    let expected = ((grids.mask.clone() - 0.5) * CONTRAST + 0.5).clamp(0.0, 1.0);
    let ([rows, columns], [height, width]) = (grids.mask.dims(), pictures[0].dims());
    let least = least_gamma(rows.max(columns), height.max(width));
    let gamma = grids.hardness.clone().powi_scalar(POWER).clamp_min(least);
    let prior_grids = Tensor::stack::<3>(vec![expected.clone(), gamma], 0);
    let mut coarser: Option<Plane> = None;
    for (index, (picture, labels)) in pictures.iter().zip(trimaps).enumerate().rev() {
        let [height, width] = labels.dims();
        let (start, decided) = match coarser {
            None => (mask_upsample(expected.clone(), height, width), labels.clone()),
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
        let problem = Problem { picture: picture.clone(), labels, decided, start, prior: prior_grids.clone() };
        coarser = Some(problem.solved(steps([width, height])));
    }
    sharpened(coarser.expect("at least the picture itself"), grids.hardness.clone())
}

/// Foreground and background colours of the partly covered pixels, u32 `[2, H, W]`, from one pixel up to full size.
pub(crate) fn colours(pictures: &[Plane], coverage: &Plane) -> Tensor<3, Int> {
    let halves = |finer: &Plane| (longest(finer) > 1).then(|| halve(finer.clone(), Mix::Coverage));
    let coverages: Vec<Plane> = std::iter::successors(Some(coverage.clone()), halves).collect();
    // At one pixel, the picture's colour is both foreground and background.
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
