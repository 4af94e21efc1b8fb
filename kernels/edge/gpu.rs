//! Traces of coverage on the GPU. In whole numbers, which no device rounds otherwise: the quotient is never halfway between two.

use burn::backend::tensor::IntTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::TRACE;
use crate::device::{empty_like, host_int_tensor, host_words, launch_grid, scalar};

/// `255 - 2 t`.
const SPAN: u32 = 255 - 2 * TRACE as u32;

#[cube(launch)]
fn without_traces_kernel(coverage: &[u32], output: &mut [u32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let trace = u32::cast_from(TRACE);
    let above = coverage[at] - min(coverage[at], trace);
    output[at] = min((above * 510 + SPAN) / (2 * SPAN), 255u32);
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube, Fusion)]
pub trait Traces: Backend {
    /// `coverage`: u32 `[H, W]`. Returns u32 `[H, W]`.
    #[fusion(dtype = coverage, shape = coverage)]
    fn without_traces(coverage: IntTensor<Self>) -> IntTensor<Self>;
}

impl Traces for Flex {
    fn without_traces(coverage: IntTensor<Self>) -> IntTensor<Self> {
        let shape = coverage.shape();
        let table = super::cpu::without_traces();
        let values = host_words(coverage).into_iter().map(|value| u32::from(table[value as usize]));
        host_int_tensor(values.collect(), shape)
    }
}

impl Traces for CubeBackend {
    fn without_traces(coverage: IntTensor<Self>) -> IntTensor<Self> {
        let coverage: CubeTensor = into_contiguous(coverage);
        let [height, width] = coverage.shape().dims();
        let output = empty_like(&coverage, [height, width], DType::U32);
        let (count, dim) = launch_grid(width, height);
        without_traces_kernel::launch(
            &output.client,
            count,
            dim,
            coverage.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
        );
        output
    }
}

/// `coverage` (u32 `[H, W]`) without traces, on its device.
#[must_use]
pub fn without_traces(coverage: Tensor<2, Int>) -> Tensor<2, Int> {
    Tensor::from_dispatch(<Dispatch as Traces>::without_traces(coverage.into_dispatch()))
}
