//! Bilinear interpolation on the CPU, row by row.

use super::Tap;
use crate::srgb::encoded8_of_linear16;

/// Writes a row of pixels (`to`, packed RGBA8) where `canvas`, the pixels above them, is not opaque. `samples` are rows
/// of `width` cells. `line` is scratch.
///
/// # Panics
/// When a tap is outside of the grid.
pub fn row(
    samples: &[[f32; 4]],
    width: usize,
    (columns, row): (&[Tap], Tap),
    canvas: &[u8],
    line: &mut Vec<[f32; 3]>,
    to: &mut [u8],
) {
    let [above, below] = [row.first, row.second].map(|row| &samples[row as usize * width..][..width]);
    line.clear();
    // Scaled to the table's index, which leaves only rounding for each pixel.
    let scaled = |value: f32| value * 65535.0;
    line.extend(above.iter().zip(below).map(|(a, b)| mixed(first_three(a), first_three(b), row.share).map(scaled)));
    let encoded = encoded8_of_linear16();
    let pixels = to.as_chunks_mut::<4>().0.iter_mut().zip(canvas.as_chunks::<4>().0);
    for ((to, over), column) in pixels.zip(columns) {
        if over[3] == 255 {
            continue;
        }
        let light = mixed(line[column.first as usize], line[column.second as usize], column.share);
        let [red, green, blue] = light.map(|light| encoded[usize::from((light + 0.5) as u16)]);
        *to = [red, green, blue, 255];
    }
}

fn first_three(&[red, green, blue, _]: &[f32; 4]) -> [f32; 3] {
    [red, green, blue]
}

fn mixed(first: [f32; 3], second: [f32; 3], share: f32) -> [f32; 3] {
    std::array::from_fn(|channel| first[channel] + share * (second[channel] - first[channel]))
}
