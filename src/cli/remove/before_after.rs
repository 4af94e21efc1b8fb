//! Draws the contact sheet of `remove`: each picture before, cut out over a checkerboard, and on a colour.

use super::file_io::write_file;
use super::report::Report;
use crate::cli::contact_sheet::{CellBackground, ContactSheet, cell_size, fit_to_cell};
use crate::cli::exit_code::Failure;
use crate::codec::{self, Limits};
use crate::image::{BufferPool, Frame, Size};
use crate::telemetry::with_causes;
use std::path::Path;

/// Saturated and unlike skin, fur and wood, so that fringes of the old background are visible.
const COLOUR: [u8; 3] = [38, 110, 190];

/// Maximum number of pictures on a sheet, which is drawn in memory: 360 MB.
const MAX_PICTURES: usize = 1000;

/// Draws the first pictures of `report` to a PNG; writes no file when the report has no picture.
pub(super) fn draw(report: &Report, path: &Path) -> Result<(), Failure> {
    let (pairs, left_out) = first_pairs(report.pairs());
    let cell = cell_size(pairs.len());
    let mut sheet = ContactSheet::new(pairs.len());
    for (input, output) in pairs {
        let (before, after) = (read(input, cell)?, read(output, cell)?);
        sheet.add([
            (&before, CellBackground::Sheet),
            (&after, CellBackground::Checkerboard),
            (&after, CellBackground::Colour(COLOUR)),
        ]);
    }
    let Some(png) = sheet.finish()? else {
        print_stderr!("No contact sheet: there is no picture with an input and a result that are files");
        return Ok(());
    };
    write_file(path, &png).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    print_stderr!("Before and after: {}", path.display());
    if left_out > 0 {
        print_stderr!("The contact sheet has the first {MAX_PICTURES} pictures; {left_out} are left out");
    }
    Ok(())
}

/// The first [`MAX_PICTURES`] pairs of files, and how many more there are.
fn first_pairs<'a>(pairs: impl Iterator<Item = (&'a Path, &'a Path)>) -> (Vec<(&'a Path, &'a Path)>, usize) {
    // A pipe cannot be read again.
    let mut files = pairs.filter(|(input, output)| input.is_file() && output.is_file());
    let first = files.by_ref().take(MAX_PICTURES).collect();
    (first, files.count())
}

/// Decodes a file and fits it into a cell; an error names the file.
fn read(path: &Path, cell: Size) -> Result<Frame, Failure> {
    decode(path, cell).map_err(|error| {
        let causes = with_causes(error.as_ref());
        format!("cannot draw {} on the contact sheet: {causes}", path.display()).into()
    })
}

fn decode(path: &Path, cell: Size) -> Result<Frame, Failure> {
    let bytes = std::fs::read(path)?;
    // A result may have more bytes and pixels than its source.
    let limits = Limits { max_bytes: usize::MAX, max_megapixels: u32::MAX, ..Limits::LOCAL };
    let header = codec::probe(&bytes, &limits)?;
    fit_to_cell(codec::decode(&bytes, &header, &BufferPool::new(0))?, cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_has_a_bounded_number_of_pictures() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (file, pipe) = (file.path(), Path::new("-"));
        let pairs = |count| std::iter::repeat_n((file, file), count).chain([(pipe, file)]);
        let counts = |count| {
            let (first, left_out) = first_pairs(pairs(count));
            (first.len(), left_out)
        };
        assert_eq!(counts(7), (7, 0));
        assert_eq!(counts(MAX_PICTURES), (MAX_PICTURES, 0));
        assert_eq!(counts(20_000), (MAX_PICTURES, 19_000));
    }
}
