//! Image pyramid: halves pictures, trimaps and mattes.

use crate::image::{Buffer, Frame};

pub(super) use backdrop_kernels::pyramid::cpu::{LevelPixels, common_label, halve, halve_rows, mean_coverage};
pub(super) use backdrop_kernels::pyramid::half_size;

/// A picture halved down to one pixel: the coarser levels of matting and of foreground estimation.
#[derive(Clone, Debug)]
pub(super) struct Pyramid {
    /// The halves, from half of the picture's size.
    pub(super) levels: Vec<PyramidLevel>,
}

#[derive(Clone, Debug)]
pub(super) struct PyramidLevel {
    pub(super) size: [usize; 2],
    /// Packed RGBA, row after row, in a buffer of the frame's pool. The first half is not stored: its pixels at the
    /// band are computed when they are read.
    stored: Option<Buffer>,
}

impl PyramidLevel {
    pub(super) fn pixels<'a>(&'a self, frame: &'a Frame) -> LevelPixels<'a> {
        match &self.stored {
            Some(buffer) => LevelPixels::Stored(buffer.as_chunks().0),
            None => LevelPixels::Halved(frame.pixels().as_chunks().0, size_of(frame)),
        }
    }
}

fn size_of(frame: &Frame) -> [usize; 2] {
    [frame.size().width as usize, frame.size().height as usize]
}

impl Pyramid {
    pub(super) fn of(frame: &Frame) -> Self {
        let mut size = size_of(frame);
        let mut levels: Vec<PyramidLevel> = Vec::new();
        while size[0].max(size[1]) > 1 {
            let half = half_size(size);
            let stored = levels.last().map(|finer| {
                let mut pixels = frame.buffer(half[0] * half[1] * 4);
                finer.pixels(frame).halve(size, pixels.as_chunks_mut().0);
                pixels
            });
            size = half;
            levels.push(PyramidLevel { size, stored });
        }
        Self { levels }
    }
}
