//! Conjugate gradients on the GPU over whole planes: only unknown pixels move.
//!
//! The host reads nothing: scalar products are reduced on the device in a fixed order, and step lengths stay in its
//! memory. The number of steps is given; after convergence all steps have length 0.
//!
//! On small levels, which take the most steps, a single cube takes all steps: its barriers cost far less than launches.

use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::gpu::{fit, leverage, residuals, store, window};
use super::solver::TOLERANCE;
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};
use crate::mask_upsample::gpu::{Stretch, stretch, stretched, stretched_from};
use crate::sums::{UNITS, cube_index, cube_sum, sum_of};
use crate::trimap::UNKNOWN;

/// State of a step: energy of the residual, length, factor of the last direction, and energy at convergence.
const ENERGY: usize = 0;
const LENGTH: usize = 1;
const KEEP: usize = 2;
const ENOUGH: usize = 3;

/// Maximum pixels of a small level.
const SMALL_PIXELS: usize = 128 * 128;

#[cube]
fn is_unknown(labels: &[u32], at: usize) -> bool {
    labels[at] == u32::cast_from(UNKNOWN)
}

/// Initial alpha: known pixels have their label's.
#[cube(launch)]
fn alpha_kernel(labels: &[u32], start: &[f32], alpha: &mut [f32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    alpha[at] = select(is_unknown(labels, at), start[at], f32::cast_from(labels[at]) / 255.0);
}

/// γ at (`x`, `y`): `prior` is the grid of the expected alpha, followed by the grid of γ.
#[cube]
fn gamma_at(prior: &[f32], x: u32, y: u32, over: &Stretch) -> f32 {
    stretched_from(prior, over.rows * over.columns, x, y, over)
}

/// The inverse of the diagonal of `L + γ` at (`x`, `y`).
#[cube]
fn scale_at(picture: &[u32], gamma: f32, x: u32, y: u32, width: u32, height: u32) -> f32 {
    let pixel = picture[(y * width + x) as usize];
    let mut diagonal = gamma;
    for row in 0u32..3u32 {
        for column in 0u32..3u32 {
            let wy = y + row;
            let wx = x + column;
            if wy >= 2 && wx >= 2 && wy < height && wx < width {
                let around = window(picture, wx - 1, wy - 1, width);
                diagonal += 1.0 - (1.0 + leverage(&around, pixel)) / 9.0;
            }
        }
    }
    // A picture less than three pixels wide has no windows: such a pixel has a zero row.
    1.0 / max(diagonal, f32::new(1e-6))
}

#[cube(launch)]
fn scale_kernel(picture: &[u32], decided: &[u32], prior: &[f32], scale: &mut [f32], over: &Stretch) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    let width = over.width;
    let height = over.height;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    if is_unknown(decided, at) {
        scale[at] = scale_at(picture, gamma_at(prior, x, y, over), x, y, width, height);
    }
}

/// Whether the window around (`x`, `y`) exists and holds an unknown pixel.
#[cube]
fn is_needed(decided: &[u32], x: u32, y: u32, width: u32, height: u32) -> bool {
    let mut unknown = 0u32;
    if x > 0 && y > 0 && x + 1 < width && y + 1 < height {
        for row in 0u32..3u32 {
            for column in 0u32..3u32 {
                let at = ((y + row - 1) * width + x + column - 1) as usize;
                unknown += u32::cast_from(is_unknown(decided, at));
            }
        }
    }
    unknown > 0
}

