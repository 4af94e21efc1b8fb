//! A PNG that shows each picture before, cut out over a checkerboard, and on a colour.

use crate::cli::exit::Failure;
use crate::codec::{self, Channels, EncodeOptions, Limits, PngEffort};
use crate::compose::{self, Materials, Resize, Scene};
use crate::image::color::{encoded_of_linear, linear_of_encoded};
use crate::image::{Buffer, BufferPool, Composite, Frame, OutputFormat, Quality, Rect, Size};
use bytes::Bytes;
use std::path::Path;

/// Between the cells and around them.
const MARGIN: u32 = 12;
const PAPER: [u8; 3] = [250, 250, 250];
const SQUARES: [[u8; 3]; 2] = [[255, 255, 255], [208, 208, 208]];
/// Side of a square of the checkerboard.
const SQUARE: u32 = 12;
/// Strong and unlike skin, fur and wood: a fringe of the old background shows on it.
const COLOUR: [u8; 3] = [38, 110, 190];
/// Before, over the checkerboard, on the colour.
const CELLS: u32 = 3;

/// A sheet in the making.
#[derive(Debug)]
pub(super) struct ContactSheet {
    cell: Size,
    /// Pictures side by side, each with its three cells.
    across: u32,
    rows: u32,
    drawn: u32,
    pixels: Vec<u8>,
}

impl ContactSheet {
    /// A sheet for `count` pictures: large for a few, small for many.
    pub(super) fn new(count: usize) -> Self {
        let (cell, across) = if count <= 8 { (Size::new(400, 300), 1) } else { (Size::new(160, 160), 4) };
        let rows = u32::try_from(count).unwrap_or(u32::MAX).div_ceil(across);
        let mut sheet = Self { cell, across, rows, drawn: 0, pixels: Vec::new() };
        sheet.pixels = [PAPER[0], PAPER[1], PAPER[2], 255].repeat(sheet.size().area());
        sheet
    }

    fn size(&self) -> Size {
        let side = |cell: u32, count: u32| MARGIN + count * (cell + MARGIN);
        Size::new(side(self.cell.width, self.across * CELLS), side(self.cell.height, self.rows))
    }

    /// Draws the next picture and its cutout.
    pub(super) fn add(&mut self, input: &Path, output: &Path) -> Result<(), Failure> {
        let (before, after) = (self.fitted(input)?, self.fitted(output)?);
        let (row, column) = (self.drawn / self.across, self.drawn % self.across * CELLS);
        self.draw(row, column, &before, |_, _| PAPER);
        self.draw(row, column + 1, &after, |x, y| SQUARES[((x / SQUARE + y / SQUARE) % 2) as usize]);
        self.draw(row, column + 2, &after, |_, _| COLOUR);
        self.drawn += 1;
        Ok(())
    }

    /// The picture of a file, fitted into a cell with transparency around it.
    fn fitted(&self, path: &Path) -> Result<Frame, Failure> {
        let bytes = std::fs::read(path)?;
        // Our own result may be larger than an upload may.
        let header = codec::probe(&bytes, &Limits { max_bytes: usize::MAX, ..Limits::default() })?;
        let frame = codec::decode(&bytes, &header, &BufferPool::new(0))?;
        let cell = Resize { width: Some(self.cell.width), height: Some(self.cell.height), max_dim: None };
        let scene = Scene { resize: cell, ..Scene::default() };
        let whole = Rect::whole(frame.size());
        let layout = scene.layout(frame.size(), whole)?;
        Ok(compose::flatten(frame, whole, &layout, &scene, Materials::default()).composite.0)
    }

    /// Draws a cell over `ground`, mixed in linear light.
    fn draw(&mut self, row: u32, column: u32, cell: &Frame, ground: impl Fn(u32, u32) -> [u8; 3]) {
        let left = MARGIN + column * (self.cell.width + MARGIN);
        let top = MARGIN + row * (self.cell.height + MARGIN);
        let stride = self.size().width as usize;
        for y in 0..self.cell.height {
            for x in 0..self.cell.width {
                let [r, g, b, alpha] = cell.pixel(x, y);
                let under = ground(x, y);
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
        let sheet = Composite(Frame::new(self.size(), Buffer::from(self.pixels)));
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
        sheet.draw(0, 1, &frame, |_, _| [0, 0, 0]);
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
