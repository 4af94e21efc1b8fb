//! Image pyramid: halves pictures, trimaps and mattes.

use crate::image::{Buffer, Frame};
use std::ops::Deref;

pub(super) use backdrop_kernels::pyramid::cpu::{common_label, halve, halve_rows, mean_colour, mean_coverage};
pub(super) use backdrop_kernels::pyramid::half_size;

/// A picture halved again and again, down to one pixel: what the coarser levels of matting and of foreground estimation read.
#[derive(Clone, Debug)]
pub(super) struct Pyramid {
    /// From half of the picture's size on.
    pub(super) levels: Vec<Level>,
}

/// A picture of a pyramid: packed RGBA, row after row.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) size: [usize; 2],
    pub(super) pixels: Pixels,
}

/// Pixels in a buffer of the pool of the frame.
#[derive(Clone, Debug)]
pub(super) struct Pixels(Buffer);

impl Deref for Pixels {
    type Target = [[u8; 4]];
    fn deref(&self) -> &[[u8; 4]] {
        self.0.as_chunks().0
    }
}

impl Pyramid {
    pub(super) fn of(frame: &Frame) -> Self {
        let mut size = [frame.size().width as usize, frame.size().height as usize];
        let mut levels: Vec<Level> = Vec::new();
        while size[0].max(size[1]) > 1 {
            let finer = levels.last().map_or(frame.pixels().as_chunks::<4>().0, |level| &level.pixels);
            let half = half_size(size);
            let mut pixels = frame.buffer(half[0] * half[1] * 4);
            halve(finer, size, mean_colour, pixels.as_chunks_mut().0);
            size = half;
            levels.push(Level { size, pixels: Pixels(pixels) });
        }
        Self { levels }
    }
}
