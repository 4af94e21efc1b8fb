//! The contact sheet of a run: each picture before, cut out over a checkerboard, and on a colour.

use super::file;
use super::report::Report;
use crate::cli::contact_sheet::{ContactSheet, Ground, cell_size, fitted};
use crate::cli::exit::Failure;
use crate::codec::{self, Limits};
use crate::image::{BufferPool, Frame, Size};
use std::path::Path;

/// Strong and unlike skin, fur and wood: a fringe of the old background shows on it.
const COLOUR: [u8; 3] = [38, 110, 190];

/// Draws what `report` tells of into a PNG.
pub(super) fn draw(report: &Report, path: &Path) -> Result<(), Failure> {
    let pairs: Vec<_> = report.pairs().collect();
    let cell = cell_size(pairs.len());
    let mut sheet = ContactSheet::new(pairs.len());
    for (input, output) in pairs {
        let (before, after) = (read(Path::new(input), cell)?, read(Path::new(output), cell)?);
        sheet.add([(&before, Ground::Paper), (&after, Ground::Checkers), (&after, Ground::Colour(COLOUR))]);
    }
    let Some(png) = sheet.finish()? else {
        return Err("there is nothing to show on the contact sheet".into());
    };
    file::write_now(path, &png)?;
    eprintln!("Before and after: {}", path.display());
    Ok(())
}

/// The picture of a file, fitted into a cell.
fn read(path: &Path, cell: Size) -> Result<Frame, Failure> {
    let bytes = std::fs::read(path)?;
    // A result may have more bytes and pixels than its source.
    let limits = Limits { max_bytes: usize::MAX, max_megapixels: u32::MAX, ..Limits::LOCAL };
    let header = codec::probe(&bytes, &limits)?;
    fitted(codec::decode(&bytes, &header, &BufferPool::new(0))?, cell)
}
