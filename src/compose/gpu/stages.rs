//! The composing stages on the device, from cutout to finished picture. Each runs one or a few kernels of
//! `backdrop_kernels` and computes what the CPU module of its name computes.

use super::background::{DeviceBackground, beneath};
use super::ground::{self, GroundShadow};
use super::planes::{constant, on_canvas, part_of};
use crate::compose::flatten::tint;
use crate::compose::outline::is_visible;
use crate::compose::resample::part;
use crate::compose::shadow::{Extension, GridPlan};
use crate::compose::{Enhance, Layout, Outline, SUBJECT_ALPHA, Scene, Shadow};
use crate::image::{Rect, Size, Transferred};
use backdrop_kernels::coverage;
use backdrop_kernels::device::{Plane, download};
use backdrop_kernels::dilate::gpu::dilate;
use backdrop_kernels::dst_over::gpu::dst_over;
use backdrop_kernels::enhance::gpu::enhance;
use backdrop_kernels::flat_over::gpu::flat_over;
use backdrop_kernels::gaussian::{Border, gpu::gaussian};
use backdrop_kernels::layers::Paint;
use backdrop_kernels::light_wrap::gpu::light_wrap;
use backdrop_kernels::shadow_grid::gpu::{Coverage, cells, samples};
use burn::tensor::{DType, Tensor, TensorData};

/// Bytes downloaded per row: the row's extent.
pub(super) const EXTENT_BYTES: usize = 2 * size_of::<u32>();

pub(super) struct Canvas {
    /// Packed pixels.
    pub(super) pixels: TensorData,
    pub(super) subject: Rect,
    /// Transfers of the ground shadow.
    pub(super) grounding: Transferred,
}

/// The packed picture of `cutout` in `layout`; `None` if no pixel of the subject is left.
pub(super) fn composed(
    cutout: Plane,
    layout: &Layout,
    scene: &Scene,
    background: DeviceBackground,
) -> Result<Option<Canvas>, String> {
    let device = cutout.device();
    let Layout { canvas: size, from, place, scale } = *layout;
    let subject = part_of(cutout, part(from), place.size());
    let subject = scene.enhance.map_or(subject.clone(), |Enhance(strength)| enhance(subject, strength));
    let (canvas, stroke) = outlined(on_canvas(subject, place, size), scene.outline, scale);
    let Some(bounds) = bounds(canvas.clone())? else { return Ok(None) };
    let shadow = scene.shadow.filter(|shadow| shadow.opacity > 0.0);
    let shade = shadow.map(|shadow| {
        let extension = scene.shadow_extension(layout, &shadow);
        drop_shadow(&canvas, stroke.as_ref(), &shadow, scale, bounds, extension)
    });
    let is_clear = background.is_clear();
    let background = background.on(size, &device);
    let (canvas, ground, grounding) = match &scene.grounding {
        Some(given) => {
            let GroundShadow { shade, transferred } = ground::shadow(&canvas, bounds, place, given)?;
            (light_wrap(canvas, background.clone(), tint(given)), shade, transferred)
        }
        None => (canvas, None, Transferred::default()),
    };
    let layers = Layers { stroke, shade, paint: paint(scene.outline, shadow), ground };
    let canvas = layers.beneath(canvas, background, is_clear);
    let pixels = download(canvas)?;
    Ok(Some(Canvas { pixels, subject: bounds, grounding }))
}

/// The canvas clipped to its outline, and the outline's coverage; `None` without an outline.
fn outlined(canvas: Plane, outline: Option<Outline>, scale: f32) -> (Plane, Option<Plane>) {
    let Some(line) = outline.filter(|line| is_visible(line.width * scale)) else { return (canvas, None) };
    let stroke = dilate(canvas.clone(), line.width * scale);
    (coverage::gpu::clipped(canvas, stroke.clone()), Some(stroke))
}

/// The subject's bounds, computed from the downloaded extents of its rows.
fn bounds(canvas: Plane) -> Result<Option<Rect>, String> {
    let extents = download(coverage::gpu::extents(canvas, SUBJECT_ALPHA))?;
    let extents: Vec<u32> = extents.try_into_vec().map_err(|error| error.to_string())?;
    let rows = extents.as_chunks::<2>().0.iter().zip(0..).filter(|([first, end], _)| first < end);
    let bounds = rows.fold(None, |bounds: Option<[u32; 4]>, (&[first, end], row)| {
        let [left, top, right, _] = bounds.unwrap_or([first, row, end, row]);
        Some([left.min(first), top, right.max(end), row + 1])
    });
    Ok(bounds.map(|[left, top, right, bottom]| Rect { left, top, width: right - left, height: bottom - top }))
}

/// Coverage of the shadow at each pixel, f32 `[H, W]`.
fn drop_shadow(
    canvas: &Plane,
    stroke: Option<&Plane>,
    shadow: &Shadow,
    scale: f32,
    subject: Rect,
    extension: Extension,
) -> Tensor<2> {
    let [height, width] = canvas.dims();
    // The subject is clipped to its outline, so the outline's coverage contains it.
    let (plane, within, bounds) = match stroke {
        Some(stroke) => (stroke, Coverage::Word, Rect::whole(Size::new(width as u32, height as u32))),
        None => (canvas, Coverage::Alpha, subject),
    };
    let plan = GridPlan::new(bounds, extension, shadow, scale);
    let grid = gaussian(cells(plane.clone(), within, plan.cells), plan.sigma, Border::Zero);
    samples(grid, plan.at, height, width)
}

/// Colours of the flat layers; absent layers have any colour.
fn paint(outline: Option<Outline>, shadow: Option<Shadow>) -> Paint {
    Paint {
        stroke: outline.map_or([0; 3], |line| line.color.rgb()),
        shadow: shadow.map_or([0; 3], |shadow| shadow.color.rgb()),
        opacity: shadow.map_or(0.0, |shadow| shadow.opacity),
    }
}

/// The layers between the subject and the background.
struct Layers {
    stroke: Option<Plane>,
    shade: Option<Tensor<2>>,
    paint: Paint,
    ground: Option<Tensor<2>>,
}

impl Layers {
    /// Composites `canvas` over these layers and `background`, which `is_clear` marks as transparent. Flat layers mix
    /// in encoded values with the layers behind them; the result and the ground shadow are composited in linear light.
    fn beneath(self, canvas: Plane, background: Plane, is_clear: bool) -> Plane {
        let device = canvas.device();
        let count = usize::from(self.stroke.is_some()) + usize::from(self.shade.is_some());
        let is_bare = is_clear && self.ground.is_none();
        if count == 0 {
            return if is_bare { canvas } else { beneath(canvas, self.ground, background) };
        }
        let background = match self.ground {
            Some(ground) => beneath(Plane::zeros(canvas.dims(), (&device, DType::U32)), Some(ground), background),
            None => background,
        };
        let stroke = self.stroke.unwrap_or_else(|| constant(0, &device));
        let shade = self.shade.unwrap_or_else(|| Tensor::zeros([1, 1], &device));
        // A single flat layer over a transparent background needs no mixing.
        if count == 1 && is_bare {
            return dst_over(canvas, stroke, shade, background, self.paint);
        }
        let mixed = flat_over(canvas.clone(), stroke, shade, background, self.paint);
        beneath(canvas, None, mixed)
    }
}
