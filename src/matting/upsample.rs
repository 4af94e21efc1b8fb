//! Uses the mask as a matte: bilinear upsampling from the network's grid to source size.

use crate::image::{AlphaMatte, Frame, Size};
use backdrop_kernels::mask_upsample::cpu::{Upsampled, fill};

pub(crate) fn upsampled(values: &[f32], grid: Size, frame: &Frame) -> AlphaMatte {
    let size = frame.size();
    let grid = (grid.width as usize, grid.height as usize);
    let picture = (size.width as usize, size.height as usize);
    let mut coverage = frame.buffer(size.area());
    fill(&Upsampled::new(values, grid, picture), &mut coverage, picture.0);
    AlphaMatte::new(size, coverage)
}
