//! Reads and limits the coverage (alpha) of packed pictures.
//!
//! *Bytes* are the alpha of each pixel, four to a word, each row from a word of its own. *Extents* are, for each row, the first
//! pixel and the one after the last that is covered by at least a threshold; 0 and 0 where none is. *Clipped* pictures are
//! covered by no more than a plane says. *Filled* ones have some pixels made transparent and some opaque: small components,
//! which the host has found.
//!
//! Pictures: packed RGBA8, u32 `[H, W]`. Whole numbers: the twins are equal.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// What becomes of a pixel of a small component: its index in the picture, and whether it becomes opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Index in the picture, row after row, below 2³¹.
    pub at: u32,
    /// Opaque, with the colour of the source; else transparent black.
    pub opaque: bool,
}

impl Fill {
    /// As one word: the index doubled, plus one for an opaque pixel.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.at << 1 | self.opaque as u32
    }
}
