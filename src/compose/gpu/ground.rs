//! The ground shadow on a device: the silhouette is downloaded on a coarse grid, the host casts the shadow, and the
//! shadow is uploaded on another grid.

use crate::compose::Grounding;
use crate::compose::ground_shadow::{GroundScene, Silhouette, cell_side, is_cropped};
use crate::image::{Rect, Size, Transferred};
use backdrop_kernels::device::{Plane, download};
use backdrop_kernels::shadow_grid::Cells;
use backdrop_kernels::shadow_grid::gpu::{Coverage, cells, samples};
use burn::tensor::{Tensor, TensorData};

/// A ground shadow and its transfers.
pub(super) struct GroundShadow {
    /// Coverage of each pixel of the canvas, f32 `[H, W]`; `None` without a shadow.
    pub(super) shade: Option<Tensor<2>>,
    /// Bytes of the silhouette, of the subject's last row if a border may crop it, and of the shadow.
    pub(super) transferred: Transferred,
}

/// The shadow of `subject` on `canvas`; `place` is the source's rectangle on the canvas.
pub(super) fn shadow(
    canvas: &Plane,
    subject: Rect,
    place: Rect,
    grounding: &Grounding,
) -> Result<GroundShadow, String> {
    let [height, width] = canvas.dims();
    let mut transferred = Transferred::default();
    let none = |transferred| Ok(GroundShadow { shade: None, transferred });
    let size = Size::new(width as u32, height as u32);
    let Some(scene) = GroundScene::of(size, subject, place, grounding) else { return none(transferred) };
    if scene.touches_border {
        let row = last_row(canvas, subject)?;
        transferred.down += (row.len() * size_of::<u32>()) as u64;
        if is_cropped(row.iter().map(|pixel| (pixel >> 24) as u8), subject) {
            return none(transferred);
        }
    }
    let means = silhouette(canvas, subject)?;
    transferred.down += (means.len() * size_of::<f32>()) as u64;
    let Some(shadow) = scene.shadow(&Silhouette::of_means(means, subject)) else { return none(transferred) };
    let (shade, columns, at) = shadow.into_cells();
    transferred.up += (shade.len() * size_of::<f32>()) as u64;
    let shape = [shade.len() / columns, columns, 1];
    let shade = Tensor::<3>::from_data(TensorData::new(shade, shape), &canvas.device());
    Ok(GroundShadow { shade: Some(samples(shade, at, height, width)), transferred })
}

fn last_row(canvas: &Plane, subject: Rect) -> Result<Vec<u32>, String> {
    let last = Rect { top: subject.top + subject.height - 1, height: 1, ..subject };
    let row = canvas.clone().slice(last.ranges());
    download(row)?.try_into_vec().map_err(|error| error.to_string())
}

fn silhouette(canvas: &Plane, subject: Rect) -> Result<Vec<f32>, String> {
    let Rect { left, top, width, height } = subject;
    let bounds = [left, top, left + width, top + height];
    let grid = Cells { bounds, extension: [0; 4], cell: cell_side(subject), border: 0 };
    let means = cells(canvas.clone(), Coverage::Alpha, grid);
    download(means)?.try_into_vec().map_err(|error| error.to_string())
}
