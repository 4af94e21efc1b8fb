//! A PNG that shows pictures side by side: each a row of cells, the next picture beside or below it.

use super::exit::Failure;
use crate::codec::{self, Channels, EncodeOptions, PngEffort};
use crate::compose::{self, Materials, Resize, Scene};
use crate::image::color::{encoded_of_linear, linear_of_encoded};
use crate::image::{Buffer, Composite, Frame, OutputFormat, Quality, Rect, Size, Subject};
use bytes::Bytes;

/// Between the cells and around them.
const MARGIN: u32 = 12;
const PAPER: [u8; 3] = [250, 250, 250];
const SQUARES: [[u8; 3]; 2] = [[255, 255, 255], [208, 208, 208]];
/// Side of a square of the checkerboard.
const SQUARE: u32 = 12;
/// Cells of a picture.
const CELLS: u32 = 3;

/// What shows where a cell is clear.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ground {
    /// The sheet itself.
    Paper,
    /// A checkerboard.
    Checkers,
    /// One colour.
    Colour([u8; 3]),
}

impl Ground {
    fn at(self, x: u32, y: u32) -> [u8; 3] {
        match self {
            Self::Paper => PAPER,
            Self::Checkers => SQUARES[((x / SQUARE + y / SQUARE) % 2) as usize],
            Self::Colour(colour) => colour,
        }
    }
}

/// Side lengths of the cells of a sheet for `count` pictures: large for a few, small for many.
pub(super) const fn cell_size(count: usize) -> Size {
    if is_small(count) { Size::new(400, 300) } else { Size::new(160, 160) }
}

const fn is_small(count: usize) -> bool {
    count <= 8
}

/// A picture that fits into a `cell`, with transparency around it.
pub(super) fn fitted(frame: Frame, cell: Size) -> Result<Frame, Failure> {
    let resize = Resize { width: Some(cell.width), height: Some(cell.height), max_dim: None };
    let scene = Scene { resize, ..Scene::default() };
    let whole = Rect::whole(frame.size());
    let layout = scene.layout(frame.size(), whole)?;
    Ok(compose::flatten(Subject::Source(frame), whole, &layout, &scene, Materials::default()).composite.into_frame())
}

/// A sheet in the making.
#[derive(Debug)]
pub(super) struct ContactSheet {
    cell: Size,
    /// Pictures side by side, each with its cells.
    across: u32,
    rows: u32,
    drawn: u32,
    pixels: Vec<u8>,
}

impl ContactSheet {
    /// A sheet for `count` pictures.
    pub(super) fn new(count: usize) -> Self {
        let across = if is_small(count) { 1 } else { 4 };
        let rows = u32::try_from(count).unwrap_or(u32::MAX).div_ceil(across);
        let mut sheet = Self { cell: cell_size(count), across, rows, drawn: 0, pixels: Vec::new() };
        sheet.pixels = [PAPER[0], PAPER[1], PAPER[2], 255].repeat(sheet.size().area());
        sheet
    }

    fn size(&self) -> Size {
        let side = |cell: u32, count: u32| MARGIN + count * (cell + MARGIN);
        Size::new(side(self.cell.width, self.across * CELLS), side(self.cell.height, self.rows))
    }

    /// Draws the next picture: its cells, each [`fitted`] to the [`cell_size`], from left to right.
    pub(super) fn add(&mut self, cells: [(&Frame, Ground); CELLS as usize]) {
        let (row, column) = (self.drawn / self.across, self.drawn % self.across * CELLS);
        for (column, (cell, ground)) in (column..).zip(cells) {
            self.draw(row, column, cell, ground);
        }
        self.drawn += 1;
    }

    /// Draws a cell over `ground`, mixed in linear light.
    fn draw(&mut self, row: u32, column: u32, cell: &Frame, ground: Ground) {
        let left = MARGIN + column * (self.cell.width + MARGIN);
        let top = MARGIN + row * (self.cell.height + MARGIN);
        let stride = self.size().width as usize;
        for y in 0..self.cell.height {
            for x in 0..self.cell.width {
                let [r, g, b, alpha] = cell.pixel(x, y);
                let under = ground.at(x, y);
                let at = ((top + y) as usize * stride + (left + x) as usize) * 4;
                for (channel, over) in [r, g, b].into_iter().enumerate() {
                    self.pixels[at + channel] = mix(over, under[channel], alpha);
                }
            }
        }
    }

    /// The file; nothing when nothing was drawn.
    pub(super) fn finish(self) -> Result<Option<Bytes>, Failure> {
        if self.drawn == 0 {
            return Ok(None);
        }
        let options = EncodeOptions {
            format: OutputFormat::Png,
            quality: Quality::DEFAULT,
            png: PngEffort::Small,
            channels: Channels::Rgba,
        };
        let sheet = Composite::unchanged(Frame::new(self.size(), Buffer::from(self.pixels)));
        Ok(Some(codec::encode(sheet, &options)?.bytes))
    }
}

fn mix(over: u8, under: u8, alpha: u8) -> u8 {
    match alpha {
        0 => under,
        255 => over,
        _ => {
            let light = |value: u8| linear_of_encoded(f32::from(value) / 255.0);
            let share = f32::from(alpha) / 255.0;
            // In 0..=255 after rounding, because both inputs are.
            (encoded_of_linear(light(over) * share + light(under) * (1.0 - share)) * 255.0).round() as u8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_its_ground_where_the_cutout_is_clear_and_mixes_light_between() {
        let mut sheet = ContactSheet::new(1);
        let mut frame = Frame::new(sheet.cell, Buffer::from(vec![0; sheet.cell.area() * 4]));
        frame.pixels_mut()[..8].copy_from_slice(&[255, 0, 0, 255, 255, 255, 255, 128]);
        sheet.draw(0, 1, &frame, Ground::Colour([0, 0, 0]));
        let at = |x: usize| (MARGIN as usize * sheet.size().width as usize + 400 + 2 * MARGIN as usize + x) * 4;
        assert_eq!(sheet.pixels[at(0)..at(0) + 4], [255, 0, 0, 255]);
        // Half the light of white is 188, not 128.
        assert_eq!(sheet.pixels[at(1)..at(1) + 4], [188, 188, 188, 255]);
        assert_eq!(sheet.pixels[at(2)..at(2) + 4], [0, 0, 0, 255]);
        assert_eq!(sheet.pixels[..3], PAPER);
    }

    #[test]
    fn a_sheet_has_room_for_every_picture() {
        assert_eq!(ContactSheet::new(2).size(), Size::new(12 + 3 * 412, 12 + 2 * 312));
        assert_eq!(ContactSheet::new(9).size(), Size::new(12 + 12 * 172, 12 + 3 * 172));
    }
}
