//! Bilinear upsampling of a mask from the network's grid to the pixels of the picture.
//!
//! The network sees the picture stretched to its square grid, so a pixel's centre `(x + ½, y + ½)` lies at
//! `((x + ½) · columns / width, (y + ½) · rows / height)` on the grid. The value there is bilinear between the centres
//! of the four nearest cells. Beyond the outermost centres the border cells are repeated (half-pixel centres, clamped).
//!
//! Input: f32 `[rows, columns]` in 0..=1. Output: u8 `[height, width]`, 255 standing for 1, rounded to nearest.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// One axis: numbers of cells and pixels.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    scale: f32,
    last: f32,
}

impl Axis {
    /// `cells` stretched over `pixels`.
    #[must_use]
    pub fn new(cells: usize, pixels: usize) -> Self {
        Self { scale: cells as f32 / pixels as f32, last: cells as f32 - 1.0 }
    }

    /// The two cells around pixel `at`, and the weight of the second.
    #[must_use]
    pub fn locate(self, at: usize) -> (usize, usize, f32) {
        let place = ((at as f32 + 0.5) * self.scale - 0.5).clamp(0.0, self.last);
        let first = place.floor();
        (first as usize, f32::min(first + 1.0, self.last) as usize, place - first)
    }
}
