//! Composites a cutout, its outline, shadows, background and marks into the finished picture.
//!
//! The subject is placed on a transparent canvas, resampled if the layout scales it. The other layers go beneath it,
//! front to back: outline, shadow, background. Outline and drop shadow are flat and mix with the background in encoded
//! values. The subject's edge and a ground shadow mix with the result in linear light. Opaque pixels stay bit for bit.

use super::background::{BackgroundLayer, Scratch, replicate_border};
use super::brightness_saturation::enhance;
use super::ground_shadow::ground_shadow;
use super::outline::outline;
use super::resample::resample_part;
use super::shadow::{Extension, ShadowGrid};
use super::{Background, Framing, Grounding, Layout, Outline, Plate, SUBJECT_ALPHA, Scene, Shadow, watermark};
use crate::image::{Composite, Frame, Rect, Size, Subject};
use backdrop_kernels::dst_over::cpu::{self as dst_over, Row, Shadow as Shade, Stroke, Under};
use backdrop_kernels::flat_over::cpu as flat_over;
use backdrop_kernels::light_wrap;
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;

/// The pictures that a [`Scene`] refers to.
#[derive(Debug, Default)]
pub struct Materials {
    /// The background picture.
    pub background: Option<Frame>,
    /// The reduced source, for a blurred background.
    pub plate: Option<Plate>,
    /// The watermark's picture.
    pub mark: Option<Frame>,
}

/// A finished picture.
#[derive(Clone, Debug)]
pub struct Flattened {
    /// The composite.
    pub composite: Composite,
    /// The subject's bounds in it; `None` if resizing left no pixel of the subject.
    pub subject: Option<Rect>,
}

/// Composites `picture` on its canvas with every layer of `scene`.
///
/// `picture` is a cutout or, for a crop, the source itself. A scene without effect returns the buffer, bit for bit. A
/// layout at scale 1 copies rows; other layouts are resampled (linear light, premultiplied alpha, Lanczos), with colour
/// zeroed where alpha is zero.
///
/// `layout` must be the layout of a source of the picture's size with this `subject`.
#[must_use]
pub fn flatten(picture: Subject, subject: Rect, layout: &Layout, scene: &Scene, materials: Materials) -> Flattened {
    let picture = picture.into_frame();
    let Materials { background, plate, mark } = materials;
    let opaque = matches!(scene.framing, Framing::Cropped { .. }) && !picture.has_transparency();
    let mut background = BackgroundLayer::new(scene.background, background.as_ref(), plate, &picture, layout);
    let mut canvas = placed(picture, layout);
    let size = canvas.size();
    let row = size.width as usize;
    // A cutout is transparent around its subject and has no border to replicate.
    if scene.background == Background::EdgeColor && opaque && layout.place != Rect::whole(size) {
        replicate_border(&mut canvas, layout.place);
    }
    let Rect { left, top, width, height } = layout.place;
    if let Some(strength) = scene.enhance {
        let rows = top as usize * row * 4..(top + height) as usize * row * 4;
        enhance(&mut canvas.pixels_mut()[rows], row, left as usize..(left + width) as usize, strength);
    }
    let stroke =
        scene.outline.and_then(|line| Some((line, outline(canvas.pixels_mut(), row, line.width * layout.scale)?)));
    let subject = if opaque { layout.placed(subject) } else { canvas.covered(SUBJECT_ALPHA) };
    let shadow = scene.shadow.and_then(|shadow| {
        let extension = scene.shadow_extension(layout, &shadow);
        Some((shadow, drop_shadow(&canvas, stroke.as_ref(), &shadow, layout, subject?, extension)?))
    });
    let lighting = scene.grounding.map(|grounding| {
        let on_ground = subject.filter(|_| !opaque);
        let shadow = on_ground.and_then(|subject| ground_shadow(&canvas, subject, layout.place, &grounding));
        Lighting { tint: tint(&grounding), shadow }
    });
    composite_beneath(&mut canvas, stroke.as_ref(), shadow.as_ref(), lighting.as_ref(), &mut background);
    watermark::draw_marks(&mut canvas, scene, mark.as_ref());
    Flattened { composite: Composite::composed(canvas), subject }
}

/// Effects of the background's light: on the subject's translucent edge, and its shadow on the ground.
struct Lighting {
    tint: [f32; 3],
    shadow: Option<ShadowGrid>,
}

