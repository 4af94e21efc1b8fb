//! What is known about the subject: mask, trimap, matte, cutout. A *mask* is the network's guess on its own grid;
//! a *matte* is coverage at source size.

use super::geometry::bounds_of;
use super::{Frame, Rect, Size};

/// The network's guess, on the network's own grid (the picture stretched to it).
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// Columns and rows of the grid.
    pub size: Size,
    /// Probability of subject, 0..=1, row after row.
    pub values: Vec<f32>,
}

/// Known background, known foreground, and the unknown band between, at source size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimap {
    /// Width and height of the picture.
    pub size: Size,
    /// [`Trimap::BACKGROUND`], [`Trimap::UNKNOWN`] or [`Trimap::FOREGROUND`], row after row.
    pub labels: Vec<u8>,
}

impl Trimap {
    /// Surely background.
    pub const BACKGROUND: u8 = 0;
    /// To be solved by matting.
    pub const UNKNOWN: u8 = 128;
    /// Surely subject.
    pub const FOREGROUND: u8 = 255;
}

/// How much of each pixel the subject covers, at source size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlphaMatte {
    /// Width and height of the picture.
    pub size: Size,
    /// Coverage 0..=255 (standing for 0..=1), row after row: eight bits, as every output stores it.
    pub coverage: Vec<u8>,
}

impl AlphaMatte {
    /// The bounds of all pixels that are covered by at least `alpha`.
    #[must_use]
    pub fn covered(&self, alpha: u8) -> Option<Rect> {
        bounds_of(self.size, |row| {
            let row = &self.coverage[row as usize * self.size.width as usize..][..self.size.width as usize];
            let first = row.iter().position(|&value| value >= alpha)?;
            Some((first, row.iter().rposition(|&value| value >= alpha)?))
        })
    }
}

/// The subject alone: foreground colour and coverage, straight alpha.
///
/// Where coverage is 255 the colour is the source's, bit for bit.
#[derive(Clone, Debug)]
pub struct Cutout(pub Frame);
