//! Where the picture goes on its output canvas. Rectangles only, no pixels.
//!
//! Every framing has a natural canvas, in pixels of the source: the picture, or the subject with its room, or the
//! picture and its shadow. [`Resize`] acts on that canvas:
//!
//! * `width` or `height` alone keeps the aspect; the other side is rounded, at least 1. Both may enlarge.
//! * Both give an exact box: the natural canvas is fitted inside, enlarged where need be, and centred. It is never
//!   distorted, and the background fills what is left over as well.
//! * `max_dim` then clamps the longest side of the whole canvas. It never enlarges.
//!
//! A subject that its picture cuts off may be held at the canvas's borders instead of lying in the middle ([`Anchor`]);
//! there is no room at such a side, and what a box leaves over is at the other.
//!
//! Where an aspect is asked for, sides follow from the aspect itself and not from the natural canvas, whose own sides
//! are whole pixels already: a width of 1000 at 4:5 is 1250 high for every subject.

use super::anchor::{self, Hold};
use super::placement::side_within;
use super::portrait::{self, Window};
use super::{Anchor, Aspect, Background, Framing, Padding, Plate, Scene, Shadow, grounding, shadow};
use crate::image::{Rect, Size};

/// The longest side of a result in pixels, where no larger picture may come in.
pub const MAX_SIDE: u32 = 8192;
/// Lengths beyond this have left every canvas; it keeps sums of them inside their integers.
const FAR: f32 = 1e6;

/// The longest side that a canvas may have; [`MAX_SIDE`] by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanvasLimit(pub u32);

impl Default for CanvasLimit {
    fn default() -> Self {
        Self(MAX_SIDE)
    }
}

impl CanvasLimit {
    /// Refuses a canvas of `size` with a longer side.
    ///
    /// # Errors
    /// [`OutputTooLarge`].
    pub fn check(self, size: Size) -> Result<(), OutputTooLarge> {
        if size.longest() > self.0 { Err(OutputTooLarge { size, limit: self.0 }) } else { Ok(()) }
    }
}

/// The result would be longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result would be {size}, more than {limit} pixels on a side")]
pub struct OutputTooLarge {
    /// The canvas that was asked for.
    pub size: Size,
    /// The longest side that it may have.
    pub limit: u32,
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

    /// Where a part of the source lies on the canvas; nothing when that is outside.
    #[must_use]
    pub fn placed(&self, part: Rect) -> Option<Rect> {
        let Self { from, place, .. } = *self;
        let axis = |(first, length): (u32, u32), from: (u32, u32), place: (u32, u32)| {
            let low = first.max(from.0) - from.0;
            let high = (first + length).min(from.0 + from.1).checked_sub(from.0)?;
            let to = |at: u32, up: u64| {
                (u64::from(at) * u64::from(place.1) + up * u64::from(from.1 - 1)) / u64::from(from.1)
            };
            // Outwards to whole pixels.
            let (low, high) = (to(low, 0) as u32, to(high, 1) as u32);
            (low < high).then(|| (place.0 + low, high - low))
        };
        let (left, width) = axis((part.left, part.width), (from.left, from.width), (place.left, place.width))?;
        let (top, height) = axis((part.top, part.height), (from.top, from.height), (place.top, place.height))?;
        Some(Rect { left, top, width, height })
    }
}

/// A canvas in pixels of the source, before it is resized.
struct Natural {
    size: Size,
    /// Its exact aspect.
    shape: Size,
    /// The part of the source that shows.
    from: Rect,
    /// Columns to the left of it and rows above it.
    before: (u32, u32),
}

impl Scene {
    /// The canvas, and the place of `source` on it, whose subject lies in `subject`.
    ///
    /// # Errors
    /// [`OutputTooLarge`] when a side would be longer than the scene's limit.
    pub fn layout(&self, source: Size, subject: Rect) -> Result<Layout, OutputTooLarge> {
        let subject = inside(subject, source);
        let mut holds = self.holds();
        loop {
            let layout = self.held(source, subject, holds)?;
            match anchor::loosened(holds, &layout) {
                Some(looser) => holds = looser,
                None => return Ok(layout),
            }
        }
    }

    /// The layout with the columns and the rows of the canvas held so.
    fn held(&self, source: Size, subject: Rect, holds: [Hold; 2]) -> Result<Layout, OutputTooLarge> {
        if let Framing::Padded { padding, .. } = self.framing {
            return self.padded(subject.size(), padding, subject, holds);
        }
        if let Framing::Placed(placement) = self.framing {
            let natural = placement.canvas(source, subject.size());
            let (canvas, _) = self.resize_of(source, natural).canvas(natural, natural, self.limit)?;
            return Ok(placement.on(canvas, natural, subject));
        }
        let natural = self.natural(source, subject, holds);
        let resize = self.resize_of(source, natural.size);
        let (canvas, room) = resize.canvas(natural.size, natural.shape, self.limit)?;
        let room = Rect {
            left: holds[0].start(room.width, (room.left, room.width), canvas.width),
            top: holds[1].start(room.height, (room.top, room.height), canvas.height),
            ..room
        };
        let (left, width) = scaled(natural.before.0, natural.from.width, natural.size.width, room.width);
        let (top, height) = scaled(natural.before.1, natural.from.height, natural.size.height, room.height);
        let place = Rect { left: room.left + left, top: room.top + top, width, height };
        let scale = if room.size() == natural.size {
            1.0
        } else if natural.size.width >= natural.size.height {
            room.width as f32 / natural.size.width as f32
        } else {
            room.height as f32 / natural.size.height as f32
        };
        Ok(Layout { canvas, from: natural.from, place, scale: self.outline_scale(scale, place, room, holds) })
    }

    /// The subject in the middle of a canvas of the aspect, or held at its borders: at its own scale on the natural one,
    /// else fitted into what the padding leaves.
    fn padded(&self, subject: Size, padding: Padding, from: Rect, holds: [Hold; 2]) -> Result<Layout, OutputTooLarge> {
        let shape = self.shape().unwrap_or(Size::new(1, 1));
        let natural = around(padding.around(subject, holds), shape);
        let (canvas, room) = self.resize_of(natural, natural).canvas(natural, shape, self.limit)?;
        let size = if room.size() == natural { subject } else { subject.fitted(padding.within(room.size(), holds)) };
        // A pixel that only rounding left over is no reason to give up a side.
        let spanned = |hold: Hold, side: u32, room: u32| if hold.is_both() && side + 1 == room { room } else { side };
        let width = spanned(holds[0], size.width, room.width);
        let height = spanned(holds[1], size.height, room.height);
        let place = Rect {
            left: holds[0].start(width, (room.left, room.width), canvas.width),
            top: holds[1].start(height, (room.top, room.height), canvas.height),
            width,
            height,
        };
        Ok(Layout { canvas, from, place, scale: 1.0 })
    }