/// The lines of the windows that hold an unknown pixel.
#[cube(launch)]
fn lines_kernel(picture: &[u32], decided: &[u32], plane: &[f32], lines: &mut [f32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if is_needed(decided, x, y, width, height) {
        let line = fit(picture, plane, x, y, width);
        store(lines, &line, (y * width + x) as usize, (height * width) as usize);
    }
}

#[cube]
fn product_at(
    picture: &[u32],
    plane: &[f32],
    lines: &[f32],
    gamma: f32,
    x: u32,
    y: u32,
    width: u32,
    height: u32,
) -> f32 {
    residuals(picture, plane, lines, x, y, width, height) + gamma * plane[(y * width + x) as usize]
}

/// The residual at (`x`, `y`): `γ m` less the `product` with alpha.
#[cube]
fn first_residual(prior: &[f32], product: f32, x: u32, y: u32, over: &Stretch) -> f32 {
    gamma_at(prior, x, y, over) * stretched(prior, x, y, over) - product
}

#[cube]
fn energy_of(residual: f32, scale: f32) -> f32 {
    residual * (residual * scale)
}

/// Length of a step: 0 after convergence, and when the curvature is not positive: only rounding is left.
#[cube]
fn length_of(energy: f32, enough: f32, curvature: f32) -> f32 {
    select(energy > enough && curvature > 0.0, energy / curvature, f32::new(0.0))
}

/// A pixel's alpha and residual after a step of this length along the direction.
#[derive(CubeType, Clone, Copy)]
struct Moved {
    alpha: f32,
    residual: f32,
}

#[cube]
fn advanced(alpha: f32, residual: f32, direction: f32, product: f32, length: f32) -> Moved {
    Moved { alpha: alpha + length * direction, residual: residual - length * product }
}

/// A pixel's next direction: the preconditioned residual plus `keep` times the last direction.
#[cube]
fn turned(residual: f32, scale: f32, keep: f32, last: f32) -> f32 {
    residual * scale + keep * last
}

/// `(L + γ) plane`, and each cube's part of its scalar product with `plane`.
#[cube(launch)]
fn product_kernel(
    picture: &[u32],
    decided: &[u32],
    plane: &[f32],
    lines: &[f32],
    prior: &[f32],
    product: &mut [f32],
    sums: &mut [f32],
    over: &Stretch,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    let width = over.width;
    let height = over.height;
    let mut term = f32::new(0.0);
    if x < width && y < height {
        let at = (y * width + x) as usize;
        if is_unknown(decided, at) {
            let here = product_at(picture, plane, lines, gamma_at(prior, x, y, over), x, y, width, height);
            product[at] = here;
            term = here * plane[at];
        }
    }
    let sum = cube_sum(term);
    if UNIT_POS == 0 {
        sums[cube_index() as usize] = sum;
    }
}

/// The first residual and direction; each cube's part of the energy and of the number of unknown pixels.
#[cube(launch)]
fn begin_kernel(
    decided: &[u32],
    prior: &[f32],
    scale: &[f32],
    product: &[f32],
    residual: &mut [f32],
    direction: &mut [f32],
    sums: &mut [f32],
    over: &Stretch,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    let mut energy = f32::new(0.0);
    let mut count = f32::new(0.0);
    if x < over.width && y < over.height {
        let at = (y * over.width + x) as usize;
        let mut ahead = f32::new(0.0);
        if is_unknown(decided, at) {
            let left = first_residual(prior, product[at], x, y, over);
            ahead = left * scale[at];
            residual[at] = left;
            energy = energy_of(left, scale[at]);
            count = f32::new(1.0);
        }
        direction[at] = ahead;
    }
    let energy = cube_sum(energy);
    let count = cube_sum(count);
    if UNIT_POS == 0 {
        sums[cube_index() as usize] = energy;
        sums[(CUBE_COUNT_X * CUBE_COUNT_Y + cube_index()) as usize] = count;
    }
}

#[cube(launch)]
fn enough_kernel(sums: &[f32], state: &mut [f32], len: u32, tolerance: f32) {
    let energy = sum_of(sums, 0u32, len);
    let count = sum_of(sums, len, len);
    if UNIT_POS == 0 {
        state[ENERGY] = energy;
        state[LENGTH] = f32::new(0.0);
        state[KEEP] = f32::new(0.0);
        state[ENOUGH] = tolerance * tolerance * count;
    }
}

#[cube(launch)]
fn length_kernel(sums: &[f32], state: &mut [f32], len: u32) {
    let curvature = sum_of(sums, 0u32, len);
    if UNIT_POS == 0 {
        let length = length_of(state[ENERGY], state[ENOUGH], curvature);
        state[LENGTH] = length;
    }
}

/// Moves alpha along the direction; each cube's part of the new residual's energy.
#[cube(launch)]
fn advance_kernel(
    decided: &[u32],
    direction: &[f32],
    product: &[f32],
    scale: &[f32],
    state: &[f32],
    alpha: &mut [f32],
    residual: &mut [f32],
    sums: &mut [f32],
    width: u32,
    height: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    let mut energy = f32::new(0.0);
    if x < width && y < height {
        let at = (y * width + x) as usize;
        if is_unknown(decided, at) {
            let moved = advanced(alpha[at], residual[at], direction[at], product[at], state[LENGTH]);
            alpha[at] = moved.alpha;
            residual[at] = moved.residual;
            energy = energy_of(moved.residual, scale[at]);
        }
    }
    let energy = cube_sum(energy);
    if UNIT_POS == 0 {
        sums[cube_index() as usize] = energy;
    }
}

/// Factor of the last direction. After a step of length 0 it is 0.
#[cube(launch)]
fn keep_kernel(sums: &[f32], state: &mut [f32], len: u32) {
    let energy = sum_of(sums, 0u32, len);
    if UNIT_POS == 0 {
        let moved = state[LENGTH] > 0.0;
        let previous = state[ENERGY];
        state[KEEP] = select(moved, energy / previous, f32::new(0.0));
        state[ENERGY] = select(moved, energy, f32::new(0.0));
    }
}

/// The next direction: the preconditioned residual plus a multiple of the last direction.
#[cube(launch)]
fn turn_kernel(
    decided: &[u32],
    residual: &[f32],
    scale: &[f32],
    state: &[f32],
    direction: &mut [f32],
    width: u32,
    height: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    if is_unknown(decided, at) {
        let next = turned(residual[at], scale[at], state[KEEP], direction[at]);
        direction[at] = next;
    }
}

/// All steps of a small level in a single cube. `work` holds seven planes (lines, product, preconditioner and
/// residual), because some adapters grant only eight buffers.
#[cube(launch)]
fn small_kernel(
    picture: &[u32],
    decided: &[u32],
    prior: &[f32],
    alpha: &mut [f32],
    direction: &mut [f32],
    work: &mut [f32],
    over: &Stretch,
    steps: u32,
    tolerance: f32,
) {
    let width = over.width;
    let height = over.height;
    let pixels = width * height;
    let next = pixels as usize;
    let product = 4 * next;
    let scale = 5 * next;
    let residual = 6 * next;

    // The preconditioner, the first residual and the first direction.
    let mut pixel = UNIT_POS;
    while pixel < pixels {
        let x = pixel % width;
        let y = pixel / width;
        if is_needed(decided, x, y, width, height) {
            let line = fit(picture, &*alpha, x, y, width);
            store(work, &line, pixel as usize, next);
        }
        pixel += UNITS;
    }
    sync_storage();
    let mut energy = f32::new(0.0);
    let mut count = f32::new(0.0);
    let mut pixel = UNIT_POS;
    while pixel < pixels {
        let at = pixel as usize;
        let mut ahead = f32::new(0.0);
        if is_unknown(decided, at) {
            let x = pixel % width;
            let y = pixel / width;
            let gamma = gamma_at(prior, x, y, over);
            let own = scale_at(picture, gamma, x, y, width, height);
            let with_alpha = product_at(picture, &*alpha, &*work, gamma, x, y, width, height);
            let left = first_residual(prior, with_alpha, x, y, over);
            ahead = left * own;
            work[scale + at] = own;
            work[residual + at] = left;
            energy += energy_of(left, own);
            count += f32::new(1.0);
        }
        direction[at] = ahead;
        pixel += UNITS;
    }
    let mut energy = cube_sum(energy);
    let enough = tolerance * tolerance * cube_sum(count);
    sync_storage();

    for _step in 0..steps {
        // Equal in every item; all items must reach the barriers in any case.
        let goes_on = energy > enough;
        let mut pixel = select(goes_on, UNIT_POS, pixels);
        while pixel < pixels {
            let x = pixel % width;
            let y = pixel / width;
            if is_needed(decided, x, y, width, height) {
                let line = fit(picture, &*direction, x, y, width);
                store(work, &line, pixel as usize, next);
            }
            pixel += UNITS;
        }
        sync_storage();
        let mut curvature = f32::new(0.0);
        let mut pixel = select(goes_on, UNIT_POS, pixels);
        while pixel < pixels {
            let at = pixel as usize;
            if is_unknown(decided, at) {
                let x = pixel % width;
                let y = pixel / width;
                let gamma = gamma_at(prior, x, y, over);
                let here = product_at(picture, &*direction, &*work, gamma, x, y, width, height);
                work[product + at] = here;
                curvature += here * direction[at];
            }
            pixel += UNITS;
        }
        let curvature = cube_sum(curvature);
        let length = length_of(energy, enough, curvature);
        let moves = length > 0.0;
        let mut left_over = f32::new(0.0);
        let mut pixel = select(moves, UNIT_POS, pixels);
        while pixel < pixels {
            let at = pixel as usize;
            if is_unknown(decided, at) {
                let moved = advanced(alpha[at], work[residual + at], direction[at], work[product + at], length);
                alpha[at] = moved.alpha;
                work[residual + at] = moved.residual;
                left_over += energy_of(moved.residual, work[scale + at]);
            }
            pixel += UNITS;
        }
        let left_over = cube_sum(left_over);
        let keep = left_over / energy;
        energy = select(moves, left_over, f32::new(0.0));
        let mut pixel = select(moves, UNIT_POS, pixels);
        while pixel < pixels {
            let at = pixel as usize;
            if is_unknown(decided, at) {
                let ahead = turned(work[residual + at], work[scale + at], keep, direction[at]);
                direction[at] = ahead;
            }
            pixel += UNITS;
        }
        sync_storage();
    }
}

/// Alpha in steps of 1/255; known pixels have their label.
#[cube(launch)]
fn coverage_kernel(decided: &[u32], alpha: &[f32], coverage: &mut [u32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let solved = u32::cast_from(min(max(alpha[at], f32::new(0.0)), f32::new(1.0)) * 255.0 + 0.5);
    coverage[at] = select(is_unknown(decided, at), solved, decided[at]);
}

/// The planes of a level, and what its kernels are launched with.
struct Level {
    picture: CubeTensor,
    decided: CubeTensor,
    prior: CubeTensor,
    alpha: CubeTensor,
    direction: CubeTensor,
    grid: (usize, usize),
    size: (usize, usize),
}

/// What a level that is not small needs besides.
struct Planes {
    scale: CubeTensor,
    lines: CubeTensor,
    product: CubeTensor,
    residual: CubeTensor,
    sums: CubeTensor,
    state: CubeTensor,
}

impl Level {
    fn launch_grid(&self) -> (CubeCount, CubeDim) {
        launch_grid(self.size.0, self.size.1)
    }

    fn cubes(&self) -> u32 {
        let (count, _) = self.launch_grid();
        match count {
            CubeCount::Static(columns, rows, _) => columns * rows,
            CubeCount::Dynamic(_) => unreachable!("a launch grid is static"),
        }
    }

    fn sides(&self) -> [u32; 2] {
        [scalar(self.size.0), scalar(self.size.1)]
    }

    fn planes(&self, count: usize) -> CubeTensor {
        empty_like(&self.picture, [count, self.size.1, self.size.0], DType::F32)
    }

    /// `product = (L + γ) plane`, and the parts of its scalar product with it.
    fn multiply(&self, planes: &Planes, plane: &CubeTensor) {
        let (client, [width, height]) = (&plane.client, self.sides());
        let (count, dim) = self.launch_grid();
        lines_kernel::launch(
            client,
            count.clone(),
            dim,
            self.picture.clone().into_buffer_arg(),
            self.decided.clone().into_buffer_arg(),
            plane.clone().into_buffer_arg(),
            planes.lines.clone().into_buffer_arg(),
            width,
            height,
        );
        product_kernel::launch(
            client,
            count,
            dim,
            self.picture.clone().into_buffer_arg(),
            self.decided.clone().into_buffer_arg(),
            plane.clone().into_buffer_arg(),
            planes.lines.clone().into_buffer_arg(),
            self.prior.clone().into_buffer_arg(),
            planes.product.clone().into_buffer_arg(),
            planes.sums.clone().into_buffer_arg(),
            stretch(self.grid, self.size),
        );
    }

    /// The preconditioner, the first residual and the first direction.
    fn begin(&self, planes: &Planes) {
        let client = &self.picture.client;
        let (count, dim) = self.launch_grid();
        scale_kernel::launch(
            client,
            count.clone(),
            dim,
            self.picture.clone().into_buffer_arg(),
            self.decided.clone().into_buffer_arg(),
            self.prior.clone().into_buffer_arg(),
            planes.scale.clone().into_buffer_arg(),
            stretch(self.grid, self.size),
        );
        self.multiply(planes, &self.alpha);
        begin_kernel::launch(
            client,
            count,
            dim,
            self.decided.clone().into_buffer_arg(),
            self.prior.clone().into_buffer_arg(),
            planes.scale.clone().into_buffer_arg(),
            planes.product.clone().into_buffer_arg(),
            planes.residual.clone().into_buffer_arg(),
            self.direction.clone().into_buffer_arg(),
            planes.sums.clone().into_buffer_arg(),
            stretch(self.grid, self.size),
        );
        enough_kernel::launch(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(UNITS),
            planes.sums.clone().into_buffer_arg(),
            planes.state.clone().into_buffer_arg(),
            self.cubes(),
            TOLERANCE as f32,
        );
    }

    /// All steps, by one cube.
    fn solve_small(&self, steps: usize) {
        small_kernel::launch(
            &self.picture.client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(UNITS),
            self.picture.clone().into_buffer_arg(),
            self.decided.clone().into_buffer_arg(),
            self.prior.clone().into_buffer_arg(),
            self.alpha.clone().into_buffer_arg(),
            self.direction.clone().into_buffer_arg(),
            self.planes(7).into_buffer_arg(),
            stretch(self.grid, self.size),
            scalar(steps),
            TOLERANCE as f32,
        );
    }

    /// All steps, each several launches over all pixels.
    fn solve(&self, steps: usize) {
        let planes = Planes {
            scale: self.planes(1),
            lines: self.planes(4),
            product: self.planes(1),
            residual: self.planes(1),
            // Two for each cube.
            sums: empty_like(&self.picture, [2, self.cubes() as usize], DType::F32),
            state: empty_like(&self.picture, [4], DType::F32),
        };
        self.begin(&planes);
        for _ in 0..steps {
            self.step(&planes);
        }
    }

    fn step(&self, planes: &Planes) {
        let (client, [width, height], cubes) = (&self.picture.client, self.sides(), self.cubes());
        let (count, dim) = self.launch_grid();
        let alone = || (CubeCount::Static(1, 1, 1), CubeDim::new_1d(UNITS));
        self.multiply(planes, &self.direction);
        let (one, units) = alone();
        length_kernel::launch(
            client,
            one,
            units,
            planes.sums.clone().into_buffer_arg(),
            planes.state.clone().into_buffer_arg(),
            cubes,
        );
        advance_kernel::launch(
            client,
            count.clone(),
            dim,
            self.decided.clone().into_buffer_arg(),
            self.direction.clone().into_buffer_arg(),
            planes.product.clone().into_buffer_arg(),
            planes.scale.clone().into_buffer_arg(),
            planes.state.clone().into_buffer_arg(),
            self.alpha.clone().into_buffer_arg(),
            planes.residual.clone().into_buffer_arg(),
            planes.sums.clone().into_buffer_arg(),
            width,
            height,
        );
        let (one, units) = alone();
        keep_kernel::launch(
            client,
            one,
            units,
            planes.sums.clone().into_buffer_arg(),
            planes.state.clone().into_buffer_arg(),
            cubes,
        );
        turn_kernel::launch(
            client,
            count,
            dim,
            self.decided.clone().into_buffer_arg(),
            planes.residual.clone().into_buffer_arg(),
            planes.scale.clone().into_buffer_arg(),
            planes.state.clone().into_buffer_arg(),
            self.direction.clone().into_buffer_arg(),
            width,
            height,
        );
    }
}

/// A level of closed-form matting: picture, known alpha, and the prior of the rest. All planes are on one device.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Packed RGBA8, u32 `[H, W]`.
    pub picture: Tensor<2, Int>,
    /// The trimap, u32 `[H, W]`: known pixels have their label's alpha.
    pub labels: Tensor<2, Int>,
    /// The trimap with the pixels that a coarser level decided: only its unknown pixels move.
    pub decided: Tensor<2, Int>,
    /// Initial alpha, f32 `[H, W]`.
    pub start: Tensor<2>,
    /// The expected alpha and its weight γ, f32 `[2, rows, columns]`, upsampled to the picture.
    pub prior: Tensor<3>,
}

impl Problem {
    /// Coverage after `steps` steps: u32 `[H, W]`, 0 to 255.
    #[must_use]
    pub fn solved(self, steps: usize) -> Tensor<2, Int> {
        let Self { picture, labels, decided, start, prior } = self;
        let ([height, width], [_, rows, columns]) = (picture.dims(), prior.dims());
        let picture = buffer_of(picture);
        let labels = buffer_of(labels);
        let start = buffer_of(start);
        let prior = buffer_of(prior);
        let plane = || empty_like(&picture, [height, width], DType::F32);
        let (count, dim) = launch_grid(width, height);
        let level = Level {
            decided: buffer_of(decided),
            prior,
            alpha: plane(),
            direction: plane(),
            grid: (columns, rows),
            size: (width, height),
            picture,
        };
        let client = level.picture.client.clone();
        alpha_kernel::launch(
            &client,
            count.clone(),
            dim,
            labels.into_buffer_arg(),
            start.into_buffer_arg(),
            level.alpha.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
        );
        if width * height <= SMALL_PIXELS {
            level.solve_small(steps);
        } else {
            level.solve(steps);
        }
        let coverage = empty_like(&level.picture, [height, width], DType::U32);
        coverage_kernel::launch(
            &client,
            count,
            dim,
            level.decided.into_buffer_arg(),
            level.alpha.into_buffer_arg(),
            coverage.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
        );
        tensor_of(coverage)
    }
}
