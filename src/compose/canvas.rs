//! Output size: requested width, height and longest side, their limit, and the source's rectangle on the canvas.
//!
//! * `width` or `height` alone keeps the aspect; the other side is rounded, at least 1. Both may enlarge.
//! * Both give an exact box: the natural canvas is fitted inside, enlarged if necessary, and centred. It is never
//!   distorted; the background fills the rest.
//! * `max_dim` then clamps the longest side of the whole canvas. It never enlarges.

use crate::image::{Rect, Size};

/// Default for the longest side of a result, in pixels. Deployments that accept larger pictures raise it.
pub const MAX_SIDE: u32 = 8192;

/// The longest side that a canvas may have; [`MAX_SIDE`] by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanvasLimit(pub u32);

impl Default for CanvasLimit {
    fn default() -> Self {
        Self(MAX_SIDE)
    }
}

impl CanvasLimit {
    /// Rejects a canvas of `size` whose longest side exceeds the limit.
    ///
    /// # Errors
    /// [`OutputTooLarge`].
    pub fn check(self, size: Size) -> Result<(), OutputTooLarge> {
        if size.longest() > self.0 { Err(OutputTooLarge { size, limit: self.0 }) } else { Ok(()) }
    }
}

/// The result would exceed the limit on its longest side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result would be {size}, more than {limit} pixels on a side")]
pub struct OutputTooLarge {
    /// The requested canvas.
    pub size: Size,
    /// The limit on its longest side.
    pub limit: u32,
}

/// The requested output size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// Exact width in pixels; alone it preserves the aspect.
    pub width: Option<u32>,
    /// Exact height in pixels; alone it preserves the aspect.
    pub height: Option<u32>,
    /// Maximum of the longer side in pixels; never enlarges.
    pub max_dim: Option<u32>,
}

/// The output canvas and the picture's rectangle on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Size of the result.
    pub canvas: Size,
    /// The visible part of the source.
    pub from: Rect,
    /// Rectangle of that part on the canvas, after resizing; the background surrounds it.
    pub place: Rect,
    /// Canvas pixels per pixel of the scene's lengths (shadow offsets, outline width).
    pub scale: f32,
}

impl Layout {
    /// The identity layout: the picture as it is.
    #[must_use]
    pub const fn unchanged(source: Size) -> Self {
        Self { canvas: source, from: Rect::whole(source), place: Rect::whole(source), scale: 1.0 }
    }

    /// Maps a part of the source to the canvas, rounded outwards to whole pixels; `None` when it is outside.
    #[must_use]
    pub fn placed(&self, part: Rect) -> Option<Rect> {
        let Self { from, place, .. } = *self;
        let axis = |(first, length): (u32, u32), from: (u32, u32), place: (u32, u32)| {
            let low = first.max(from.0) - from.0;
            let high = (first + length).min(from.0 + from.1).checked_sub(from.0)?;
            let to = |at: u32, up: u64| {
                (u64::from(at) * u64::from(place.1) + up * u64::from(from.1 - 1)) / u64::from(from.1)
            };
            let (low, high) = (to(low, 0) as u32, to(high, 1) as u32);
            (low < high).then(|| (place.0 + low, high - low))
        };
        let (left, width) = axis((part.left, part.width), (from.left, from.width), (place.left, place.width))?;
        let (top, height) = axis((part.top, part.height), (from.top, from.height), (place.top, place.height))?;
        Some(Rect { left, top, width, height })
    }
}

impl Resize {
    /// The canvas for the whole of `source`, and the source's rectangle on it.
    ///
    /// # Errors
    /// [`OutputTooLarge`] when a side would be longer than [`MAX_SIDE`].
    pub fn layout(&self, source: Size) -> Result<Layout, OutputTooLarge> {
        self.layout_within(source, CanvasLimit::default())
    }

    pub(super) fn layout_within(&self, source: Size, limit: CanvasLimit) -> Result<Layout, OutputTooLarge> {
        let (canvas, place) = self.canvas(source, source, limit)?;
        let scale = place.width as f32 / source.width as f32;
        Ok(Layout { canvas, from: Rect::whole(source), place, scale })
    }

    /// Scales the natural canvas, whose exact aspect is `shape`; returns the output canvas and the rectangle on it.
    pub(super) fn canvas(
        &self,
        natural: Size,
        shape: Size,
        limit: CanvasLimit,
    ) -> Result<(Size, Rect), OutputTooLarge> {
        let canvas = match (self.width, self.height) {
            (None, None) => natural,
            (Some(width), None) => Size::new(width.max(1), shape.height_at(width.max(1))),
            (None, Some(height)) => Size::new(shape.width_at(height.max(1)), height.max(1)),
            (Some(width), Some(height)) => Size::new(width.max(1), height.max(1)),
        };
        let boxed = self.width.is_some() && self.height.is_some();
        let canvas = match self.max_dim {
            Some(max) if canvas.longest() > max => {
                // Without a box the canvas is a scaled source. Clamping the source rounds once instead of twice.
                let shape = if boxed { canvas } else { shape };
                shape.fitted(Size::new(max.max(1), max.max(1)))
            }
            Some(_) | None => canvas,
        };
        limit.check(canvas)?;
        let fitted = if boxed { shape.fitted(canvas) } else { canvas };
        let place = Rect {
            left: (canvas.width - fitted.width) / 2,
            top: (canvas.height - fitted.height) / 2,
            width: fitted.width,
            height: fitted.height,
        };
        Ok((canvas, place))
    }
}
