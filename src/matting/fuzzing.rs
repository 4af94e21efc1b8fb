//! Fuzz target of the cutout: any size of picture, any mask, any options.

use super::{Edge, Hair, Method, Options, cut_out};
use crate::image::{Buffer, Frame, RawMask, Rect, Size};
use arbitrary::{Result, Unstructured};
use std::time::Duration;

const MAX_PIXELS: u32 = 1 << 14;
/// Longest side, as in the API.
const MAX_SIDE: u32 = 4096;
/// Sides of the mask's grid: the network's, and smaller ones for speed.
const GRIDS: [u32; 4] = [48, 96, 96, 384];
/// Constant part of the allowed CPU time, too small to hide a slow input.
const BASE: Duration = Duration::from_millis(200);
/// Allowed CPU time for each pixel of picture and mask, which takes about a microsecond in the build of `fuzz/`.
const PER_PIXEL: Duration = Duration::from_micros(10);

/// Cuts out of the picture that `bytes` describe. Returns the allowed CPU time: a fifth of a second, and a part in
/// proportion to the pixels of picture and mask.
///
/// # Panics
/// When the sizes of cutout and picture differ.
#[must_use]
pub fn cutting_out(bytes: &[u8]) -> Duration {
    let Ok((frame, mask, options)) = case(&mut Unstructured::new(bytes)) else { return BASE };
    let size = frame.size();
    if let Ok(cutout) = cut_out(frame, &mask, &options) {
        assert_eq!(cutout.frame().size(), size);
    }
    BASE + PER_PIXEL * u32::try_from(size.area() + mask.size().area()).expect("both are small")
}

fn case(input: &mut Unstructured<'_>) -> Result<(Frame, RawMask, Options)> {
    let width = input.int_in_range(1..=MAX_SIDE)?;
    let height = input.int_in_range(1..=(MAX_PIXELS / width).clamp(1, MAX_SIDE))?;
    let size = if input.arbitrary()? { Size::new(width, height) } else { Size::new(height, width) };
    let options = Options {
        method: if input.ratio(1, 8)? { Method::None } else { Method::ClosedForm },
        edge: if input.arbitrary()? { Edge::Hard } else { Edge::Soft },
        despill: f32::from(input.int_in_range(0..=4_u8)?) / 4.0,
        decontaminate: input.arbitrary()?,
        opaque: input.arbitrary()?,
        hair: if input.ratio(1, 4)? { Some(hair(input)?) } else { None },
    };
    let grid = *input.choose(&GRIDS)?;
    // Mask and picture consist of blocks; `bytes` determine how many.
    let side = input.int_in_range(1..=24_u32)?;
    let noise: u8 = input.int_in_range(0..=64)?;
    let blocks = (0..side * side).map(|_| input.arbitrary::<[u8; 4]>().unwrap_or_default()).collect::<Vec<_>>();
    let block = |x: u32, y: u32, size: Size| {
        let at = |at: u32, of: u32| u64::from(at) * u64::from(side) / u64::from(of);
        blocks[(at(y, size.height) * u64::from(side) + at(x, size.width)) as usize]
    };
    let grain =
        |x: u32, y: u32| (x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) >> 13) as u8 % (noise + 1);
    let cells = Size::new(grid, grid);
    let values = places(cells).map(|(x, y)| f32::from(block(x, y, cells)[3].saturating_add(grain(x, y))) / 255.0);
    let mask = RawMask::new(cells, values.collect::<Vec<_>>()).expect("probabilities");
    let pixels = places(size).flat_map(|(x, y)| {
        let [red, green, blue, _] = block(x, y, size);
        let grain = grain(x, y);
        [red.wrapping_add(grain), green.wrapping_add(grain), blue.wrapping_sub(grain), 255]
    });
    Ok((Frame::new(size, Buffer::from(pixels.collect::<Vec<u8>>())), mask, options))
}

fn hair(input: &mut Unstructured<'_>) -> Result<Hair> {
    let [left, top, width, height] = input.arbitrary::<[u16; 4]>()?.map(u32::from);
    Ok(Hair { region: Rect { left, top, width, height }, reach: f32::from_bits(input.arbitrary()?) })
}

fn places(size: Size) -> impl Iterator<Item = (u32, u32)> {
    (0..size.height).flat_map(move |y| (0..size.width).map(move |x| (x, y)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        crate::fuzzing::replay("cutting_out", super::cutting_out);
    }
}
