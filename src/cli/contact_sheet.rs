//! Draws contact sheets: a PNG with a row of three cells for each picture.

use super::exit_code::Failure;
use crate::codec::{self, Channels, EncodeOptions, PngEffort};
use crate::compose::{self, Materials, Resize, Scene};
use crate::image::color::{encoded_of_linear, linear_of_encoded};
use crate::image::{Buffer, Composite, Frame, OutputFormat, Quality, Rect, Size, Subject};
use bytes::Bytes;

/// Pixels between and around the cells.
const MARGIN: u32 = 12;
const SHEET_COLOUR: [u8; 3] = [250, 250, 250];
const CHECKER_COLOURS: [[u8; 3]; 2] = [[255, 255, 255], [208, 208, 208]];
/// Side of a checkerboard square in pixels.
const CHECKER_PX: u32 = 12;
/// Cells per picture.
const CELLS: u32 = 3;

/// The background of a transparent picture in its cell.
#[derive(Clone, Copy, Debug)]
pub(super) enum CellBackground {
    /// The colour of the sheet.
    Sheet,
    /// A checkerboard.
    Checkerboard,
    /// One colour.
    Colour([u8; 3]),
}

impl CellBackground {
    fn at(self, x: u32, y: u32) -> [u8; 3] {
        match self {
            Self::Sheet => SHEET_COLOUR,
            Self::Checkerboard => CHECKER_COLOURS[((x / CHECKER_PX + y / CHECKER_PX) % 2) as usize],
            Self::Colour(colour) => colour,
        }
    }
}

/// Cell size of a sheet for `count` pictures: large for a few, small for many.
pub(super) const fn cell_size(count: usize) -> Size {
    if is_small(count) { Size::new(400, 300) } else { Size::new(160, 160) }
}

const fn is_small(count: usize) -> bool {
    count <= 8
}

/// Resizes a picture to fit into a cell.
pub(super) fn fit_to_cell(frame: Frame, cell: Size) -> Result<Frame, Failure> {
    let resize = Resize { width: Some(cell.width), height: Some(cell.height), max_dim: None };
    let scene = Scene { resize, ..Scene::default() };
    let whole = Rect::whole(frame.size());
    let layout = scene.layout(frame.size(), whole)?;
    Ok(compose::flatten(Subject::Source(frame), whole, &layout, &scene, Materials::default()).composite.into_frame())
}

/// A sheet being drawn.
#[derive(Debug)]
pub(super) struct ContactSheet {
    cell: Size,
    /// Pictures per row.
    columns: u32,
    rows: u32,
    drawn: u32,
    pixels: Vec<u8>,
}

impl ContactSheet {
    /// A sheet for `count` pictures.
    pub(super) fn new(count: usize) -> Self {
        let columns = if is_small(count) { 1 } else { 4 };
        let rows = u32::try_from(count).unwrap_or(u32::MAX).div_ceil(columns);
        let mut sheet = Self { cell: cell_size(count), columns, rows, drawn: 0, pixels: Vec::new() };
        sheet.pixels = [SHEET_COLOUR[0], SHEET_COLOUR[1], SHEET_COLOUR[2], 255].repeat(sheet.size().area());
        sheet
    }

    fn size(&self) -> Size {
        let side = |cell: u32, count: u32| MARGIN + count * (cell + MARGIN);
        Size::new(side(self.cell.width, self.columns * CELLS), side(self.cell.height, self.rows))
    }

    /// Draws the next picture: its cells, each [`fit_to_cell`] to the [`cell_size`], from left to right.
    pub(super) fn add(&mut self, cells: [(&Frame, CellBackground); CELLS as usize]) {
        let (row, column) = (self.drawn / self.columns, self.drawn % self.columns * CELLS);
        for (column, (cell, background)) in (column..).zip(cells) {
            self.draw(row, column, cell, background);
        }
        self.drawn += 1;
    }

    /// Draws a cell over `background`, blended in linear light.
    fn draw(&mut self, row: u32, column: u32, cell: &Frame, background: CellBackground) {
        let left = MARGIN + column * (self.cell.width + MARGIN);
        let top = MARGIN + row * (self.cell.height + MARGIN);
        let stride = self.size().width as usize;
        for y in 0..self.cell.height {
            for x in 0..self.cell.width {
                let [r, g, b, alpha] = cell.pixel(x, y);
                let under = background.at(x, y);
                let at = ((top + y) as usize * stride + (left + x) as usize) * 4;
                for (channel, over) in [r, g, b].into_iter().enumerate() {
                    self.pixels[at + channel] = blend(over, under[channel], alpha);
                }
            }
        }
    }

    /// Encodes the sheet; `None` when it is empty.
    pub(super) fn finish(self) -> Result<Option<Bytes>, Failure> {
        if self.drawn == 0 {
            return Ok(None);
        }
        let options = EncodeOptions {
            format: OutputFormat::Png,
            quality: Quality::DEFAULT,
            png: PngEffort::Best,
            channels: Channels::Rgba,
        };
        let sheet = Composite::unchanged(Frame::new(self.size(), Buffer::from(self.pixels)));
        Ok(Some(codec::encode(sheet, &options)?.bytes))
    }
}

fn blend(over: u8, under: u8, alpha: u8) -> u8 {
    match alpha {
        0 => under,
        255 => over,
        _ => {
            let linear = |value: u8| linear_of_encoded(f32::from(value) / 255.0);
            let weight = f32::from(alpha) / 255.0;
            // In 0..=255 after rounding, because both inputs are.
            (encoded_of_linear(linear(over) * weight + linear(under) * (1.0 - weight)) * 255.0).round() as u8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_its_background_through_transparency_and_blends_linearly() {
        let mut sheet = ContactSheet::new(1);
        let mut frame = Frame::new(sheet.cell, Buffer::from(vec![0; sheet.cell.area() * 4]));
        frame.pixels_mut()[..8].copy_from_slice(&[255, 0, 0, 255, 255, 255, 255, 128]);
        sheet.draw(0, 1, &frame, CellBackground::Colour([0, 0, 0]));
        let at = |x: usize| (MARGIN as usize * sheet.size().width as usize + 400 + 2 * MARGIN as usize + x) * 4;
        assert_eq!(sheet.pixels[at(0)..at(0) + 4], [255, 0, 0, 255]);
        // Half of white in linear light is 188, not 128.
        assert_eq!(sheet.pixels[at(1)..at(1) + 4], [188, 188, 188, 255]);
        assert_eq!(sheet.pixels[at(2)..at(2) + 4], [0, 0, 0, 255]);
        assert_eq!(sheet.pixels[..3], SHEET_COLOUR);
    }

    #[test]
    fn a_sheet_has_room_for_every_picture() {
        assert_eq!(ContactSheet::new(2).size(), Size::new(12 + 3 * 412, 12 + 2 * 312));
        assert_eq!(ContactSheet::new(9).size(), Size::new(12 + 12 * 172, 12 + 3 * 172));
    }
}