fn drop_shadow(
    canvas: &Frame,
    stroke: Option<&(Outline, Vec<u8>)>,
    shadow: &Shadow,
    layout: &Layout,
    subject: Rect,
    extension: Extension,
) -> Option<ShadowGrid> {
    if shadow.opacity.is_nan() || shadow.opacity <= 0.0 {
        return None;
    }
    let (size, row) = (canvas.size(), canvas.size().width as usize);
    let grid = match stroke {
        // The subject is clipped to its outline, so the outline's coverage contains it.
        Some((_, covered)) => {
            let covers = |x: u32, y: u32| covered[y as usize * row + x as usize];
            ShadowGrid::new(size, Rect::whole(size), extension, shadow, layout.scale, covers)
        }
        None => {
            let pixels = canvas.pixels();
            let covers = |x: u32, y: u32| pixels[(y as usize * row + x as usize) * 4 + 3];
            ShadowGrid::new(size, subject, extension, shadow, layout.scale, covers)
        }
    };
    Some(grid)
}

/// Buffers for one row: background, a shadow's grid, two shadows, mixed layers.
#[derive(Default)]
struct RowScratch {
    background: Scratch,
    line: Vec<f32>,
    shade: Vec<f32>,
    ground: Vec<f32>,
    mixed: [Vec<u8>; 2],
}

fn composite_beneath(
    canvas: &mut Frame,
    stroke: Option<&(Outline, Vec<u8>)>,
    shadow: Option<&(Shadow, ShadowGrid)>,
    lighting: Option<&Lighting>,
    background: &mut BackgroundLayer<'_>,
) {
    if stroke.is_none() && shadow.is_none() && lighting.is_none() && background.is_clear() {
        return;
    }
    let Size { width, height } = canvas.size();
    let row = width as usize;
    let band = background.band(height);
    let bands = canvas.pixels_mut().chunks_mut(row * 4 * band as usize);
    for (first, pixels) in (0..).step_by(band as usize).zip(bands) {
        let band_background = background.rows(first, (pixels.len() / (row * 4)) as u32, row);
        pixels.par_chunks_mut(row * 4).enumerate().for_each_init(
            Recycled::<RowScratch>::take,
            |scratch, (index, pixels)| {
                let RowScratch { background: scratch, line, shade, ground, mixed } = &mut **scratch;
                shade.resize(row, 0.0);
                ground.resize(row, 0.0);
                let y = first + index as u32;
                let stroke = stroke.map(|(line, covered)| Stroke {
                    coverage: &covered[y as usize * row..][..row],
                    color: line.color.rgb(),
                });
                let shadow = shadow.and_then(|(shadow, grid)| {
                    let coverage = grid.row(y, line, shade)?;
                    Some(Shade { coverage, color: shadow.color.rgb(), opacity: shadow.opacity })
                });
                let ground = lighting.and_then(|lighting| lighting.shadow.as_ref()?.row(y, line, ground));
                let ground = ground.map(|coverage| Shade { coverage, color: [0; 3], opacity: 1.0 });
                let background = band_background.row(index, y, pixels, scratch);
                if let Some(lighting) = lighting {
                    light_wrap::cpu::row(pixels, background, lighting.tint);
                }
                let layers = layers(pixels, stroke, shadow, ground, background, mixed);
                dst_over::row(pixels, &layers);
            },
        );
    }
}

/// The layers beneath a row of the canvas, to be composited in linear light: the ground shadow alone, or, if flat
/// layers exist, all layers mixed in encoded values to one picture. `mixed` is scratch.
fn layers<'a>(
    canvas: &[u8],
    stroke: Option<Stroke<'a>>,
    shadow: Option<Shade<'a>>,
    ground: Option<Shade<'a>>,
    background: Under<'a>,
    mixed: &'a mut [Vec<u8>; 2],
) -> Row<'a> {
    let is_bare = ground.is_none() && matches!(background, Under::Clear);
    match (stroke, shadow) {
        (None, None) => Row { stroke: None, shadow: ground, background },
        // A single flat layer over a transparent background needs no mixing.
        (Some(_), None) | (None, Some(_)) if is_bare => Row { stroke, shadow, background },
        (stroke, shadow) => {
            let [lit, mixed] = mixed;
            let background = match ground {
                Some(_) => {
                    lit.clear();
                    lit.resize(canvas.len(), 0);
                    dst_over::row(lit, &Row { stroke: None, shadow: ground, background });
                    Under::Pixels(lit)
                }
                None => background,
            };
            Row { background: flat_over::over(canvas, stroke, shadow, background, mixed), ..Row::default() }
        }
    }
}

