//! The arrays of one labelling, kept for the next picture.

use crate::image::Size;
use crate::matting::connected_components::Components;

use super::REFERENCE_SIDE;

/// Everything that a labelling needs, for each cell of the grid unless stated otherwise.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) grid: Size,
    /// The mask; marked cells are 0 or 1.
    pub(super) mask: Vec<f32>,
    /// Cells that the caller has marked.
    pub(super) marked: Vec<bool>,
    /// Cells of ridges of the mask.
    pub(super) ridge: Vec<bool>,
    /// Cells that are labelled by the walker; the others are fixed.
    pub(super) open: Vec<bool>,
    /// Mean colour, where it is needed.
    pub(super) colors: Vec<[u8; 3]>,
    /// Log likelihood ratio of the colour, 0 where the picture has no models.
    pub(super) likelihood: Vec<f32>,
    /// Whether the cell is subject.
    pub(super) labels: Vec<bool>,
    /// Whether the cell has the mask's value, and not its label's.
    pub(super) soft: Vec<bool>,
    /// Distance to the cells of wide uncertain regions, in the chamfer's units.
    pub(super) distance: Vec<u16>,
    pub(super) components: Components,
    pub(super) system: super::linear_system::System,
    pub(super) histograms: super::color_histograms::Histograms,
    /// Cells to visit.
    pub(super) front: Vec<u32>,
}

impl Workspace {
    /// Starts on a mask.
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

    /// Labels every cell by the mask.
    pub(super) fn label_by_mask(&mut self) {
        self.labels.iter_mut().zip(&self.mask).for_each(|(label, &mask)| *label = mask >= 0.5);
    }

    /// Fixes the label of a cell, as the caller has marked it.
    pub(super) fn fix(&mut self, at: usize, label: bool) {
        self.mask[at] = f32::from(u8::from(label));
        self.labels[at] = label;
        self.marked[at] = true;
    }

    /// The distance of two cells, in cells.
    pub(super) fn away(&self, one: usize, other: usize) -> f32 {
        let columns = self.columns();
        let [across, down] = [(one % columns).abs_diff(other % columns), (one / columns).abs_diff(other / columns)];
        (across as f32).hypot(down as f32)
    }

    pub(super) const fn columns(&self) -> usize {
        self.grid.width as usize
    }

    /// How many cells one of the reference grid is, at least 1.
    pub(super) fn unit(&self) -> f32 {
        (self.grid.width.max(self.grid.height) as f32 / REFERENCE_SIDE).max(1.0)
    }
}
