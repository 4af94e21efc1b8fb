//! The background of a canvas on a device: one colour, a fitted picture, or the blurred source.

use super::planes::{constant, on_canvas, part_of};
use crate::compose::background::fitted;
use crate::compose::{Background, Fit, Layout, Materials};
use crate::image::color::Color;
use crate::image::{AlphaMatte, Frame, Size};
use backdrop_kernels::bilinear::{Tap, gpu::bilinear};
use backdrop_kernels::device::Plane;
use backdrop_kernels::dst_over::gpu::dst_over;
use backdrop_kernels::layers::Paint;
use burn::tensor::{Device, Tensor, TensorData};

/// The bottom layer, on the host until it is uploaded.
pub(super) enum DeviceBackground {
    /// One colour everywhere; zero if transparent.
    Color(Color),
    Picture {
        picture: Frame,
        fit: Fit,
        behind: Color,
    },
    /// A blurred plate, inpainted and blurred by the host: it has few cells.
    Blurred {
        /// The cells, f32 `[rows, columns, 4]`.
        samples: TensorData,
        /// The cells of each column of the canvas.
        columns: Vec<Tap>,
        /// The cells of each row of the canvas.
        rows: Vec<Tap>,
    },
}

impl DeviceBackground {
    /// The host data of `background`, taken from `materials`, beneath a cutout of this `coverage`.
    pub(super) fn of(background: Background, materials: &Materials, coverage: &AlphaMatte, layout: &Layout) -> Self {
        let color = match (background, &materials.background, &materials.plate) {
            (Background::Picture { fit, behind }, Some(given), _) if given.size().area() > 0 => {
                return Self::Picture { picture: given.clone(), fit, behind };
            }
            (Background::Blurred { behind, .. }, _, Some(plate)) => {
                match plate.without(|at| coverage.coverage()[at] > 0, layout) {
                    Some(blurred) => {
                        let shape = [blurred.samples.len() / blurred.width, blurred.width, 4];
                        let samples = TensorData::new(blurred.samples.into_flattened(), shape);
                        return Self::Blurred { samples, columns: blurred.columns, rows: blurred.rows };
                    }
                    None => behind,
                }
            }
            (Background::Color(color), ..)
            | (Background::Picture { behind: color, .. } | Background::Blurred { behind: color, .. }, ..) => color,
            (Background::Clear | Background::EdgeColor, ..) => Color::TRANSPARENT,
        };
        Self::Color(if color.0[3] == 0 { Color::TRANSPARENT } else { color })
    }

    pub(super) const fn is_clear(&self) -> bool {
        matches!(self, Self::Color(Color([.., 0])))
    }

    pub(super) fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Color(_) => 0,
            Self::Picture { picture, .. } => picture.pixels().len(),
            Self::Blurred { samples, .. } => samples.as_bytes().len(),
        };
        bytes as u64
    }

    /// Uploads the background: its pixels on a canvas of `size`, u32 `[H, W]`, or `[1, 1]` for one colour.
    pub(super) fn on(self, size: Size, device: &Device) -> Plane {
        match self {
            Self::Color(Color(color)) => constant(u32::from_le_bytes(color), device),
            Self::Picture { picture, fit, behind: Color(behind) } => {
                let (part, place) = fitted(picture.size(), fit, size);
                let picture = on_canvas(part_of(picture.uploaded(device), part, place.size()), place, size);
                beneath(picture, None, constant(u32::from_le_bytes(behind), device))
            }
            Self::Blurred { samples, columns, rows } => bilinear(Tensor::from_data(samples, device), columns, rows),
        }
    }
}

/// Composites `canvas` in linear light over a black `shade` (f32 `[H, W]`) and `background` (u32 `[H, W]` or `[1, 1]`).
pub(super) fn beneath(canvas: Plane, shade: Option<Tensor<2>>, background: Plane) -> Plane {
    let device = canvas.device();
    let shade = shade.unwrap_or_else(|| Tensor::zeros([1, 1], &device));
    dst_over(canvas, constant(0, &device), shade, background, Paint { stroke: [0; 3], shadow: [0; 3], opacity: 1.0 })
}
