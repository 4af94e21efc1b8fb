//! The area of a canvas that marks may use, and their rectangles in its lower corners.

use crate::image::{Rect, Size};

/// The canvas without its margin of 2 % of the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkArea {
    canvas: Size,
    margin: Size,
}

impl MarkArea {
    /// The area on `canvas`. On very flat canvases the vertical margin is at most a quarter of the height.
    pub(super) fn on(canvas: Size) -> Self {
        let margin = (canvas.width + 25) / 50;
        Self { canvas, margin: Size::new(margin, margin.min(canvas.height / 4)) }
    }

    /// Its size, at least one pixel.
    pub(super) fn size(self) -> Size {
        Size::new(self.canvas.width - 2 * self.margin.width, self.canvas.height - 2 * self.margin.height)
    }

    /// Size of a picture mark: 20 % of the width, or all of the height if that would be too high; the aspect is kept.
    pub(super) fn picture(self, mark: Size) -> Size {
        let width = ((self.canvas.width + 2) / 5).max(1);
        let height = mark.height_at(width);
        let most = self.size().height;
        if height <= most { Size::new(width, height) } else { Size::new(mark.width_at(most).min(width), most) }
    }

    /// The rectangle of a mark of `size`, which must fit, in `corner`.
    pub(super) fn place(self, size: Size, corner: Corner) -> Rect {
        Rect {
            left: match corner {
                Corner::Left => self.margin.width,
                Corner::Right => self.canvas.width - self.margin.width - size.width,
            },
            top: self.canvas.height - self.margin.height - size.height,
            width: size.width,
            height: size.height,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Corner {
    Left,
    Right,
}
