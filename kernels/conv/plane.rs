//! Activation planes in memory: height × width × channels, rows padded with zero pixels, aligned to cache lines.

use std::fmt;

/// One cache line: vectors of sixteen channels never straddle two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; Self::FLOATS]);

impl Line {
    const FLOATS: usize = 16;
}

/// A growable f32 buffer that starts on a cache line.
#[derive(Clone, Default)]
pub(super) struct Aligned {
    lines: Vec<Line>,
}

impl Aligned {
    /// Grows to at least `floats` values; new values are zero.
    pub(super) fn grow(&mut self, floats: usize) {
        let lines = floats.div_ceil(Line::FLOATS);
        if lines > self.lines.len() {
            self.lines.resize(lines, Line([0.0; Line::FLOATS]));
        }
    }

    pub(super) fn as_slice(&self) -> &[f32] {
        // SAFETY: `Line` is `repr(C)` around `[f32; 16]` and 64 bytes long, so n lines are 16·n consecutive floats.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * Line::FLOATS) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [f32] {
        // SAFETY: as above, and `self` is borrowed mutably for as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * Line::FLOATS) }
    }
}

/// The extent of a [`Plane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Pixels in a row, without the padding.
    pub width: usize,
    /// Values in a pixel.
    pub channels: usize,
    /// Zero pixels at each end of every row.
    pub pad: usize,
}

impl Shape {
    /// `height` rows of `width` pixels of `channels` values, with `pad` zero pixels at both ends of every row.
    #[must_use]
    pub const fn new(height: usize, width: usize, channels: usize, pad: usize) -> Self {
        Self { height, width, channels, pad }
    }

    /// Values from row to row.
    #[must_use]
    pub const fn row(self) -> usize {
        (self.width + 2 * self.pad) * self.channels
    }

    /// Values in the whole plane, padding included.
    #[must_use]
    pub const fn len(self) -> usize {
        self.height * self.row()
    }

    /// Whether it has no values.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Offset of a row's first pixel, in values.
    #[must_use]
    pub const fn margin(self) -> usize {
        self.pad * self.channels
    }
}

/// An activation: f32, height × width × channels, with zero pixels at both ends of every row.
///
/// Kernels write only real pixels, so padding that was zero once stays zero.
#[derive(Clone)]
pub struct Plane {
    buffer: Aligned,
    shape: Shape,
}

impl Plane {
    /// A plane of zeros.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let mut buffer = Aligned::default();
        buffer.grow(shape.len());
        Self { buffer, shape }
    }

    /// A plane of `pixels` (height × width × channels, packed).
    ///
    /// # Panics
    /// When the number of values does not match `shape`.
    #[must_use]
    pub fn from_packed(shape: Shape, pixels: &[f32]) -> Self {
        let packed = shape.width * shape.channels;
        assert_eq!(pixels.len(), shape.height * packed, "{shape:?} holds another number of values");
        let mut plane = Self::new(shape);
        for (row, source) in plane.data_mut().chunks_exact_mut(shape.row()).zip(pixels.chunks_exact(packed)) {
            row[shape.margin()..][..packed].copy_from_slice(source);
        }
        plane
    }

    /// The pixels without padding.
    #[must_use]
    pub fn to_packed(&self) -> Vec<f32> {
        let Shape { width, channels, .. } = self.shape;
        self.data()
            .chunks_exact(self.shape.row())
            .flat_map(|row| &row[self.shape.margin()..][..width * channels])
            .copied()
            .collect()
    }

    /// Gives the plane another shape; its values are lost. Allocates only to grow.
    pub fn reshape(&mut self, shape: Shape) {
        if shape == self.shape {
            return;
        }
        self.buffer.grow(shape.len());
        self.shape = shape;
        if shape.pad > 0 {
            let margin = shape.margin();
            for row in self.data_mut().chunks_exact_mut(shape.row()) {
                row[..margin].fill(0.0);
                let end = row.len() - margin;
                row[end..].fill(0.0);
            }
        }
    }

    /// The extent.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// All values, padding included, row after row.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        &self.buffer.as_slice()[..self.shape.len()]
    }

    /// All values, padding included. The padding must stay zero.
    pub fn data_mut(&mut self) -> &mut [f32] {
        let len = self.shape.len();
        &mut self.buffer.as_mut_slice()[..len]
    }

    /// The first pixel of row `y`, after the padding; null outside the picture. The pointer covers the whole plane,
    /// because kernels read back into the padding from it.
    pub(super) fn pixel_row(&self, y: isize) -> *const f32 {
        match usize::try_from(y) {
            Ok(y) if y < self.shape.height => {
                self.data().as_ptr().wrapping_add(y * self.shape.row() + self.shape.margin())
            }
            _ => std::ptr::null(),
        }
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane").field("shape", &self.shape).finish_non_exhaustive()
    }
}
