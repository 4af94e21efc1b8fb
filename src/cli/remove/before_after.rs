//! Draws the contact sheet of `remove`: each picture before, cut out over a checkerboard, and on a colour.

use super::file_io::write_file;
use super::report::Report;
use crate::cli::contact_sheet::{CellBackground, ContactSheet, cell_size, fit_to_cell};
use crate::cli::exit_code::Failure;
use crate::codec::{self, Limits};
use crate::image::{BufferPool, Frame, Size};
use std::path::Path;

/// Saturated and unlike skin, fur and wood, so that fringes of the old background are visible.
const COLOUR: [u8; 3] = [38, 110, 190];

/// Draws the pictures of `report` to a PNG.
pub(super) fn draw(report: &Report, path: &Path) -> Result<(), Failure> {
    let pairs: Vec<_> = report.pairs().collect();
    let cell = cell_size(pairs.len());
    let mut sheet = ContactSheet::new(pairs.len());
    for (input, output) in pairs {
        let (before, after) = (read(Path::new(input), cell)?, read(Path::new(output), cell)?);
        sheet.add([
            (&before, CellBackground::Sheet),
            (&after, CellBackground::Checkerboard),
            (&after, CellBackground::Colour(COLOUR)),
        ]);
    }
    let Some(png) = sheet.finish()? else {
        return Err("there is no picture for the contact sheet".into());
    };
    write_file(path, &png)?;
    eprintln!("Before and after: {}", path.display());
    Ok(())
}

/// Decodes a file and fits it into a cell.
fn read(path: &Path, cell: Size) -> Result<Frame, Failure> {
    let bytes = std::fs::read(path)?;
    // A result may have more bytes and pixels than its source.
    let limits = Limits { max_bytes: usize::MAX, max_megapixels: u32::MAX, ..Limits::LOCAL };
    let header = codec::probe(&bytes, &limits)?;
    fit_to_cell(codec::decode(&bytes, &header, &BufferPool::new(0))?, cell)
}
