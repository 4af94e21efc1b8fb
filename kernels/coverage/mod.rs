//! Reads and limits the coverage (alpha) of packed pictures.
//!
//! *Bytes* are the alpha of each pixel, four to a word; each row starts a new word. *Extents* are, for each row, the
//! index of the first pixel with coverage of at least a threshold, and after the last one; 0 and 0 without such a
//! pixel. *Clipped* pictures have their coverage limited by a plane. *Filled* pictures have pixels of small components,
//! found by the host, made transparent or opaque.
//!
//! Pictures: packed RGBA8, u32 `[H, W]`. Integers: the twins are equal.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Change of a small component's pixel: its index in the picture, and whether it becomes opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Index in the picture, row after row, below 2³¹.
    pub at: u32,
    /// Opaque, with the colour of the source; else transparent black.
    pub opaque: bool,
}

impl Fill {
    /// As a word: the index doubled, plus one for an opaque pixel.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.at << 1 | self.opaque as u32
    }
}
