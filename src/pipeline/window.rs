//! The window: the part of the picture that is segmented and matted, the caller's box with some context.
//!
//! The network sees the window as a whole picture, at its full resolution; the cutout is pasted back there.

use crate::image::{BufferPool, Cutout, Face, Frame, Rect, Size, Trimap};
use crate::matting::{self, Hair, NoSubject, Seeds};

/// Context around a box, as a share of its longer side; equals the context in the network's training data.
const MARGIN: f64 = 0.12;

/// The window around `area` in a picture of `size`.
pub(super) fn around(area: Rect, size: Size) -> Rect {
    grown(area, size, MARGIN)
}

/// `area` with half of the context: the part of the mask that is kept. Matting then sees no edge where the box cuts
/// through the subject, and cleaning does not mistake objects next to the box for the subject.
pub(super) fn kept(area: Rect, size: Size) -> Rect {
    grown(area, size, MARGIN / 2.0)
}

/// `area` with a margin of `share` of its longer side, within the picture.
fn grown(area: Rect, size: Size, share: f64) -> Rect {
    let margin = (f64::from(area.size().longest()) * share).ceil() as u32;
    let axis = |first: u32, length: u32, side: u32| {
        let start = first.saturating_sub(margin);
        (start, (first + length).saturating_add(margin).min(side) - start)
    };
    let (left, width) = axis(area.left, area.width, size.width);
    let (top, height) = axis(area.top, area.height, size.height);
    Rect { left, top, width, height }
}

pub(super) fn cropped(frame: &Frame, window: Rect, buffers: &BufferPool) -> Frame {
    frame.cropped(window, 1, |len| buffers.take(len))
}

/// The part of `area` inside `window`, in the window's coordinates; `None` when they do not overlap.
pub(super) fn within(area: Rect, window: Rect) -> Option<Rect> {
    let axis = |first: u32, length: u32, start: u32, extent: u32| {
        let low = first.max(start);
        let high = first.saturating_add(length).min(start + extent);
        (low < high).then(|| (low - start, high - low))
    };
    let (left, width) = axis(area.left, area.width, window.left, window.width)?;
    let (top, height) = axis(area.top, area.height, window.top, window.height)?;
    Some(Rect { left, top, width, height })
}

/// `seeds` in the window's coordinates, without points outside of it.
pub(super) fn seeds_within(seeds: Seeds, window: Rect) -> Seeds {
    let moved = |points: Vec<[u32; 2]>| {
        let inside = points.into_iter().filter(|&point| window.contains(point));
        inside.map(|[x, y]| [x - window.left, y - window.top]).collect()
    };
    let strokes = seeds.strokes;
    let strokes = strokes.map(|all| Trimap::new(window.size(), plane_within(all.labels(), all.size(), window)));
    Seeds { strokes, subject: moved(seeds.subject), background: moved(seeds.background) }
}

/// The part of a plane of `size` inside `window`.
pub(super) fn plane_within(plane: &[u8], size: Size, window: Rect) -> Vec<u8> {
    let rows = plane.chunks(size.width.max(1) as usize).skip(window.top as usize).take(window.height as usize);
    rows.flat_map(|row| &row[window.left as usize..][..window.width as usize]).copied().collect()
}

/// `options` of the whole picture in the window's coordinates.
pub(super) fn options_within(options: &matting::Options, window: Rect) -> matting::Options {
    let hair = options.hair.and_then(|hair| Some(Hair { region: within(hair.region, window)?, ..hair }));
    matting::Options { hair, ..*options }
}

/// `face` in the window's coordinates.
pub(super) fn face_within(face: &Face, window: Rect) -> Face {
    let [left, top] = [window.left, window.top].map(|at| at as f32);
    let landmarks = face.landmarks.map(|[x, y]| [x - left, y - top]);
    let (right, bottom) = (face.right - left, face.bottom - top);
    Face { left: face.left - left, top: face.top - top, right, bottom, landmarks, ..*face }
}

/// A cutout of the whole picture with `cutout` pasted at `window`. Works in the buffer of `frame`.
pub(super) fn pasted(mut frame: Frame, cutout: &Cutout, window: Rect) -> Result<Cutout, NoSubject> {
    frame.clear_outside(window);
    let (columns, width) = (frame.size().width as usize, window.width as usize);
    let rows = frame.pixels_mut().chunks_mut(columns.max(1) * 4).skip(window.top as usize);
    for (row, pixels) in rows.zip(cutout.frame().pixels().chunks(width.max(1) * 4)) {
        row[window.left as usize * 4..][..pixels.len()].copy_from_slice(pixels);
    }
    matting::from_own_alpha(frame)
}

/// `bounds` in the window's coordinates, converted to the picture's.
pub(super) const fn outside(bounds: Rect, window: Rect) -> Rect {
    Rect { left: bounds.left + window.left, top: bounds.top + window.top, ..bounds }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Rect = Rect { left: 3, top: 2, width: 4, height: 3 };

    #[test]
    fn a_window_has_context_within_the_picture() {
        let size = Size::new(100, 80);
        let around = |left, top, width, height| around(Rect { left, top, width, height }, size);
        assert_eq!(around(20, 20, 50, 30), Rect { left: 14, top: 14, width: 62, height: 42 });
        assert_eq!(around(0, 70, 10, 10), Rect { left: 0, top: 68, width: 12, height: 12 });
        assert_eq!(around(0, 0, 100, 80), Rect::whole(size));
    }

    #[test]
    fn marks_move_with_the_window() {
        let labels = (0..80).map(|at| if at == 2 * 10 + 3 || at == 4 * 10 + 6 { 255 } else { 128 }).collect();
        let strokes = Some(Trimap::new(Size::new(10, 8), labels));
        let seeds = Seeds { strokes, subject: vec![[3, 2], [9, 7]], background: vec![[6, 4]] };
        let inside = seeds_within(seeds, WINDOW);
        assert_eq!((inside.subject, inside.background), (vec![[0, 0]], vec![[3, 2]]));
        let strokes = inside.strokes.expect("strokes");
        let white: Vec<_> = (0..12).filter(|&at| strokes.labels()[at] == Trimap::FOREGROUND).collect();
        assert_eq!((strokes.size(), white), (Size::new(4, 3), vec![0, 11]));
        assert_eq!(
            within(Rect { left: 0, top: 0, width: 5, height: 9 }, WINDOW),
            Some(Rect { left: 0, top: 0, width: 2, height: 3 })
        );
        assert_eq!(within(Rect { left: 7, top: 0, width: 5, height: 9 }, WINDOW), None);
    }
}