    /// What was asked for. A portrait's frame may reach far beyond its picture, and is no larger than that unless it is
    /// asked for.
    fn resize_of(&self, source: Size, natural: Size) -> Resize {
        let mut resize = self.resize;
        if let Some(side) = self.max_pixels.and_then(|most| side_within(natural, most)) {
            resize.max_dim = Some(resize.max_dim.map_or(side, |max| max.min(side)));
        }
        match (self.framing, resize) {
            (Framing::Portrait { .. }, Resize { width: None, height: None, max_dim }) => {
                let most = source.longest();
                Resize { max_dim: Some(max_dim.map_or(most, |max| max.min(most))), ..resize }
            }
            (_, resize) => resize,
        }
    }

    fn natural(&self, source: Size, subject: Rect, holds: [Hold; 2]) -> Natural {
        match self.framing {
            Framing::Whole | Framing::Padded { .. } => whole(source),
            Framing::Placed(placement) => {
                let size = placement.canvas(source, subject.size());
                Natural { size, shape: size, from: subject, before: (0, 0) }
            }
            Framing::Cropped { padding, .. } => cropped(source, subject, padding, self.shape()),
            Framing::Grown => match &self.shadow {
                Some(shadow) => grown(source, subject, shadow, holds),
                None => whole(source),
            },
            Framing::Trimmed { padding } => {
                let width = self.outline.map_or(0.0, |outline| outline.width.min(FAR));
                let room = (width.ceil() as u32).saturating_add(padding);
                let size = Padding::Pixels(room).around(subject.size(), holds);
                let [left, top] = holds.map(|hold| if hold.first > 0 { 0 } else { room });
                Natural { size, shape: size, from: subject, before: (left, top) }
            }
            Framing::Portrait { head, .. } => {
                let shape = self.shape().unwrap_or(Size::new(1, 1));
                let Window { size, from, before } = portrait::window(&head, shape, source);
                Natural { size, shape, from, before }
            }
        }
    }

    /// The aspect of the canvas, where it does not follow from the picture.
    fn shape(&self) -> Option<Size> {
        let given = match self.framing {
            Framing::Padded { aspect, .. } | Framing::Cropped { aspect, .. } | Framing::Portrait { aspect, .. } => {
                aspect
            }
            Framing::Whole | Framing::Grown | Framing::Trimmed { .. } | Framing::Placed(_) => None,
        };
        let boxed = || Aspect::new(self.resize.width?, self.resize.height?);
        given.or_else(boxed).map(|aspect| Size::new(aspect.width(), aspect.height()))
    }

    /// `scale`, or a little less where rounding left a trimmed outline less room than it needs. There is none where the
    /// subject is held.
    fn outline_scale(&self, scale: f32, place: Rect, room: Rect, holds: [Hold; 2]) -> f32 {
        let Some(outline) = self.outline.filter(|_| matches!(self.framing, Framing::Trimmed { .. })) else {
            return scale;
        };
        let (left, top) = (place.left - room.left, place.top - room.top);
        let (right, bottom) = (room.width - left - place.width, room.height - top - place.height);
        let sides = [(left, holds[0].first), (right, holds[0].last), (top, holds[1].first), (bottom, holds[1].last)];
        let least = sides.into_iter().filter(|(_, contact)| *contact == 0).map(|(room, _)| room).min();
        least.map_or(scale, |least| scale.min(least as f32 / outline.width.ceil().max(1.0)))
    }

    /// An upper bound, over all subjects, of what [`flatten`](super::flatten) needs beside the source, in pixels of four
    /// bytes.
    #[must_use]
    pub fn most_pixels(&self, source: Size) -> usize {
        let canvas = self.largest_canvas(source);
        // A byte for what is covered, one for what is outlined, four for the distances.
        let outline = if self.outline.is_some() { canvas + canvas / 2 } else { 0 };
        let shadow = self.shadow.map_or(0, |shadow| {
            // Only a padded canvas has a known scale.
            let sigma = if matches!(self.framing, Framing::Padded { .. }) { shadow.sigma } else { 0.0 };
            (canvas + self.most_beyond(&shadow, canvas)) / shadow::reduction(sigma).pow(2)
        });
        let plate = match self.background {
            Background::Blurred { intensity, .. } => Plate::most_pixels(source, intensity),
            Background::Clear | Background::Color(_) | Background::Picture { .. } | Background::EdgeColor => 0,
        };
        let unchanged = self.framing == Framing::Whole
            && self.max_pixels.is_none()
            && self.resize.layout_within(source, self.limit) == Ok(Layout::unchanged(source));
        // A mark in its final size: a fifth of the width, at most all of the height.
        let mark = if self.watermark.is_some() { canvas / 4 } else { 0 };
        let grounded = if self.grounding.is_some() { grounding::MOST_PIXELS } else { 0 };
        outline + shadow + grounded + plate + mark + if unchanged { 0 } else { canvas }
    }

    /// Pixels beyond a canvas of so many that the coverage of a subject that is cut off may go on for its shadow, at most.
    fn most_beyond(&self, shadow: &Shadow, canvas: usize) -> usize {
        if self.anchor == Anchor::Center {
            return 0;
        }
        let away = [shadow.dx.abs(), shadow.dy.abs()].into_iter().fold(0.0, f32::max);
        // Only a padded canvas has a known scale; another may be enlarged to the longest side.
        let CanvasLimit(max_side) = self.limit;
        let scale = if matches!(self.framing, Framing::Padded { .. }) { 1.0 } else { max_side as f32 };
        let side = self.resize.max_dim.unwrap_or(max_side).min(max_side) as usize;
        let reach = ((shadow::reach_of(shadow, 1.0) + away) * scale).min(side as f32) as usize;
        // A frame of this width; and no side goes on by more than its own length.
        (4 * reach * (side + reach)).min(8 * canvas)
    }

