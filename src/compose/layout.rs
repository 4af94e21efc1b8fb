//! Where the picture goes on its output canvas. Rectangles only, no pixels.
//!
//! * `width` or `height` alone keeps the aspect; the other side is rounded, at least 1. Both may enlarge.
//! * Both give an exact box: the picture is fitted inside, enlarged where need be, centred, and what is left over is
//!   transparent. It is never distorted.
//! * `max_dim` then clamps the longest side of the whole canvas. It never enlarges.

use super::Scene;
use crate::image::{Rect, Size};

/// The longest side of a result, in pixels.
pub const MAX_SIDE: u32 = 8192;

/// The result would be longer than [`MAX_SIDE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result would be {size}, more than {MAX_SIDE} pixels on a side")]
pub struct OutputTooLarge {
    /// The canvas that was asked for.
    pub size: Size,
}

/// The output size that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// Exact width; alone it preserves the aspect.
    pub width: Option<u32>,
    /// Exact height; alone it preserves the aspect.
    pub height: Option<u32>,
    /// The longer side is at most this; never enlarges.
    pub max_dim: Option<u32>,
}

/// The output canvas, and the picture's place on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Width and height of the result.
    pub canvas: Size,
    /// The part of the source that shows.
    pub from: Rect,
    /// Where on the canvas it lies, resized; around it is background.
    pub place: Rect,
    /// Output pixels for each pixel that the scene's lengths are given in.
    pub scale: f32,
}

impl Layout {
    /// The picture as it is.
    #[must_use]
    pub const fn unchanged(source: Size) -> Self {
        Self { canvas: source, from: Rect::whole(source), place: Rect::whole(source), scale: 1.0 }
    }
}

impl Scene {
    /// The canvas, and the place of `source` on it, whose subject lies in `subject`.
    ///
    /// # Errors
    /// [`OutputTooLarge`] when a side would be longer than [`MAX_SIDE`].
    pub fn layout(&self, source: Size, subject: Rect) -> Result<Layout, OutputTooLarge> {
        let _ = subject;
        self.resize.layout(source)
    }

    /// An upper bound, over all subjects, of what [`flatten`](super::flatten) needs beside the source, in pixels of four
    /// bytes.
    #[must_use]
    pub fn most_pixels(&self, source: Size) -> usize {
        match self.resize.layout(source) {
            Ok(layout) if layout == Layout::unchanged(source) => 0,
            Ok(layout) => layout.canvas.area(),
            Err(_) => MAX_SIDE as usize * MAX_SIDE as usize,
        }
    }
}