fn placed(frame: Frame, layout: &Layout) -> Frame {
    let source = frame.size();
    if *layout == Layout::unchanged(source) {
        return frame;
    }
    let Layout { canvas: size, from, place, .. } = *layout;
    let pixels = frame.into_pixels();
    let mut canvas = pixels.another(size.area() * 4);
    if place.size() == from.size() {
        copy_rows(&pixels, source, &mut canvas, layout);
    } else {
        resample_part(&pixels, source, from, &mut canvas, size, place);
    }
    Frame::new(size, canvas)
}

fn copy_rows(source: &[u8], size: Size, canvas: &mut [u8], layout: &Layout) {
    let Layout { canvas: canvas_size, from, place, .. } = *layout;
    let source = source.par_chunks_exact(size.width as usize * 4).skip(from.top as usize).take(from.height as usize);
    let rows = canvas.par_chunks_exact_mut(canvas_size.width as usize * 4).skip(place.top as usize);
    let part = |left: u32, width: u32| left as usize * 4..(left + width) as usize * 4;
    source.zip(rows).for_each(|(from_row, to)| {
        to[part(place.left, place.width)].copy_from_slice(&from_row[part(from.left, from.width)]);
    });
}

/// The factors of linear red, green and blue of a scene's light, clamped to 0..=4.
pub(super) fn tint(grounding: &Grounding) -> [f32; 3] {
    grounding.light.tint.map(|factor| if factor.is_nan() { 1.0 } else { factor.clamp(0.0, 4.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::Resize;
    use crate::compose::tests::largest_difference;
    use crate::image::tests::{drawn, noise};
    use crate::image::{BufferPool, Size};

    fn flattened(cutout: Frame, width: u32, height: u32) -> Frame {
        let given = |value: u32| (value > 0).then_some(value);
        let resize = Resize { width: given(width), height: given(height), max_dim: None };
        let layout = resize.layout(cutout.size()).unwrap();
        placed(cutout, &layout)
    }

    #[test]
    fn an_unchanged_size_returns_the_same_buffer() {
        let picture = drawn(33, 17, noise);
        let (before, address) = (picture.clone(), picture.pixels().as_ptr());
        let after = flattened(picture, 0, 0);
        assert_eq!(after.pixels(), before.pixels());
        assert_eq!(after.pixels().as_ptr(), address);
    }

    #[test]
    fn padding_alone_keeps_every_pixel() {
        let before = drawn(5, 4, noise);
        let after = flattened(before.clone(), 9, 4);
        for y in 0..4 {
            for x in 0..9 {
                let expected = if (2..7).contains(&x) { before.pixel(x - 2, y) } else { [0; 4] };
                assert_eq!(after.pixel(x, y), expected, "at {x},{y}");
            }
        }
    }

    #[test]
    fn a_flat_colour_stays_exactly_that_colour() {
        for colour in [[0, 0, 0, 255], [1, 2, 3, 255], [200, 100, 7, 255], [255, 255, 255, 255]] {
            let after = flattened(drawn(100, 80, |_, _| colour), 37, 0);
            assert!(
                after.pixels().as_chunks::<4>().0.iter().all(|pixel| *pixel == colour),
                "{colour:?} became {:?}",
                after.pixel(5, 5)
            );
        }
    }

    #[test]
    fn linear_light_is_averaged_and_not_encoded_values() {
        let stripes = |x: u32, _| if x.is_multiple_of(2) { [0, 0, 0, 255] } else { [255; 4] };
        let after = flattened(drawn(256, 256, stripes), 32, 0);
        // Half the light is 188 encoded; an average of encoded values would give 128.
        let [grey, _, _, alpha] = after.pixel(16, 16);
        assert!(grey.abs_diff(188) <= 2, "{grey}");
        assert_eq!(alpha, 255);
    }

    #[test]
    fn a_ramp_stays_a_ramp() {
        let after = flattened(drawn(512, 512, |x, y| [(x / 2) as u8, (y / 2) as u8, 128, 255]), 256, 0);
        let ideal = drawn(256, 256, |x, y| [x as u8, y as u8, 128, 255]);
        assert!(largest_difference(&after, &ideal) <= 2);
        for x in 4..252 {
            assert!(after.pixel(x + 1, 9)[0] >= after.pixel(x, 9)[0]);
        }
    }

    #[test]
    fn the_canvas_comes_from_the_buffer_pool_of_the_source() {
        let pool = BufferPool::new(1 << 20);
        let mut pixels = pool.take(64 * 64 * 4);
        pixels.fill(255);
        let picture = Frame::new(Size::new(64, 64), pixels);
        drop(flattened(picture, 32, 0));
        assert!(pool.kept_bytes() >= (64 * 64 + 32 * 32) * 4);
    }
}
