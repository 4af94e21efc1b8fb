//! Collects the worst pictures of a dataset and draws them on a contact sheet.

use crate::cli::contact_sheet::{CellBackground, ContactSheet, cell_size};
use crate::cli::exit_code::Failure;
use crate::image::{Frame, Size};
use std::fs;
use std::path::{Path, PathBuf};

/// Rare in photos, so that errors of a cutout are visible.
const MAGENTA: [u8; 3] = [255, 0, 255];

/// Options of the contact sheets.
#[derive(Debug)]
pub(super) struct SheetOptions<'a> {
    /// Folder of the sheets, one per dataset.
    pub(super) folder: &'a Path,
    /// Pictures per sheet.
    pub(super) count: usize,
}

/// The resized cells of a picture.
#[derive(Debug)]
pub(super) struct Cells {
    /// The photo.
    pub(super) photo: Frame,
    /// Its ground truth.
    pub(super) truth: Frame,
    /// Its cutout.
    pub(super) cutout: Frame,
}

/// The worst pictures of a dataset so far, at most as many as will be drawn.
#[derive(Debug)]
pub(super) struct WorstCases {
    file: PathBuf,
    capacity: usize,
    /// Worst first.
    kept: Vec<(f64, Cells)>,
}

impl WorstCases {
    /// For the dataset `name` of `count` pictures.
    pub(super) fn new(sheets: &SheetOptions<'_>, name: &str, count: usize) -> Self {
        Self { file: sheets.folder.join(format!("{name}.png")), capacity: sheets.count.min(count), kept: Vec::new() }
    }

    /// The cell size.
    pub(super) const fn cell(&self) -> Size {
        cell_size(self.capacity)
    }

    /// Keeps `cells` if their `error` is among the largest.
    pub(super) fn add(&mut self, error: f64, cells: Cells) {
        let at = self.kept.partition_point(|(kept, _)| *kept >= error);
        self.kept.insert(at, (error, cells));
        self.kept.truncate(self.capacity);
    }

    /// Draws them, worst first, in rows; no file when there are none.
    pub(super) fn draw(self) -> Result<(), Failure> {
        let mut sheet = ContactSheet::new(self.capacity);
        for (_, Cells { photo, truth, cutout }) in &self.kept {
            sheet.add([
                (photo, CellBackground::Sheet),
                (truth, CellBackground::Sheet),
                (cutout, CellBackground::Colour(MAGENTA)),
            ]);
        }
        if let (Some(png), Some(folder)) = (sheet.finish()?, self.file.parent()) {
            fs::create_dir_all(folder)?;
            fs::write(&self.file, png)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_worst_are_kept() {
        let sheets = SheetOptions { folder: Path::new("sheets"), count: 2 };
        let mut worst = WorstCases::new(&sheets, "cups", 4);
        let cell = || Frame::new(Size::new(1, 1), vec![0; 4].into());
        for error in [0.1, 0.4, 0.2, 0.3] {
            worst.add(error, Cells { photo: cell(), truth: cell(), cutout: cell() });
        }
        assert_eq!(worst.kept.iter().map(|(error, _)| *error).collect::<Vec<_>>(), [0.4, 0.3]);
        assert_eq!(worst.file, Path::new("sheets/cups.png"));
    }
}