    /// Pixels of the largest canvas that any subject may lead to.
    fn largest_canvas(&self, source: Size) -> usize {
        let CanvasLimit(max_side) = self.limit;
        let limit = max_side.min(self.resize.max_dim.unwrap_or(max_side)) as usize;
        let source = match self.framing {
            // The largest crop has the side of a subject at the one border and its padding up to the other on both sides.
            Framing::Cropped { aspect: Some(_), padding } => {
                let side = |side: u32| side + padding.min(side.saturating_sub(1));
                Size::new(side(source.width), side(source.height))
            }
            Framing::Whole
            | Framing::Padded { .. }
            | Framing::Cropped { aspect: None, .. }
            | Framing::Grown
            | Framing::Trimmed { .. }
            | Framing::Placed(_)
            | Framing::Portrait { .. } => source,
        };
        // Every other natural canvas grows with its subject: the largest is that of a subject that fills the picture. It has
        // room on every side: where a subject is held there is none.
        let (all, free_sides) = (Rect::whole(source), [Hold::default(); 2]);
        let free = match self.framing {
            Framing::Whole
            | Framing::Padded { .. }
            | Framing::Portrait { .. }
            | Framing::Cropped { aspect: Some(_), .. } => false,
            Framing::Cropped { aspect: None, .. } | Framing::Grown | Framing::Trimmed { .. } | Framing::Placed(_) => {
                true
            }
        };
        let most = match (self.resize.width, self.resize.height) {
            // Where the aspect is the subject's it may be anything, and so may the side that follows from it.
            (Some(side), None) | (None, Some(side)) if free => side as usize * max_side as usize,
            (None, None) if free => self.natural(source, all, free_sides).size.area(),
            (None, None) if matches!(self.framing, Framing::Portrait { .. }) => {
                let side = self.resize_of(source, source).max_dim.unwrap_or(max_side);
                self.shape().unwrap_or(Size::new(1, 1)).fitted(Size::new(side, side)).area()
            }
            _ => self.held(source, all, free_sides).map_or(limit * limit, |layout| layout.canvas.area()),
        };
        most.min(limit * limit)
    }
}

impl Resize {
    /// The canvas that `source` ends on, and its place there.
    ///
    /// # Errors
    /// [`OutputTooLarge`] when a side would be longer than [`MAX_SIDE`].
    pub fn layout(&self, source: Size) -> Result<Layout, OutputTooLarge> {
        self.layout_within(source, CanvasLimit::default())
    }

    fn layout_within(&self, source: Size, limit: CanvasLimit) -> Result<Layout, OutputTooLarge> {
        let (canvas, place) = self.canvas(source, source, limit)?;
        let scale = place.width as f32 / source.width as f32;
        Ok(Layout { canvas, from: Rect::whole(source), place, scale })
    }

