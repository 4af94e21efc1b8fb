//! The arrays of one labelling, reused for the next picture.

use crate::image::Size;
use crate::matting::connected_components::Components;

use super::REFERENCE_SIDE;

/// For each cell of the grid, unless stated otherwise.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) grid: Size,
    /// Probability of subject; 0 or 1 in marked cells.
    pub(super) mask: Vec<f32>,
    pub(super) marked: Vec<bool>,
    pub(super) ridge: Vec<bool>,
    /// Cells that the walker labels. Other cells are fixed.
    pub(super) open: Vec<bool>,
    pub(super) colors: Vec<[u8; 3]>,
    /// Log likelihood ratio of the colour; 0 where the picture has too few samples for histograms.
    pub(super) likelihood: Vec<f32>,
    pub(super) labels: Vec<bool>,
    /// Whether the cell keeps the mask's value, in place of its label's.
    pub(super) soft: Vec<bool>,
    /// Distance to wide uncertain regions, in the chamfer's units.
    pub(super) distance: Vec<u16>,
    pub(super) components: Components,
    pub(super) system: super::linear_system::System,
    pub(super) histograms: super::color_histograms::Histograms,
    pub(super) front: Vec<u32>,
}

impl Workspace {
    pub(super) fn load(&mut self, mask: &[f32], grid: Size) {
        let cells = grid.area();
        self.grid = grid;
        self.mask.clear();
        self.mask.extend_from_slice(mask);
        for flags in [&mut self.marked, &mut self.ridge, &mut self.open, &mut self.labels, &mut self.soft] {
            flags.clear();
            flags.resize(cells, false);
        }
        self.colors.resize(cells, [0; 3]);
        self.likelihood.clear();
        self.likelihood.resize(cells, 0.0);
    }

    pub(super) fn label_by_mask(&mut self) {
        self.labels.iter_mut().zip(&self.mask).for_each(|(label, &mask)| *label = mask >= 0.5);
    }

    /// Marks a cell with the caller's label.
    pub(super) fn fix(&mut self, at: usize, label: bool) {
        self.mask[at] = f32::from(u8::from(label));
        self.labels[at] = label;
        self.marked[at] = true;
    }

    pub(super) fn away(&self, one: usize, other: usize) -> f32 {
        let columns = self.columns();
        let [across, down] = [(one % columns).abs_diff(other % columns), (one / columns).abs_diff(other / columns)];
        (across as f32).hypot(down as f32)
    }

    /// The cells within `radius` cells of `center`.
    pub(super) fn disc(&self, center: usize, radius: f32) -> impl Iterator<Item = usize> {
        let (columns, rows) = (self.columns(), self.grid.height as usize);
        let span = |at: usize, end: usize| at.saturating_sub(radius as usize)..end.min(at + radius as usize + 1);
        let (down, across) = (span(center / columns, rows), span(center % columns, columns));
        let cells = down.flat_map(move |row| across.clone().map(move |column| row * columns + column));
        cells.filter(move |&at| self.away(center, at) <= radius)
    }

    pub(super) const fn columns(&self) -> usize {
        self.grid.width as usize
    }

    /// Width of a reference cell in cells of the grid, at least 1.
    pub(super) fn unit(&self) -> f32 {
        (self.grid.longest() as f32 / REFERENCE_SIDE).max(1.0)
    }
}
