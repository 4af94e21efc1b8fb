//! What is known about a matte beforehand: in a clip, from the frame before.

use crate::image::{AlphaMatte, Size, Trimap};
use rayon::prelude::*;

/// Coverage that a picture's unknown band is expected to have. Known pixels are not looked at.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Width and height of the picture.
    pub size: Size,
    /// Expected coverage, row after row.
    pub coverage: Vec<u8>,
    /// How much that counts beside what the picture itself says: 0 nothing, 255 all.
    pub weight: Vec<u8>,
}

impl Carried {
    /// Expected coverage and its weight, both 0 to 1, at a pixel counted row after row.
    pub(super) fn at(&self, pixel: usize) -> (f32, f32) {
        (f32::from(self.coverage[pixel]) / 255.0, f32::from(self.weight[pixel]) / 255.0)
    }

    /// Mixes what is expected into what was found, inside the band.
    pub(super) fn blend(&self, trimap: &Trimap, found: &mut AlphaMatte) {
        let expected = self.coverage.par_iter().zip(&self.weight);
        found.coverage.par_iter_mut().zip(expected).zip(&trimap.labels).with_min_len(1 << 16).for_each(
            |((value, (&expected, &weight)), &label)| {
                if label == Trimap::UNKNOWN && weight > 0 {
                    let [found, expected, weight] = [*value, expected, weight].map(u32::from);
                    *value = ((found * (255 - weight) + expected * weight + 127) / 255) as u8;
                }
            },
        );
    }
}