    /// The canvas that a natural canvas of the exact aspect `shape` becomes, and its place there.
    fn canvas(&self, natural: Size, shape: Size, limit: CanvasLimit) -> Result<(Size, Rect), OutputTooLarge> {
        let canvas = match (self.width, self.height) {
            (None, None) => natural,
            (Some(width), None) => Size::new(width.max(1), shape.height_at(width.max(1))),
            (None, Some(height)) => Size::new(shape.width_at(height.max(1)), height.max(1)),
            (Some(width), Some(height)) => Size::new(width.max(1), height.max(1)),
        };
        let boxed = self.width.is_some() && self.height.is_some();
        let canvas = match self.max_dim {
            Some(max) if canvas.longest() > max => {
                // Without a box the canvas is the source in small: clamping the source rounds once instead of twice.
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

impl Padding {
    /// The least canvas that leaves this room around a subject of `size`, on the sides where it is not held.
    fn around(self, size: Size, holds: [Hold; 2]) -> Size {
        let side = |side: u32, hold: Hold| match self {
            Self::Pixels(pixels) => side.saturating_add(pixels.saturating_mul(hold.free_sides())),
            // A share is not exact in binary: 500.000002 columns are 500.
            Self::Share(share) => {
                let left = 1.0 - f64::from(hold.free_sides()) * f64::from(share);
                ((f64::from(side) / left - 1e-3).ceil() as u32).max(side)
            }
        };
        Size::new(side(size.width, holds[0]), side(size.height, holds[1]))
    }

    /// What is left of `room` inside this padding, at least one pixel.
    fn within(self, room: Size, holds: [Hold; 2]) -> Size {
        let side = |side: u32, hold: Hold| match self {
            Self::Pixels(pixels) => side.saturating_sub(pixels.saturating_mul(hold.free_sides())).max(1),
            Self::Share(share) => {
                let left = 1.0 - f64::from(hold.free_sides()) * f64::from(share);
                ((f64::from(side) * left + 1e-3).floor() as u32).clamp(1, side.max(1))
            }
        };
        Size::new(side(room.width, holds[0]), side(room.height, holds[1]))
    }
}

/// `rect`, cut to what of it lies in a picture of `size`, at least one pixel.
fn inside(rect: Rect, size: Size) -> Rect {
    let axis = |first: u32, length: u32, side: u32| {
        let first = first.min(side.saturating_sub(1));
        (first, length.clamp(1, (side - first).max(1)))
    };
    let (left, width) = axis(rect.left, rect.width, size.width);
    let (top, height) = axis(rect.top, rect.height, size.height);
    Rect { left, top, width, height }
}

/// The smallest size of the aspect of `shape` that holds `least`.
fn around(least: Size, shape: Size) -> Size {
    let wide = u64::from(least.width) * u64::from(shape.height) >= u64::from(least.height) * u64::from(shape.width);
    // The exact side is no smaller than the least one, which is whole: rounding it is not either.
    if wide {
        Size::new(least.width, shape.height_at(least.width))
    } else {
        Size::new(shape.width_at(least.height), least.height)
    }
}

/// Where `length` pixels after `before` others of `of` lie when those become `to`: start and length.
///
/// What is not covered is shared out as it was before, so that what lies in the middle stays in the middle.
fn scaled(before: u32, length: u32, of: u32, to: u32) -> (u32, u32) {
    if of == to {
        return (before, length);
    }
    let (before, length, of, to) = (u64::from(before), u64::from(length), u64::from(of.max(1)), u64::from(to));
    let scaled = ((length * to + of / 2) / of).clamp(1, to);
    let rest = of - length;
    // Rounded half down, as the middle of a box is.
    let start = if rest == 0 { 0 } else { (2 * (to - scaled) * before + rest - 1) / (2 * rest) };
    (start as u32, scaled as u32)
}

const fn whole(source: Size) -> Natural {
    Natural { size: source, shape: source, from: Rect::whole(source), before: (0, 0) }
}

/// The part of the source around the subject, with its padding as far as the source goes.
///
/// Of an aspect it is the smallest that has the subject in its middle, with the padding as far as the source goes on the
/// farther side; it may reach beyond the source.
fn cropped(source: Size, subject: Rect, padding: u32, shape: Option<Size>) -> Natural {
    let room = |first: u32, length: u32, side: u32| (padding.min(first), padding.min(side - first - length));
    let (left, right) = room(subject.left, subject.width, source.width);
    let (above, below) = room(subject.top, subject.height, source.height);
    let Some(shape) = shape else {
        let (width, height) = (left + subject.width + right, above + subject.height + below);
        let from = Rect { left: subject.left - left, top: subject.top - above, width, height };
        return Natural { size: from.size(), shape: from.size(), from, before: (0, 0) };
    };
    let least = Size::new(subject.width + 2 * left.max(right), subject.height + 2 * above.max(below));
    let size = around(least, shape);
    let window = |first: u32, length: u32, side: u32, crop: u32| {
        let start = (2 * i64::from(first) + i64::from(length) - i64::from(crop)).div_euclid(2);
        portrait::shown(start, crop, side)
    };
    let (columns, before) = window(subject.left, subject.width, source.width, size.width);
    let (rows, before_rows) = window(subject.top, subject.height, source.height, size.height);
    let from = Rect { left: columns.0, top: rows.0, width: columns.1, height: rows.1 };
    Natural { size, shape, from, before: (before, before_rows) }
}

/// The picture and the shadow that its subject casts; where that is held, the picture's border stays that of the canvas.
fn grown(source: Size, subject: Rect, shadow: &Shadow, holds: [Hold; 2]) -> Natural {
    let reach = shadow::reach(shadow.sigma.clamp(0.0, FAR)) as i64;
    // Whole pixels before the picture, and of both together.
    let side = |first: u32, length: u32, side: u32, offset: f32, hold: Hold| {
        let offset = if offset.is_nan() { 0.0 } else { offset.clamp(-FAR, FAR) };
        let low = i64::from(first) + offset.floor() as i64 - reach;
        let high = i64::from(first + length) + offset.ceil() as i64 + reach;
        let before = if hold.first > 0 { 0 } else { (-low).max(0) };
        let end = if hold.last > 0 { i64::from(side) } else { high.max(i64::from(side)) };
        (before as u32, (before + end) as u32)
    };
    let (left, width) = side(subject.left, subject.width, source.width, shadow.dx, holds[0]);
    let (top, height) = side(subject.top, subject.height, source.height, shadow.dy, holds[1]);
    let size = Size::new(width, height);
    Natural { size, shape: size, from: Rect::whole(source), before: (left, top) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::{Contact, Grounding, Head, Light, Outline};
    use crate::image::color::Color;

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

    const NARROW: Size = Size::new(1, 997);

    /// Of a picture of 200×300 with all of the body in it.
    const HEAD: Head = Head {
        middle: 90.0,
        eyes: 80.0,
        top: 60.0,
        left: 70.0,
        right: 110.0,
        chin: 104.0,
        face: 40.0,
        bottom: 300.0,
        cut_above: false,
        cut_left: false,
        cut_right: false,
    };

    fn rect(left: u32, top: u32, width: u32, height: u32) -> Rect {
        Rect { left, top, width, height }
    }

    fn scene(framing: Framing, resize: Resize) -> Scene {
        Scene { framing, resize, ..Scene::default() }
    }

    fn padded(aspect: Option<(u32, u32)>, padding: Padding, resize: Resize) -> Scene {
        let aspect = aspect.map(|(width, height)| Aspect::new(width, height).unwrap());
        scene(Framing::Padded { aspect, padding }, resize)
    }

    fn cropped(aspect: Option<(u32, u32)>, padding: u32, resize: Resize) -> Scene {
        let aspect = aspect.map(|(width, height)| Aspect::new(width, height).unwrap());
        scene(Framing::Cropped { aspect, padding }, resize)
    }

    fn grown(dx: f32, dy: f32, sigma: f32, resize: Resize) -> Scene {
        let shadow = Some(Shadow { color: Color::BLACK, opacity: 0.5, dx, dy, sigma });
        Scene { shadow, ..scene(Framing::Grown, resize) }
    }

    fn trimmed(width: f32, padding: u32, resize: Resize) -> Scene {
        let outline = (width > 0.0).then_some(Outline { color: Color::WHITE, width });
        Scene { outline, ..scene(Framing::Trimmed { padding }, resize) }
    }

    fn held(scene: Scene, [left, top, right, bottom]: [u32; 4]) -> Scene {
        Scene { anchor: Anchor::At(Contact { left, top, right, bottom }), ..scene }
    }

    /// Scenes of every framing, in every size, held at no, some and all borders.
    fn scenes() -> Vec<Scene> {
        let contacts = [[0, 0, 0, 9], [5, 0, 0, 0], [0, 3, 9, 0], [5, 0, 9, 1], [9, 5, 3, 7]];
        let free = scenes_in_the_middle();
        let held = free.iter().flat_map(|scene| contacts.map(|contact| held(scene.clone(), contact)));
        let held: Vec<_> = held.collect();
        free.into_iter().chain(held).collect()
    }

    fn scenes_in_the_middle() -> Vec<Scene> {
        let sizes =
            [(0, 0, 0), (100, 0, 0), (0, 77, 0), (301, 200, 0), (640, 640, 99), (0, 0, 64), (1, 1, 0), (500, 0, 50)];
        let mut scenes = Vec::new();
        for (width, height, max_dim) in sizes {
            let resize = resize(width, height, max_dim);
            scenes.push(scene(Framing::Whole, resize));
            for aspect in [None, Some((1, 1)), Some((4, 5)), Some((16, 9)), Some((1, 100)), Some((u32::MAX, 1))] {
                for pixels in [0, 1, 48, 5000, u32::MAX] {
                    scenes.push(padded(aspect, Padding::Pixels(pixels), resize));
                    scenes.push(cropped(aspect, pixels, resize));
                }
                for share in [0.0, 0.1, 0.33, 0.499_999, 0.5, 7.0, f32::NAN] {
                    scenes.push(padded(aspect, Padding::Share(share), resize));
                }
            }
            for (dx, dy, sigma) in
                [(0.0, 0.0, 0.0), (12.5, -3.0, 10.0), (-9000.0, 1e30, 50.0), (f32::NAN, 0.0, f32::NAN)]
            {
                scenes.push(grown(dx, dy, sigma, resize));
            }
            for (width, padding) in [(0.0, 0), (16.0, 32), (0.3, 0), (1e30, 1), (100.0, u32::MAX)] {
                scenes.push(trimmed(width, padding, resize));
            }
            for head in [Head::anywhere(PORTRAIT), Head { bottom: 9e9, face: f32::NAN, ..HEAD }, HEAD] {
                for aspect in [None, Aspect::new(4, 5), Aspect::new(1, 100), Aspect::new(u32::MAX, 1)] {
                    scenes.push(scene(Framing::Portrait { aspect, head }, resize));
                }
            }
        }
        scenes
    }

    #[test]
    fn every_rectangle_lies_inside_what_it_is_a_part_of() {
        let mut laid_out = 0;
        for source in [PORTRAIT, LANDSCAPE, SQUARE, NARROW, NARROW.transposed(), Size::new(1, 1), Size::new(37, 91)] {
            let (w, h) = (source.width, source.height);
            let subjects = [
                Rect::whole(source),
                rect(0, 0, 1, 1),
                rect(w - 1, h - 1, 1, 1),
                rect(w / 3, h / 3, (w / 4).max(1), (h / 2).max(1)),
                // Nonsense, which must not end in a panic.
                rect(w, h, 0, 0),
                rect(9999, 9999, u32::MAX, u32::MAX),
            ];
            for (scene, subject) in scenes().iter().flat_map(|scene| subjects.map(|subject| (scene, subject))) {
                let Ok(layout) = scene.layout(source, subject) else { continue };
                laid_out += 1;
                let within = |part: Rect, of: Size| {
                    part.width > 0
                        && part.height > 0
                        && part.left + part.width <= of.width
                        && part.top + part.height <= of.height
                };
                let told = || format!("{scene:?} of {subject} in {source}: {layout:?}");
                assert!(within(layout.from, source) && within(layout.place, layout.canvas), "{}", told());
                assert!(layout.canvas.longest() <= MAX_SIDE, "{}", told());
                assert!(layout.scale.is_finite() && layout.scale >= 0.0, "{}", told());
                let Resize { width, height, max_dim } = scene.resize;
                if max_dim.is_none() {
                    assert!(width.is_none_or(|width| layout.canvas.width == width), "{}", told());
                    assert!(height.is_none_or(|height| layout.canvas.height == height), "{}", told());
                }
                assert!(max_dim.is_none_or(|max| layout.canvas.longest() <= max), "{}", told());
                assert!(scene.largest_canvas(source) >= layout.canvas.area(), "{}", told());
            }
        }
        assert!(laid_out > 5000, "{laid_out}");
    }

    #[test]
    fn padding_keeps_the_scale_and_centres_exactly() {
        let subject = rect(30, 40, 101, 151);
        // A side of 151 and twice 48.
        let layout = padded(None, Padding::Pixels(48), Resize::default()).layout(PORTRAIT, subject).unwrap();
        assert_eq!(layout.canvas, Size::new(247, 247));
        assert_eq!((layout.from, layout.place), (subject, rect(73, 48, 101, 151)));
        assert_eq!(layout.scale, 1.0);
        // 200 is 80 % of 250: ten per cent of that on each side.
        let subject = rect(0, 0, 100, 200);
        let layout = padded(None, Padding::Share(0.1), Resize::default()).layout(PORTRAIT, subject).unwrap();
        assert_eq!((layout.canvas, layout.place), (Size::new(250, 250), rect(75, 25, 100, 200)));
        // 4:5 of the same height.
        let layout = padded(Some((4, 5)), Padding::Share(0.1), Resize::default()).layout(PORTRAIT, subject).unwrap();
        assert_eq!((layout.canvas, layout.place), (Size::new(200, 250), rect(50, 25, 100, 200)));
        // A wide subject decides by its width.
        let subject = rect(0, 10, 200, 20);
        let layout = padded(Some((4, 5)), Padding::Pixels(0), Resize::default()).layout(PORTRAIT, subject).unwrap();
        assert_eq!((layout.canvas, layout.place), (Size::new(200, 250), rect(0, 115, 200, 20)));
    }

    #[test]
    fn a_padded_canvas_of_a_given_size_has_its_padding_and_the_subject_fitted_in() {
        let subject = rect(10, 10, 100, 200);
        let share = |resize| padded(None, Padding::Share(0.1), resize).layout(PORTRAIT, subject).unwrap();
        let layout = share(resize(1000, 1000, 0));
        assert_eq!((layout.canvas, layout.place), (Size::new(1000, 1000), rect(300, 100, 400, 800)));
        // The box without an aspect is the aspect.
        let layout = share(resize(500, 2000, 0));
        assert_eq!((layout.canvas, layout.place), (Size::new(500, 2000), rect(50, 600, 400, 800)));
        let layout = share(resize(0, 0, 100));
        assert_eq!((layout.canvas, layout.place), (Size::new(100, 100), rect(30, 10, 40, 80)));
        let pixels = padded(None, Padding::Pixels(48), resize(400, 0, 0)).layout(PORTRAIT, subject).unwrap();
        assert_eq!((pixels.canvas, pixels.place), (Size::new(400, 400), rect(124, 48, 152, 304)));
        assert_eq!(pixels.scale, 1.0);
        // The very size that it has by itself: nothing is resampled.
        assert_eq!(share(resize(250, 250, 0)).place.size(), subject.size());
    }

    #[test]
    fn an_aspect_inside_a_box_of_another_is_fitted_and_centred() {
        let wide = padded(Some((2, 1)), Padding::Share(0.25), resize(400, 400, 0));
        let layout = wide.layout(PORTRAIT, rect(0, 0, 10, 10)).unwrap();
        // Half of the height of the 400×200 in the middle.
        assert_eq!((layout.canvas, layout.place), (Size::new(400, 400), rect(150, 150, 100, 100)));
    }

    #[test]
    fn one_side_and_an_aspect_give_the_other_side_exactly() {
        // 10×12.5 rounds to 10×13; 13/10 of 1000 would be 1300.
        for subject in [rect(0, 0, 10, 12), rect(0, 0, 7, 3), rect(5, 5, 33, 90)] {
            for (framed, name) in [
                (padded(Some((4, 5)), Padding::Pixels(0), resize(1000, 0, 0)), "padded"),
                (cropped(Some((4, 5)), 0, resize(1000, 0, 0)), "cropped"),
            ] {
                let canvas = framed.layout(PORTRAIT, subject).unwrap().canvas;
                assert_eq!(canvas, Size::new(1000, 1250), "{name}");
            }
            let canvas = cropped(Some((16, 9)), 0, resize(0, 720, 0)).layout(PORTRAIT, subject).unwrap().canvas;
            assert_eq!(canvas, Size::new(1280, 720));
        }
    }

    #[test]
    fn a_crop_is_clamped_at_the_picture() {
        let crop = |padding, subject| cropped(None, padding, Resize::default()).layout(LANDSCAPE, subject).unwrap();
        let layout = crop(10, rect(100, 50, 40, 30));
        assert_eq!((layout.from, layout.canvas), (rect(90, 40, 60, 50), Size::new(60, 50)));
        assert_eq!(layout.place, Rect::whole(layout.canvas));
        assert_eq!(crop(10, rect(2, 0, 40, 30)).from, rect(0, 0, 52, 40));
        assert_eq!(crop(10, rect(270, 180, 30, 20)).from, rect(260, 170, 40, 30));
        assert_eq!(crop(u32::MAX, rect(270, 180, 30, 20)), Layout::unchanged(LANDSCAPE));
        assert_eq!(crop(0, rect(299, 199, 1, 1)).from, rect(299, 199, 1, 1));
    }

    #[test]
    fn a_crop_of_an_aspect_has_the_subject_in_its_middle_and_may_leave_the_picture() {
        let square =
            |padding, subject| cropped(Some((1, 1)), padding, Resize::default()).layout(LANDSCAPE, subject).unwrap();
        let layout = square(5, rect(100, 50, 50, 30));
        assert_eq!((layout.from, layout.place), (rect(95, 35, 60, 60), rect(0, 0, 60, 60)));
        // Beyond the upper border of the picture, and its right one.
        let layout = square(5, rect(100, 0, 50, 10));
        assert_eq!((layout.from, layout.place), (rect(95, 0, 60, 35), rect(0, 25, 60, 35)));
        let layout = square(0, rect(280, 50, 20, 80));
        assert_eq!((layout.from, layout.place), (rect(250, 50, 50, 80), rect(0, 0, 50, 80)));
        // Higher than the picture: beyond both.
        let layout = square(0, rect(20, 50, 251, 30));
        assert_eq!(layout.canvas, Size::new(251, 251));
        assert_eq!((layout.from, layout.place), (rect(20, 0, 251, 190), rect(0, 61, 251, 190)));
        // The padding that one border clamps is that of the other; where both do there is no more of it.
        let layout = square(5, rect(2, 60, 50, 50));
        assert_eq!((layout.canvas, layout.from), (Size::new(60, 60), rect(0, 55, 57, 60)));
        assert_eq!(square(5000, rect(20, 0, 260, 200)).canvas, Size::new(300, 300));
    }

    #[test]
    fn the_margins_of_a_crop_of_an_aspect_are_equal() {
        let source = Size::new(800, 600);
        let subjects = [
            rect(10, 200, 120, 90),
            rect(670, 200, 120, 90),
            rect(300, 3, 81, 60),
            rect(300, 520, 80, 77),
            rect(0, 0, 33, 44),
            rect(767, 556, 33, 44),
            rect(10, 10, 780, 100),
            rect(350, 0, 20, 600),
        ];
        for (subject, aspect) in
            subjects.into_iter().flat_map(|subject| [(16, 9), (1, 1), (4, 5)].map(|a| (subject, a)))
        {
            for (padding, size) in
                [(8, (0, 0, 0)), (0, (0, 0, 0)), (100, (640, 0, 0)), (8, (0, 0, 300)), (8, (500, 400, 0))]
            {
                let scene = cropped(Some(aspect), padding, resize(size.0, size.1, size.2));
                let layout = scene.layout(source, subject).unwrap();
                // The exact place of the subject on the canvas.
                let across = f64::from(layout.place.width) / f64::from(layout.from.width);
                let down = f64::from(layout.place.height) / f64::from(layout.from.height);
                let left =
                    f64::from(layout.place.left) + (f64::from(subject.left) - f64::from(layout.from.left)) * across;
                let top = f64::from(layout.place.top) + (f64::from(subject.top) - f64::from(layout.from.top)) * down;
                let right = f64::from(layout.canvas.width) - left - f64::from(subject.width) * across;
                let bottom = f64::from(layout.canvas.height) - top - f64::from(subject.height) * down;
                let told = format!("{subject} at {aspect:?} with {padding} in {size:?}: {layout:?}");
                // A pixel of the source, and the rounding of start and length on the canvas.
                let most = across.max(down).max(1.0) + 2.0;
                assert!((left - right).abs() <= most && (top - bottom).abs() <= most, "{told}");
                if size == (0, 0, 0) {
                    assert!((left - right).abs() <= 1.0 && (top - bottom).abs() <= 1.0, "{told}");
                }
                assert!(left > -1.0 && top > -1.0 && right > -1.0 && bottom > -1.0, "{told}");
            }
        }
        // The one that was found: 10 to the left and 159 to the right.
        let layout = cropped(Some((16, 9)), 8, Resize::default()).layout(source, rect(10, 200, 120, 90)).unwrap();
        let left = layout.place.left + 10 - layout.from.left;
        assert!(left.abs_diff(layout.canvas.width - left - 120) <= 1, "{layout:?}");
    }

    #[test]
    fn every_crop_holds_the_padded_subject() {
        for subject in [rect(0, 0, 30, 40), rect(2, 190, 50, 10), rect(120, 60, 61, 33), rect(299, 0, 1, 200)] {
            for (padding, aspect) in
                [0, 7, 60, 500].into_iter().flat_map(|p| [(1, 1), (4, 5), (16, 9), (9, 31)].map(|a| (p, a)))
            {
                let Layout { from, .. } =
                    cropped(Some(aspect), padding, Resize::default()).layout(LANDSCAPE, subject).unwrap();
                let right = (subject.left + subject.width + padding).min(300);
                let bottom = (subject.top + subject.height + padding).min(200);
                assert!(from.left <= subject.left.saturating_sub(padding) && from.left + from.width >= right, "{from}");
                assert!(from.top <= subject.top.saturating_sub(padding) && from.top + from.height >= bottom, "{from}");
            }
        }
    }

    #[test]
    fn a_resized_letterbox_keeps_its_bars_in_proportion() {
        let layout = cropped(Some((1, 1)), 0, resize(500, 0, 0)).layout(LANDSCAPE, Rect::whole(LANDSCAPE)).unwrap();
        assert_eq!((layout.canvas, layout.place), (Size::new(500, 500), rect(0, 83, 500, 333)));
        // A box of another aspect than the crop.
        let layout = cropped(Some((1, 1)), 0, resize(600, 300, 0)).layout(LANDSCAPE, Rect::whole(LANDSCAPE)).unwrap();
        assert_eq!((layout.canvas, layout.place), (Size::new(600, 300), rect(150, 50, 300, 200)));
        // A box alone is the aspect of the crop: no bars where the picture has room.
        let layout = cropped(None, 0, resize(60, 30, 0)).layout(LANDSCAPE, rect(100, 100, 10, 10)).unwrap();
        assert_eq!((layout.from, layout.place), (rect(95, 100, 20, 10), rect(0, 0, 60, 30)));
    }

    #[test]
    fn the_canvas_grows_only_where_the_shadow_leaves_it() {
        let reach = shadow::reach(4.0) as u32;
        assert!(reach >= 12, "three standard deviations at least");
        let layout = grown(10.0, 0.0, 4.0, Resize::default()).layout(LANDSCAPE, rect(250, 100, 50, 100)).unwrap();
        assert_eq!(layout.canvas, Size::new(300 + 10 + reach, 200 + reach));
        assert_eq!((layout.from, layout.place), (Rect::whole(LANDSCAPE), Rect::whole(LANDSCAPE)));
        let layout = grown(-20.0, -30.5, 4.0, Resize::default()).layout(LANDSCAPE, rect(0, 0, 50, 100)).unwrap();
        assert_eq!(layout.canvas, Size::new(300 + 20 + reach, 200 + 31 + reach));
        assert_eq!(layout.place, rect(20 + reach, 31 + reach, 300, 200));
        let inside = grown(10.0, 10.0, 4.0, Resize::default()).layout(LANDSCAPE, rect(100, 100, 10, 10)).unwrap();
        assert_eq!(inside, Layout::unchanged(LANDSCAPE));
        // Without a shadow nothing grows.
        let bare = scene(Framing::Grown, Resize::default()).layout(LANDSCAPE, rect(0, 0, 1, 1)).unwrap();
        assert_eq!(bare, Layout::unchanged(LANDSCAPE));
    }

    #[test]
    fn a_grown_canvas_is_what_is_resized() {
        let (dx, sigma) = (100.0, 0.0);
        let layout = grown(dx, 0.0, sigma, resize(200, 0, 0)).layout(LANDSCAPE, rect(200, 0, 100, 10)).unwrap();
        assert_eq!((layout.canvas, layout.place, layout.scale), (Size::new(200, 100), rect(0, 0, 150, 100), 0.5));
        let layout = grown(-dx, 0.0, sigma, resize(100, 100, 0)).layout(LANDSCAPE, rect(0, 0, 100, 10)).unwrap();
        assert_eq!((layout.place, layout.scale), (rect(25, 25, 75, 50), 0.25));
        let far = grown(9000.0, 0.0, 0.0, Resize::default()).layout(LANDSCAPE, rect(0, 0, 100, 10));
        assert_eq!(far.unwrap_err().size, Size::new(9100, 200));
    }

    #[test]
    fn a_trimmed_canvas_holds_outline_and_padding_on_every_side() {
        let subject = rect(0, 20, 31, 64);
        let layout = trimmed(16.5, 32, Resize::default()).layout(PORTRAIT, subject).unwrap();
        assert_eq!(layout.canvas, Size::new(31 + 2 * 49, 64 + 2 * 49));
        assert_eq!((layout.from, layout.place, layout.scale), (subject, rect(49, 49, 31, 64), 1.0));
        let bare = trimmed(0.0, 0, Resize::default()).layout(PORTRAIT, subject).unwrap();
        assert_eq!((bare.canvas, bare.place), (subject.size(), Rect::whole(subject.size())));
        // 100 columns of subject, twice 50 of outline: a quarter of the canvas on each side.
        let layout = trimmed(50.0, 0, resize(100, 0, 0)).layout(PORTRAIT, rect(50, 50, 100, 100)).unwrap();
        assert_eq!((layout.place, layout.scale), (rect(25, 25, 50, 50), 0.5));
    }

    #[test]
    fn a_padded_subject_lies_against_the_borders_that_it_is_held_at() {
        let share = Padding::Share(0.1);
        let free = Resize::default();
        // Aspect, padding, size, subject, contacts; canvas and place.
        type Case = (Option<(u32, u32)>, Padding, Resize, (u32, u32), [u32; 4], (u32, u32), (u32, u32, u32, u32));
        let cases: [Case; 14] = [
            // Below: 90 % of the height, at its end; in the middle across.
            (None, share, free, (90, 180), [0, 0, 0, 80], (200, 200), (55, 20, 90, 180)),
            (None, share, free, (90, 180), [0, 80, 0, 0], (200, 200), (55, 0, 90, 180)),
            (None, share, free, (180, 90), [80, 0, 0, 0], (200, 200), (0, 55, 180, 90)),
            (None, share, free, (180, 90), [0, 0, 80, 0], (200, 200), (20, 55, 180, 90)),
            (None, Padding::Pixels(20), free, (90, 180), [0, 0, 0, 80], (200, 200), (55, 20, 90, 180)),
            // A corner.
            (None, share, free, (90, 180), [40, 0, 0, 80], (200, 200), (0, 20, 90, 180)),
            // What decides is the free width: 80 % of it.
            (None, share, free, (160, 90), [0, 0, 0, 80], (200, 200), (20, 110, 160, 90)),
            // Both sides of a wide one: all of the width.
            (None, share, free, (200, 90), [30, 0, 40, 0], (200, 200), (0, 55, 200, 90)),
            (Some((2, 1)), share, free, (200, 90), [30, 0, 40, 50], (200, 100), (0, 10, 200, 90)),
            // The aspect has no room for both: the longer contact, with padding at the other.
            (None, share, free, (90, 180), [30, 0, 40, 0], (225, 225), (135, 22, 90, 180)),
            (None, share, free, (90, 180), [40, 0, 30, 0], (225, 225), (0, 22, 90, 180)),
            // All four, of another aspect than the subject: both of one axis.
            (None, share, free, (90, 180), [9, 3, 2, 7], (180, 180), (0, 0, 90, 180)),
            // In sizes of their own.
            (None, share, resize(400, 0, 0), (90, 180), [0, 0, 0, 80], (400, 400), (110, 40, 180, 360)),
            (None, share, resize(400, 200, 0), (200, 90), [30, 0, 40, 50], (400, 200), (0, 20, 400, 180)),
        ];
        for (aspect, padding, resize, (width, height), contact, canvas, place) in cases {
            let scene = held(padded(aspect, padding, resize), contact);
            let layout = scene.layout(PORTRAIT, rect(0, 0, width, height)).unwrap();
            let (left, top, width, height) = place;
            let told = format!("{width}×{height} held by {contact:?}");
            assert_eq!(layout.canvas, Size::new(canvas.0, canvas.1), "{told}");
            assert_eq!(layout.place, rect(left, top, width, height), "{told}");
        }
    }

    #[test]
    fn without_a_contact_every_layout_is_that_of_the_middle() {
        let mut laid_out = 0;
        for (scene, subject) in scenes_in_the_middle()
            .into_iter()
            .flat_map(|scene| [rect(0, 0, 200, 300), rect(50, 100, 77, 130)].map(|subject| (scene.clone(), subject)))
        {
            let middle = scene.layout(PORTRAIT, subject);
            for anchor in [Anchor::Auto, Anchor::At(Contact::default())] {
                assert_eq!(Scene { anchor, ..scene.clone() }.layout(PORTRAIT, subject), middle, "{scene:?}");
            }
            laid_out += usize::from(middle.is_ok());
        }
        assert!(laid_out > 500, "{laid_out}");
    }

    #[test]
    fn a_held_canvas_does_not_grow_beyond_the_border_of_the_picture() {
        let reach = shadow::reach(4.0) as u32;
        let subject = rect(100, 50, 200, 150);
        let shadow =
            |resize, contact| held(grown(10.0, 12.0, 4.0, resize), contact).layout(LANDSCAPE, subject).unwrap();
        let layout = shadow(Resize::default(), [0, 0, 0, 90]);
        assert_eq!((layout.canvas, layout.place), (Size::new(310 + reach, 200), Rect::whole(LANDSCAPE)));
        assert_eq!(shadow(Resize::default(), [0, 0, 90, 90]), Layout::unchanged(LANDSCAPE));
        // What a box leaves over is at the other side.
        let layout = shadow(resize(300, 400, 0), [0, 0, 90, 90]);
        assert_eq!((layout.canvas, layout.place), (Size::new(300, 400), rect(0, 200, 300, 200)));
        let layout = shadow(resize(600, 200, 0), [9, 0, 0, 90]);
        assert_eq!((layout.place.left, layout.place.top + layout.place.height), (0, 200));
    }

    #[test]
    fn a_held_sticker_has_neither_outline_nor_padding_at_its_border() {
        let subject = rect(0, 20, 31, 64);
        let sticker = |resize, contact| held(trimmed(16.5, 32, resize), contact).layout(PORTRAIT, subject).unwrap();
        let layout = sticker(Resize::default(), [0, 0, 0, 20]);
        assert_eq!((layout.canvas, layout.place), (Size::new(31 + 2 * 49, 64 + 49), rect(49, 49, 31, 64)));
        let layout = sticker(Resize::default(), [20, 20, 0, 0]);
        assert_eq!((layout.canvas, layout.place), (Size::new(31 + 49, 64 + 49), rect(0, 0, 31, 64)));
        // At half the size the outline is half as wide: only sides with room count.
        let layout = sticker(resize(40, 0, 0), [20, 20, 0, 0]);
        assert!((layout.scale - 0.5).abs() < 0.02, "{layout:?}");
        // A box that is too wide for both sides: the longer one, and an outline at the other.
        let layout = sticker(resize(452, 226, 0), [10, 0, 20, 0]);
        assert_eq!(layout.place.left + layout.place.width, 452);
        assert!(layout.place.left > 49 && layout.scale > 1.0, "{layout:?}");
    }

    #[test]
    fn rounding_never_clips_an_outline() {
        for side in 1..200 {
            let layout = trimmed(7.0, 0, resize(side, 0, 0)).layout(PORTRAIT, rect(3, 9, 101, 211)).unwrap();
            let Layout { canvas, place, scale, .. } = layout;
            let room = place
                .left
                .min(place.top)
                .min(canvas.width - place.left - place.width)
                .min(canvas.height - place.top - place.height);
            assert!(7.0 * scale <= room as f32 + 1e-3, "{layout:?}");
        }
    }

    #[test]
    fn a_portrait_has_the_size_that_was_asked_for_and_the_aspect_that_was_said() {
        let portrait = |aspect, head, resize| {
            let aspect = Option::map(aspect, |(width, height)| Aspect::new(width, height).unwrap());
            scene(Framing::Portrait { aspect, head }, resize).layout(PORTRAIT, Rect::whole(PORTRAIT)).unwrap()
        };
        // 2.9 faces a side; a third of that is above the eyes, and the middle in the middle.
        let layout = portrait(None, HEAD, Resize::default());
        assert_eq!((layout.canvas, layout.from), (Size::new(116, 116), rect(32, 41, 116, 116)));
        assert_eq!(layout.place, Rect::whole(layout.canvas));
        for (aspect, resize, expected) in [
            (Some((4, 5)), resize(800, 0, 0), (800, 1000)),
            (None, resize(300, 400, 0), (300, 400)),
            (Some((1, 1)), resize(300, 400, 0), (300, 400)),
            (None, resize(0, 0, 64), (64, 64)),
        ] {
            let canvas = portrait(aspect, HEAD, resize).canvas;
            assert_eq!((canvas.width, canvas.height), expected);
        }
        // Beyond the picture there is background, and no more of it than makes the result as large as its picture.
        let at_the_border = Head { middle: 10.0, left: 0.0, right: 30.0, ..HEAD };
        let layout = portrait(None, at_the_border, Resize::default());
        assert_eq!((layout.from.left, layout.place.left), (0, 48));
        let large = portrait(Some((1, 9)), HEAD, Resize::default());
        assert_eq!(large.canvas.height, 300);
    }

    #[test]
    fn a_part_of_the_source_is_found_again_on_the_canvas() {
        let layout = cropped(None, 0, resize(50, 0, 0)).layout(LANDSCAPE, rect(100, 50, 100, 100)).unwrap();
        assert_eq!(layout.placed(rect(110, 60, 20, 40)), Some(rect(5, 5, 10, 20)));
        assert_eq!(layout.placed(rect(0, 0, 101, 51)), Some(rect(0, 0, 1, 1)), "clipped, and outwards");
        assert_eq!(layout.placed(rect(200, 50, 20, 20)), None);
    }

    #[test]
    fn a_picture_that_is_handed_through_needs_nothing() {
        assert_eq!(Scene::default().most_pixels(PORTRAIT), 0);
        let light = Light { shadow_angle: 0.0, shadow_length: 0.5, softness: 0.5, strength: 0.5, tint: [1.0; 3] };
        let grounding = Some(Grounding { light, horizon: None });
        assert_eq!(Scene { grounding, ..Scene::default() }.most_pixels(PORTRAIT), grounding::MOST_PIXELS);
        assert_eq!(scene(Framing::Whole, resize(20, 0, 0)).most_pixels(PORTRAIT), 20 * 30);
        // The subject may be as narrow as one column.
        assert_eq!(trimmed(0.0, 0, resize(20, 0, 0)).most_pixels(PORTRAIT), 20 * 8192);
        assert_eq!(trimmed(0.0, 0, resize(20, 0, 50)).most_pixels(PORTRAIT), 50 * 50);
    }
}
