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

#[cfg(test)]
mod tests {
    use super::super::reference::Values;
    use super::super::{Activation, Filter, Isa, Plane, Residual};
    use super::*;

    const CHANNELS: [usize; 5] = [3, 16, 16, 16, 12];

    /// Four layers, the third of which adds the input of the second.
    fn layers(isa: Isa) -> Vec<Layer> {
        let mut values = Values::new(9);
        let shapes = CHANNELS.windows(2).enumerate();
        let layer = |(index, channels): (usize, &[usize])| {
            let weights = values.take(channels[0] * channels[1] * 9);
            let bias = values.take(channels[1]);
            let filter = Filter { weights: &weights, bias: &bias };
            let activation = if index < 3 { Activation::Relu } else { Activation::Linear };
            let dense = Dense::new(isa, 3, 1, channels[0], channels[1], filter, activation);
            Layer { dense, residual: index == 2 }
        };
        shapes.map(layer).collect()
    }

    fn whole(layers: &[Layer], input: &Plane) -> Vec<f32> {
        let mut planes = vec![input.clone()];
        for (index, layer) in layers.iter().enumerate() {
            let mut output = Plane::new(layer.dense.output_shape(planes[index].shape(), 1));
            let residual = if layer.residual { Residual::Same(&planes[index - 1]) } else { Residual::None };
            layer.dense.run(&planes[index], residual, &mut output);
            planes.push(output);
        }
        planes[layers.len()].to_packed()
    }

    fn tiled(cascade: &Cascade, input: &Plane, tile: [usize; 2]) -> Vec<f32> {
        let Shape { width, height, .. } = input.shape();
        let pixels = input.to_packed();
        let mut output = vec![f32::NAN; width * height * 12];
        for top in (0..height).step_by(tile[1]) {
            for left in (0..width).step_by(tile[0]) {
                let tile = Tile { left, top, width: tile[0].min(width - left), height: tile[1].min(height - top) };
                let mut last_row = None;
                let source = |y: usize, x: usize, to: &mut [f32]| {
                    assert!(last_row.is_none_or(|before| y == before + 1), "rows are read once, in order");
                    last_row = Some(y);
                    to.copy_from_slice(&pixels[(y * width + x) * 3..][..to.len()]);
                };
                let mut next_row = top;
                cascade.run([width, height], tile, source, |y, row| {
                    assert_eq!(y, next_row);
                    next_row += 1;
                    output[(y * width + left) * 12..][..tile.width * 12].copy_from_slice(row);
                });
                assert_eq!(next_row, top + tile.height, "every row is written");
            }
        }
        output
    }

    #[test]
    fn tiles_of_any_size_match_whole_planes_bit_for_bit() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let cascade = Cascade::new(layers(isa));
            for (height, width) in [(1, 1), (1, 40), (41, 1), (3, 5), (9, 37), (47, 30)] {
                let input = Values::new(10).plane(height, width, 3, 1);
                let expected = whole(&cascade.layers, &input);
                for tile in [[width, height], [1, 1], [7, 2], [16, 5], [29, 23], [3, 60]] {
                    // `assert_eq` would print every value.
                    assert!(tiled(&cascade, &input, tile) == expected, "{isa}: {width}×{height} in tiles of {tile:?}");
                }
            }
        }
    }

    #[test]
    fn a_tile_depends_on_pixels_up_to_its_reach_and_no_further() {
        let cascade = Cascade::new(layers(Isa::detect()));
        assert_eq!((cascade.reach(), cascade.channels_in(), cascade.channels_out()), (4, 3, 12));
        let (width, tile) = (40, Tile { left: 20, top: 0, width: 1, height: 1 });
        let run = |changed: usize| {
            let mut result = Vec::new();
            let source = |_: usize, x: usize, to: &mut [f32]| {
                for (offset, pixel) in to.chunks_exact_mut(3).enumerate() {
                    pixel.fill(if x + offset == changed { 0.9 } else { 0.4 });
                }
            };
            cascade.run([width, 1], tile, source, |_, row| result = row.to_vec());
            result
        };
        let undisturbed = run(width);
        for (column, affects) in [(15, false), (16, true), (20, true), (24, true), (25, false)] {
            assert_eq!(run(column) != undisturbed, affects, "column {column}");
        }
    }
}
