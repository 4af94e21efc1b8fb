//! A fused cascade of 3×3 convolutions over a picture of any size: tile by tile, a few rows of every layer at a time.

use super::dense::RowJob;
use super::scratch;
use super::{Dense, Shape};

const STEP: usize = 4;

/// Rows of each layer that are kept: the next layer reads one row above and one below the rows that it computes. The
/// layer after that, which adds them to its sums, is two rows behind and reads the same rows.
const RING: usize = STEP + 2;

/// Row lengths are multiples of this many pixels, so that none remain for the slowest micro-kernel.
const QUANTUM: usize = 4;

/// A part of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// First column.
    pub left: usize,
    /// First row.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Consecutive 3×3 convolutions with stride 1. A layer may add the input of the layer before it.
///
/// The planes of a large picture fit into no cache. Here a tile is processed from top to bottom, and ring buffers keep
/// the rows of every layer that the next layers still read: for a tile of 96 columns and seven layers of 32 channels
/// they stay in the second-level cache. A tile reads the real pixels around it, and zeros only outside the picture, in
/// every layer; so its result does not depend on the tiling, to the last bit.
#[derive(Debug)]
pub struct Cascade {
    layers: Vec<Layer>,
}

/// One convolution.
#[derive(Debug)]
pub struct Layer {
    /// The convolution: 3×3, stride 1.
    pub dense: Dense,
    /// Whether the input of the previous layer is added to its sums, before its activation.
    pub residual: bool,
}

impl Cascade {
    /// `layers` in the order of the data flow.
    ///
    /// When there are no layers, one is not a 3×3 convolution with stride 1, or the channels differ.
    /// When there are none, one is not a 3×3 convolution with stride 1, or the channels differ.
    #[must_use]
    pub fn new(layers: Vec<Layer>) -> Self {
        assert!(!layers.is_empty(), "a cascade has layers");
        assert!(layers.iter().all(|layer| layer.dense.is_same_sized()), "a cascade is of 3×3 convolutions");
        for pair in layers.windows(2) {
            assert_eq!(pair[0].dense.channels_out(), pair[1].dense.channels_in(), "layers of other channels");
        }
        for (index, layer) in layers.iter().enumerate().filter(|(_, layer)| layer.residual) {
            let added = index.checked_sub(1).map(|before| layers[before].dense.channels_in());
            assert_eq!(added, Some(layer.dense.channels_out()), "a residual of other channels");
        }
        Self { layers }
    }

    /// Radius in pixels of the surroundings on which a tile depends.
    #[must_use]
    pub fn reach(&self) -> usize {
        self.layers.len()
    }

    /// Channels of the input.
    #[must_use]
    pub fn channels_in(&self) -> usize {
        self.layers[0].dense.channels_in()
    }

    /// Channels of the result.
    #[must_use]
    pub fn channels_out(&self) -> usize {
        self.layers[self.layers.len() - 1].dense.channels_out()
    }

    /// Computes one tile of a picture of `width` by `height` pixels, on this thread.
    ///
    /// `source(y, x, pixels)` fills `pixels` (of the input, from column `x` on), once for each row that the tile reads,
    /// from the top. `sink(y, pixels)` receives the tile's rows, from the top. Neither may start tasks on the pool.
    ///
    /// # Panics
    /// When the tile is not inside the picture.
    pub fn run(
        &self,
        [width, height]: [usize; 2],
        tile: Tile,
        mut source: impl FnMut(usize, usize, &mut [f32]),
        mut sink: impl FnMut(usize, &[f32]),
    ) {
        let (right, bottom) = (tile.left + tile.width, tile.top + tile.height);
        assert!(right <= width && bottom <= height, "{tile:?} is not inside a picture of {width}×{height}");
        let depth = self.layers.len();
        // The planes: the input, then each layer's output, all with the input's columns.
        let columns = tile.width + 2 * depth + QUANTUM;
        let channels = |plane: usize| match plane {
            0 => self.channels_in(),
            plane => self.layers[plane - 1].dense.channels_out(),
        };
        let row = |plane: usize| Shape::new(1, columns, channels(plane), 0).len();
        let starts: Vec<usize> =
            (0..=depth + 1).map(|end| (0..end).map(|plane| (RING * row(plane)).next_multiple_of(16)).sum()).collect();
        let line = |plane: usize, y: usize| starts[plane] + (y % RING) * row(plane);
        let pixel = |plane: usize, x: usize| (x + depth - tile.left) * channels(plane);
        // Distance that each plane reaches beyond the tile, and its columns inside the picture.
        let margin = |plane: usize| depth - plane;
        let first_column = |plane: usize| tile.left.saturating_sub(margin(plane));
        let first_row = |plane: usize| tile.top.saturating_sub(margin(plane));
        let end_column = |plane: usize| {
            let first = first_column(plane);
            (first + (right + margin(plane) - first).next_multiple_of(QUANTUM)).min(width)
        };
        scratch::with(starts[depth + 1], |memory| {
            // Every plane is zero outside the picture, where the code below never writes.
            memory.fill(0.0);
            let mut computed: Vec<usize> = (0..=depth).map(first_row).collect();
            // End of the computed rows of the result. The first steps only fill the ring buffers.
            let mut target_end = tile.top as isize - 2 * depth as isize;
            while computed[depth] < bottom {
                target_end = (target_end + STEP as isize).min(bottom as isize);
                for plane in 0..=depth {
                    let end =
                        (target_end + margin(plane) as isize).clamp(computed[plane] as isize, height as isize) as usize;
                    let (from, to) = (first_column(plane), end_column(plane));
                    let span = |y: usize| line(plane, y) + pixel(plane, from)..line(plane, y) + pixel(plane, to);
                    match plane.checked_sub(1) {
                        None => (computed[0]..end).for_each(|y| source(y, from, &mut memory[span(y)])),
                        Some(layer) => {
                            let base = memory.as_mut_ptr();
                            let at =
                                |plane: usize, y: usize, x: usize| base.wrapping_add(line(plane, y) + pixel(plane, x));
                            // Row `y` from the column before the first one, which is a zero outside the picture.
                            let input_row = |y: Option<usize>| match y {
                                Some(y) if y < height => at(layer, y, from).wrapping_sub(channels(layer)).cast_const(),
                                _ => std::ptr::null(),
                            };
                            let Layer { dense, residual } = &self.layers[layer];
                            let job = |offset: usize| {
                                let y = computed[plane] + offset;
                                let added = if *residual { layer.checked_sub(1) } else { None };
                                RowJob {
                                    rows: [input_row(y.checked_sub(1)), input_row(Some(y)), input_row(Some(y + 1))],
                                    width: to - from,
                                    output: at(plane, y, from),
                                    output_stride: channels(plane),
                                    residual: added.map_or(std::ptr::null(), |added| at(added, y, from).cast_const()),
                                    residual_stride: channels(plane),
                                    residual_shift: 0,
                                }
                            };
                            // SAFETY: rows `y - 1..=y + 1` of the previous plane are in its ring, and so is row `y` of
                            // the plane before that. Columns `from - 1..=to` lie within a row of it, because a plane
                            // reaches one pixel less far than the previous one. The written row is in no other plane.
                            unsafe { dense.run_rows(end - computed[plane], job) };
                            if plane == depth {
                                let result = |y: usize| {
                                    let start = line(plane, y) + pixel(plane, tile.left);
                                    start..start + tile.width * channels(plane)
                                };
                                (computed[plane]..end).for_each(|y| sink(y, &memory[result(y)]));
                            }
                        }
                    }
                    computed[plane] = end;
                }
            }
        });
    }
}
