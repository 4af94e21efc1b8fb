//! Seeds: pixels that the caller marks as subject or background, by strokes or points.

use crate::image::Trimap;
use std::ops::Range;

/// The caller's marks, in pixels of the upright picture. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// Strokes of a brush, at the picture's size: foreground becomes subject, unknown is left to the mask.
    pub strokes: Option<Trimap>,
    /// Column and row of points on the subject.
    pub subject: Vec<[u32; 2]>,
    /// Column and row of points on the background.
    pub background: Vec<[u32; 2]>,
}

impl Seeds {
    /// Whether nothing is marked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.strokes.is_none() && self.subject.is_empty() && self.background.is_empty()
    }

    /// The points of both kinds, each with whether it is on the subject.
    pub fn points(&self) -> impl Iterator<Item = ([u32; 2], bool)> {
        let subject = self.subject.iter().map(|&point| (point, true));
        subject.chain(self.background.iter().map(|&point| (point, false)))
    }

    /// Whether most of the stroked pixels in these columns and rows are strokes on the subject; `None` without strokes.
    #[must_use]
    pub fn stroked(&self, columns: Range<usize>, rows: Range<usize>) -> Option<bool> {
        let strokes = self.strokes.as_ref()?;
        let width = strokes.size().width as usize;
        let pixels = rows.flat_map(|row| &strokes.labels()[row * width..][columns.clone()]);
        let votes: i64 = pixels.map(|&label| vote(label)).sum();
        (votes != 0).then_some(votes > 0)
    }
}

const fn vote(label: u8) -> i64 {
    match label {
        Trimap::FOREGROUND => 1,
        Trimap::BACKGROUND => -1,
        _ => 0,
    }
}