impl Resize {
    /// The canvas that `source` ends on, and its place there.
    ///
    /// # Errors
    /// [`OutputTooLarge`] when a side would be longer than [`MAX_SIDE`].
    pub fn layout(&self, source: Size) -> Result<Layout, OutputTooLarge> {
        let canvas = match (self.width, self.height) {
            (None, None) => source,
            (Some(width), None) => Size::new(width.max(1), source.height_at(width)),
            (None, Some(height)) => Size::new(source.width_at(height), height.max(1)),
            (Some(width), Some(height)) => Size::new(width.max(1), height.max(1)),
        };
        let boxed = self.width.is_some() && self.height.is_some();
        let canvas = match self.max_dim {
            Some(max) if canvas.longest() > max => {
                // Without a box the canvas is the source in small: clamping the source rounds once instead of twice.
                let shape = if boxed { canvas } else { source };
                shape.fitted(Size::new(max.max(1), max.max(1)))
            }
            Some(_) | None => canvas,
        };
        if canvas.longest() > MAX_SIDE {
            return Err(OutputTooLarge { size: canvas });
        }
        let fitted = if boxed { source.fitted(canvas) } else { canvas };
        let place = Rect {
            left: (canvas.width - fitted.width) / 2,
            top: (canvas.height - fitted.height) / 2,
            width: fitted.width,
            height: fitted.height,
        };
        let scale = place.width as f32 / source.width as f32;
        Ok(Layout { canvas, from: Rect::whole(source), place, scale })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTRAIT: Size = Size::new(200, 300);
    const LANDSCAPE: Size = Size::new(300, 200);
    const SQUARE: Size = Size::new(256, 256);

    fn resize(width: u32, height: u32, max_dim: u32) -> Resize {
        let given = |value: u32| (value > 0).then_some(value);
        Resize { width: given(width), height: given(height), max_dim: given(max_dim) }
    }

    fn canvas(source: Size, width: u32, height: u32, max_dim: u32) -> (u32, u32) {
        let layout = resize(width, height, max_dim).layout(source).unwrap();
        (layout.canvas.width, layout.canvas.height)
    }

    #[test]
    fn nothing_asked_changes_nothing() {
        assert_eq!(Resize::default().layout(PORTRAIT).unwrap(), Layout::unchanged(PORTRAIT));
    }

    #[test]
    fn one_side_alone_keeps_the_aspect_and_may_enlarge() {
        assert_eq!(canvas(PORTRAIT, 100, 0, 0), (100, 150));
        assert_eq!(canvas(LANDSCAPE, 100, 0, 0), (100, 67));
        assert_eq!(canvas(LANDSCAPE, 0, 100, 0), (150, 100));
        assert_eq!(canvas(SQUARE, 1000, 0, 0), (1000, 1000));
        assert_eq!(canvas(Size::new(4000, 3), 3200, 0, 0), (3200, 2));
        assert_eq!(canvas(Size::new(4096, 1), 100, 0, 0), (100, 1));
    }

    #[test]
    fn one_side_alone_leaves_no_padding_even_where_rounding_would_invite_it() {
        for source in [Size::new(4000, 3), Size::new(3, 4000), Size::new(1, 4096), Size::new(333, 777)] {
            let layout = resize(1023, 0, 511).layout(source).unwrap();
            assert_eq!(layout.place, Rect::whole(layout.canvas));
        }
    }

    #[test]
    fn both_sides_are_an_exact_box_with_the_picture_centred() {
        let layout = resize(400, 100, 0).layout(LANDSCAPE).unwrap();
        assert_eq!(layout.canvas, Size::new(400, 100));
        assert_eq!(layout.place, Rect { left: 125, top: 0, width: 150, height: 100 });
        let layout = resize(400, 1000, 0).layout(SQUARE).unwrap();
        assert_eq!(layout.place, Rect { left: 0, top: 300, width: 400, height: 400 });
    }

    #[test]
    fn a_box_never_distorts() {
        for source in [PORTRAIT, LANDSCAPE, SQUARE, Size::new(301, 77), Size::new(1, 50)] {
            for (width, height) in [(640, 480), (480, 640), (31, 17), (1000, 1000)] {
                let picture = resize(width, height, 0).layout(source).unwrap().place;
                let scale =
                    f64::min(f64::from(width) / f64::from(source.width), f64::from(height) / f64::from(source.height));
                for (side, of) in [(picture.width, source.width), (picture.height, source.height)] {
                    let exact = (f64::from(of) * scale).max(1.0);
                    assert!((f64::from(side) - exact).abs() <= 0.5, "{source} in {width}×{height}: {}", picture.size());
                }
            }
        }
    }

    #[test]
    fn max_dim_shrinks_and_never_enlarges() {
        assert_eq!(canvas(LANDSCAPE, 0, 0, 150), (150, 100));
        assert_eq!(canvas(PORTRAIT, 0, 0, 150), (100, 150));
        assert_eq!(canvas(PORTRAIT, 0, 0, 300), (200, 300));
        assert_eq!(canvas(PORTRAIT, 0, 0, 5000), (200, 300));
        assert_eq!(canvas(Size::new(4096, 1), 0, 0, 64), (64, 1));
    }

    #[test]
    fn max_dim_clamps_the_whole_canvas_after_the_box() {
        let layout = resize(400, 100, 200).layout(LANDSCAPE).unwrap();
        assert_eq!(layout.canvas, Size::new(200, 50));
        assert_eq!(layout.place, Rect { left: 62, top: 0, width: 75, height: 50 });
        assert_eq!(canvas(LANDSCAPE, 1000, 0, 500), (500, 333));
    }

    #[test]
    fn a_result_beyond_the_longest_side_is_refused() {
        assert!(resize(8192, 0, 0).layout(SQUARE).is_ok());
        assert_eq!(resize(8193, 0, 0).layout(SQUARE).unwrap_err().size, Size::new(8193, 8193));
        assert!(resize(8000, 0, 0).layout(PORTRAIT).is_err(), "the other side counts too");
        assert!(resize(u32::MAX, u32::MAX, 0).layout(SQUARE).is_err());
        assert_eq!(canvas(SQUARE, 100_000, 0, 100), (100, 100));
    }
}
