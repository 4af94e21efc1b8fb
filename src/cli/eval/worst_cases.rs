//! The worst pictures of a set, drawn for somebody to look at.

use crate::cli::contact_sheet::{ContactSheet, Ground, cell_size};
use crate::cli::exit::Failure;
use crate::image::{Frame, Size};
use std::fs;
use std::path::{Path, PathBuf};

/// Rare in photos, so that what a cutout kept or lost shows on it.
const MAGENTA: [u8; 3] = [255, 0, 255];

/// Which sheets are asked for.
#[derive(Debug)]
pub(super) struct Sheets<'a> {
    /// Where they go, one for each set.
    pub(super) folder: &'a Path,
    /// Pictures on each.
    pub(super) most: usize,
}

/// What is shown of a picture, small already.
#[derive(Debug)]
pub(super) struct Cells {
    /// The photo.
    pub(super) photo: Frame,
    /// Its true mask.
    pub(super) truth: Frame,
    /// What was cut out.
    pub(super) cutout: Frame,
}

/// The worst pictures of a set so far. Keeps no more cells than will be drawn.
#[derive(Debug)]
pub(super) struct Worst {
    file: PathBuf,
    most: usize,
    /// Worst first.
    kept: Vec<(f64, Cells)>,
}

impl Worst {
    /// None yet, of the `count` pictures of the set `name`.
    pub(super) fn new(sheets: &Sheets<'_>, name: &str, count: usize) -> Self {
        Self { file: sheets.folder.join(format!("{name}.png")), most: sheets.most.min(count), kept: Vec::new() }
    }

    /// The size of the cells that it takes.
    pub(super) const fn cell(&self) -> Size {
        cell_size(self.most)
    }

    /// Keeps `cells` if their `error` is among the largest.
    pub(super) fn add(&mut self, error: f64, cells: Cells) {
        let at = self.kept.partition_point(|(kept, _)| *kept >= error);
        self.kept.insert(at, (error, cells));
        self.kept.truncate(self.most);
    }

    /// Draws them, worst first, row after row. Nothing where nothing was measured.
    pub(super) fn draw(self) -> Result<(), Failure> {
        let mut sheet = ContactSheet::new(self.most);
        for (_, Cells { photo, truth, cutout }) in &self.kept {
            sheet.add([(photo, Ground::Paper), (truth, Ground::Paper), (cutout, Ground::Colour(MAGENTA))]);
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
    fn the_worst_are_kept_and_no_others() {
        let sheets = Sheets { folder: Path::new("sheets"), most: 2 };
        let mut worst = Worst::new(&sheets, "cups", 4);
        let cell = || Frame::new(Size::new(1, 1), vec![0; 4].into());
        for error in [0.1, 0.4, 0.2, 0.3] {
            worst.add(error, Cells { photo: cell(), truth: cell(), cutout: cell() });
        }
        assert_eq!(worst.kept.iter().map(|(error, _)| *error).collect::<Vec<_>>(), [0.4, 0.3]);
        assert_eq!(worst.file, Path::new("sheets/cups.png"));
    }
}
