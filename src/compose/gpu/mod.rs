//! Composes on a GPU: the layers of [`flatten`](crate::compose::flatten), in its order, on planes on the device.
//!
//! Matting has left the cutout on the device. Uploaded are the background's picture or the cells of a blurred source.
//! Downloaded are the bounds of each row of the subject, by which the shadow is cast, and the finished picture. The
//! host makes a ground shadow from the subject's silhouette on a coarse grid, and finally draws the marks.
//!
//! The CPU composes crops of the source.

mod background;
mod ground;
mod planes;
mod stages;

use super::{Background, Framing, Layout, Materials, Plate, Scene, watermark};
use crate::image::{AlphaMatte, Buffer, Composite, DeviceSession, Frame, Rect, Size, Transferred};
use backdrop_kernels::device::Plane;
use background::DeviceBackground;

/// Bytes per pixel of the source: the cutout and the uncut picture.
const SOURCE_BYTES: u64 = 8;
/// Bytes per pixel of the canvas: the placed subject, its part, the clipped subject, distances and outline, shadow,
/// background and its part, mixed layers, result.
const CANVAS_BYTES: u64 = 40;
/// Additional bytes per pixel for a ground shadow and the light wrap.
const GROUNDING_BYTES: u64 = 16;
/// Bytes of a sample between the two passes of a resampling, and of a cell of a blurred background.
const SAMPLE_BYTES: u64 = 16;

/// Whether a GPU can compose the layers of `scene`, and a picture of `size` has any to compose.
pub(crate) fn does(scene: &Scene, size: Size) -> bool {
    let Scene { framing, background, shadow, grounding, outline, enhance, .. } = scene;
    let is_clear = match background {
        Background::Clear | Background::EdgeColor => true,
        Background::Color(_) | Background::Picture { .. } | Background::Blurred { .. } => false,
    };
    let is_bare = is_clear && shadow.is_none() && grounding.is_none() && outline.is_none() && enhance.is_none();
    let is_source = matches!(framing, Framing::Cropped { .. });
    !(is_source || scene.keeps_canvas(size) && is_bare)
}

/// Whether the device has room to compose a source of `size` in `layout` when it holds no other picture.
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

/// Bytes of device memory that composing takes, and bytes of the largest buffer.
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

/// A picture composed on the device, and its transfers.
pub(crate) struct Composed {
    pub(crate) composite: Composite,
    pub(crate) subject: Rect,
    /// Bytes moved between host and device.
    pub(crate) transferred: Transferred,
}

/// Composes `cutout`, whose `coverage` is also on the host, in `layout` with every layer of `scene`. `take(len)`
/// returns the result's buffer. `None` if the layout leaves no pixel of the subject, or none to outline.
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
    let room = session.reserve(bytes).ok_or("the device is lost, or its memory is still in use")?;
    let background = DeviceBackground::of(scene.background, materials, coverage, layout);
    let up = background.bytes();
    let (layout, layers) = (*layout, scene.clone());
    let compose = move || {
        let composed = stages::composed(cutout, &layout, &layers, background);
        // The reservation must outlast the calls above.
        drop(room);
        composed
    };
    let Some(composed) = session.call(compose).map_err(|error| error.to_string())?? else { return Ok(None) };
    let stages::Canvas { pixels: data, subject, grounding } = composed;
    let words = data.as_bytes();
    // A kernel that panics on the device's thread leaves zeros, which read back as success. No subject is all zero.
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
