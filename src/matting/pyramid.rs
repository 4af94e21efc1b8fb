//! Image pyramid: halves pictures, trimaps and mattes.

use rayon::prelude::*;

/// `[width, height]` halved, rounded up.
pub(super) const fn half_size([width, height]: [usize; 2]) -> [usize; 2] {
    [width.div_ceil(2), height.div_ceil(2)]
}

/// Each pixel mixed from the two by two beneath it; at an odd border the last ones count twice.
pub(super) fn halved<T: Copy + Send + Sync>(
    plane: &[T],
    [width, height]: [usize; 2],
    mix: impl Fn([T; 4]) -> T + Sync,
) -> Vec<T> {
    let [half_width, _] = half_size([width, height]);
    let row_pairs = plane.par_chunks(width * 2);
    row_pairs
        .flat_map_iter(|rows| {
            let (above, below) = if rows.len() > width { rows.split_at(width) } else { (rows, rows) };
            let mix = &mix;
            (0..half_width).map(move |x| {
                let (left, right) = (2 * x, (2 * x + 1).min(width - 1));
                mix([above[left], above[right], below[left], below[right]])
            })
        })
        .collect()
}

/// The mean colour of four pixels, rounded to nearest.
pub(super) fn mean_colour(pixels: [[u8; 4]; 4]) -> [u8; 4] {
    std::array::from_fn(|channel| {
        let sum: u16 = pixels.iter().map(|pixel| u16::from(pixel[channel])).sum();
        ((sum + 2) / 4) as u8
    })
}
