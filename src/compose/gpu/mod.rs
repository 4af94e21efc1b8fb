//! Composing on a GPU: the layers of [`flatten`](crate::compose::flatten), in the same order, on planes that stay on the device.
//!
//! The cutout is there since it was matted. Up goes the background's picture, or the cells of one that is blurred from the source, down
//! come the bounds of each row of the subject, by which its shadow is cast, and the finished picture. A shadow on the ground is made by the host,
//! of the subject's silhouette on a coarse grid. Marks are drawn into the finished picture by the host, as the last layer.
//!
//! Crops of the source are the CPU's.

mod background;
mod ground;
mod planes;
mod stages;

use super::{Background, Framing, Layout, Materials, Plate, Scene, watermark};
use crate::image::{AlphaMatte, Buffer, Composite, DeviceSession, Frame, Rect, Size, Transferred};
use backdrop_kernels::device::Plane;
use background::DeviceBackground;

/// Bytes a pixel of the source: the cutout, and the picture that it was cut out of.
const SOURCE_BYTES: u64 = 8;
/// Bytes a pixel of the canvas: the placed subject, its part, the clipped one, distances and outline, the shadow, the background
/// and its part, the mixed layers, the result.
const CANVAS_BYTES: u64 = 40;
/// Bytes a pixel more with a shadow on the ground, and the light's wrap.
const GROUNDING_BYTES: u64 = 16;
/// Bytes of a sample between the two passes of a resampling, and of a cell of a blurred background.
const SAMPLE_BYTES: u64 = 16;

/// Whether the layers of `scene` can be composed on a GPU, and there is something to compose on a picture of `size`.
pub(crate) fn does(scene: &Scene, size: Size) -> bool {
    let Scene { framing, resize, limit, max_pixels, background, shadow, grounding, outline, enhance, .. } = scene;
    let is_clear = match background {
        Background::Clear | Background::EdgeColor => true,
        Background::Color(_) | Background::Picture { .. } | Background::Blurred { .. } => false,
    };
    let is_unchanged = *framing == Framing::Whole
        && max_pixels.is_none()
        && resize.layout_within(size, *limit) == Ok(Layout::unchanged(size));
    let is_bare = is_clear && shadow.is_none() && grounding.is_none() && outline.is_none() && enhance.is_none();
    let is_source = matches!(framing, Framing::Cropped { .. });
    !(is_source || is_unchanged && is_bare)
}

/// Whether the device has room to compose a source of `size` in `layout`, when no other picture is there.
pub(crate) fn has_room(
    session: &DeviceSession,
    size: Size,
    layout: &Layout,
    scene: &Scene,
    materials: &Materials,
) -> bool {
    let (all, largest) = memory(size, layout, scene, materials);
    session.can_hold(all, largest)
}

/// Bytes that composing takes on the device, and those of the largest buffer.
fn memory(size: Size, layout: &Layout, scene: &Scene, materials: &Materials) -> (u64, u64) {
    let bytes = |each: u64, pixels: usize| each * pixels as u64;
    let Layout { canvas, from, place, .. } = *layout;
    let scaled = if place.size() == from.size() { 0 } else { size.height as usize * place.width as usize };
    let background = materials.background.as_ref().map_or(Size::new(0, 0), Frame::size);
    let fitted = background.height as usize * canvas.width as usize;
    let each = CANVAS_BYTES + if scene.grounding.is_some() { GROUNDING_BYTES } else { 0 };
    let planes = bytes(SOURCE_BYTES, size.area()) + bytes(each, canvas.area()) + bytes(4, background.area());
    let cells = materials.plate.as_ref().map_or(0, Plate::cells);
    let largest = bytes(SAMPLE_BYTES, scaled.max(fitted).max(cells));
    let largest = largest.max(bytes(4, canvas.area().max(background.area())));
    (planes + bytes(SAMPLE_BYTES, scaled + fitted + cells), largest)
}

/// A finished picture of the device, and what crossed the border for it.
pub(crate) struct Composed {
    /// The picture.
    pub(crate) composite: Composite,
    /// The subject's bounds in it.
    pub(crate) subject: Rect,
    /// Bytes that were moved.
    pub(crate) transferred: Transferred,
}

/// Composes `cutout`, whose `coverage` the host has too, in `layout` with every layer of `scene`. `take(len)` gives the buffer of the result.
/// `None` where the layout leaves nothing of the subject, or nothing that an outline could be drawn around.
///
/// # Errors
/// Why the device failed.
pub(crate) fn flatten(
    session: &DeviceSession,
    (cutout, coverage): (Plane, &AlphaMatte),
    layout: &Layout,
    scene: &Scene,
    materials: &Materials,
    take: impl FnOnce(usize) -> Buffer,
) -> Result<Option<Composed>, String> {
    let (bytes, _) = memory(coverage.size(), layout, scene, materials);
    let room = session.reserve(bytes).ok_or("the device is lost, or its memory stays taken")?;
    let background = DeviceBackground::of(scene.background, materials, coverage, layout);
    let up = background.bytes();
    let (layout, layers) = (*layout, scene.clone());
    let compose = move || {
        let composed = stages::composed(cutout, &layout, &layers, background);
        // Late calls keep their memory.
        drop(room);
        composed
    };
    let Some(composed) = session.call(compose).map_err(|error| error.to_string())?? else { return Ok(None) };
    let stages::Canvas { pixels: data, subject, grounding } = composed;
    let words = data.as_bytes();
    // A kernel that panicked on the device's thread leaves zeros, which read back as success; there is a subject.
    if words.len() != 4 * layout.canvas.area() || words.iter().all(|&byte| byte == 0) {
        return Err("the picture was never written".to_owned());
    }
    let extents = (stages::EXTENT_BYTES * layout.canvas.height as usize) as u64;
    let up = up + grounding.up;
    let down = words.len() as u64 + extents + grounding.down;
    let mut pixels = take(words.len());
    pixels.copy_from_slice(words);
    let mut canvas = Frame::new(layout.canvas, pixels);
    watermark::draw_marks(&mut canvas, scene, materials.mark.as_ref());
    let composite = Composite::composed(canvas);
    Ok(Some(Composed { composite, subject, transferred: Transferred { up, down } }))
}
