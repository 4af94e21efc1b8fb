//! What the guided network sees beside a picture: the mask so far, and the caller's marks.

/// Three square planes of a picture, stretched to the network's input: the mask so far, marks on the subject, and marks on the
/// background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    side: usize,
    /// The planes, one after another, row after row, in 0..=255.
    planes: Vec<u8>,
}

impl Hints {
    /// The number of planes.
    pub const PLANES: usize = 3;
    /// The plane of marks on the subject, and the plane of marks on the background.
    pub const MARKS: [usize; 2] = [1, 2];

    /// Hints with the mask so far, of which `mask(x, y)` in 0..=1 is the value at column `x` and row `y`, and without marks.
    #[must_use]
    pub fn new(side: u32, mask: impl Fn(usize, usize) -> f32) -> Self {
        let side = side as usize;
        let mut planes = vec![0; Self::PLANES * side * side];
        for (at, value) in planes[..side * side].iter_mut().enumerate() {
            *value = (mask(at % side, at / side) * 255.0).round() as u8;
        }
        Self { side, planes }
    }

    /// Columns and rows of a plane.
    #[must_use]
    pub const fn side(&self) -> usize {
        self.side
    }

    /// Marks a disc in `plane` around column and row `center`, as far as it lies inside.
    pub fn mark(&mut self, plane: usize, center: [u32; 2], radius: u32) {
        let [x, y, radius] = [center[0], center[1], radius].map(|value| value as usize);
        let span = |at: usize| at.saturating_sub(radius)..(at + radius + 1).min(self.side);
        for (row, column) in span(y).flat_map(|row| span(x).map(move |column| (row, column))) {
            if column.abs_diff(x).pow(2) + row.abs_diff(y).pow(2) <= radius.pow(2) {
                self.planes[(plane * self.side + row) * self.side + column] = 255;
            }
        }
    }

    /// Writes the planes to `squares` as the channels of squares of `size` × `size` pixels, in 0..=1: f32
    /// `[side / size, side / size, planes · size²]`, each plane's pixels row after row (PyTorch's `pixel_unshuffle`).
    ///
    /// # Panics
    /// When `squares` has another length.
    pub fn write_squares(&self, size: usize, squares: &mut [f32]) {
        assert_eq!(squares.len(), self.planes.len(), "squares of another extent");
        let (columns, channels) = (self.side / size, Self::PLANES * size * size);
        for (at, square) in squares.chunks_exact_mut(channels).enumerate() {
            let [left, top] = [at % columns * size, at / columns * size];
            for (channel, value) in square.iter_mut().enumerate() {
                let [plane, y, x] = [channel / (size * size), channel / size % size, channel % size];
                *value = f32::from(self.planes[(plane * self.side + top + y) * self.side + left + x]) / 255.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_the_channels_of_pixel_unshuffle() {
        let mut hints = Hints::new(4, |x, y| (4 * y + x) as f32 / 255.0);
        hints.mark(Hints::MARKS[1], [3, 2], 0);
        let mut squares = [0.0; 48];
        hints.write_squares(2, &mut squares);
        let bytes = squares.map(|value| (value * 255.0).round() as u8);
        assert_eq!(bytes[..12], [0, 1, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[36..], [10, 11, 14, 15, 0, 0, 0, 0, 0, 255, 0, 0]);
    }
}
