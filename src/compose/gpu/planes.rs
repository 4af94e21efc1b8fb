//! Parts of pictures on a device, and their rectangles on a canvas.

use crate::image::{Rect, Size};
use backdrop_kernels::device::{Plane, placed};
use backdrop_kernels::resample::{Part, gpu::resample};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// A plane of one word, u32 `[1, 1]`.
pub(super) fn constant(word: u32, device: &Device) -> Plane {
    Tensor::from_data(TensorData::new(vec![word], [1, 1]), (device, DType::U32))
}

/// `part` of `picture`, resampled to `size`. At scale 1 pixels are copied: a filter would blur them.
pub(super) fn part_of(picture: Plane, part: Part, size: Size) -> Plane {
    let Size { width, height } = size;
    if part.width == f64::from(width) && part.height == f64::from(height) {
        picture.slice(Rect { left: part.left as u32, top: part.top as u32, width, height }.ranges())
    } else {
        resample(picture, part, height as usize, width as usize)
    }
}

/// `picture` at `place` of a transparent canvas of `size`.
pub(super) fn on_canvas(picture: Plane, place: Rect, size: Size) -> Plane {
    if place == Rect::whole(size) {
        return picture;
    }
    placed(picture, place.ranges(), [size.height as usize, size.width as usize])
}
