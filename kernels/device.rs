//! Helpers of the GPU twins: launch grids, and tensors created on, uploaded to and read from a device.
//!
//! A GPU twin is a function of burn tensors on a GPU. It launches its kernels on their memory.

use burn::backend::TensorMetadata;
use burn::tensor::kind::Basic;
use burn::tensor::{BackendPrimitive, Bytes, DType, Device, Element, Int, Shape, Tensor, TensorData};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;
use std::ops::Range;

/// A plane of words on a device: a picture, labels or coverage, u32 `[H, W]`.
pub type Plane = Tensor<2, Int>;

/// Work items of a cube along x and y: 256 in all, the most that every adapter grants.
const CUBE_SIDE: u32 = 16;

/// The launch grid of `width` × `height` work items, in two dimensions: 4096 × 4096 items in one dimension would need
/// more than the 65 535 cubes that every adapter grants.
pub(crate) fn launch_grid(width: usize, height: usize) -> (CubeCount, CubeDim) {
    let cubes = |items: usize| u32::try_from(items).expect("pictures fit in 32 bits").div_ceil(CUBE_SIDE);
    (CubeCount::Static(cubes(width), cubes(height), 1), CubeDim::new_2d(CUBE_SIDE, CUBE_SIDE))
}

/// The memory of `tensor`, contiguous.
///
/// # Panics
/// When the tensor is not on a GPU.
pub(crate) fn buffer_of<const D: usize, K>(tensor: Tensor<D, K>) -> CubeTensor
where
    K: Basic + BackendPrimitive<CubeBackend, Primitive = CubeTensor>,
{
    into_contiguous(tensor.try_into_primitive::<CubeBackend>().expect("kernels run on a GPU"))
}

/// The tensor in `buffer`.
pub(crate) fn tensor_of<const D: usize, K>(buffer: CubeTensor) -> Tensor<D, K>
where
    K: Basic + BackendPrimitive<CubeBackend, Primitive = CubeTensor>,
{
    Tensor::from_primitive::<CubeBackend>(buffer)
}

/// An uninitialised tensor on the device of `like`.
pub(crate) fn empty_like(like: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape.into(), dtype)
}

/// A table computed on the host, uploaded to the device of `like`.
pub(crate) fn upload_table<E: Element + CubeElement>(like: &CubeTensor, values: &[E]) -> CubeTensor {
    let handle = like.client.create_from_slice(E::as_bytes(values));
    CubeTensor::new_contiguous(
        like.client.clone(),
        like.device.clone(),
        Shape::new([values.len()]),
        handle,
        <E as Element>::dtype(),
    )
}

/// A length as a kernel's scalar argument.
pub(crate) fn scalar(value: usize) -> u32 {
    u32::try_from(value).expect("pictures fit in 32 bits")
}

/// Step from pixel to pixel: 1, or 0 for a plane of a single value.
pub(crate) fn step(plane: &CubeTensor) -> u32 {
    u32::from(plane.shape().num_elements() > 1)
}

/// Zeros of `shape` (`[H, W]`) with `part` at the rows and columns `place`, on its device.
///
/// # Panics
/// When `place` has not the part's size, or reaches beyond the plane.
#[must_use]
pub fn placed(part: Plane, place: [Range<usize>; 2], shape: [usize; 2]) -> Plane {
    Plane::zeros(shape, (&part.device(), DType::U32)).slice_assign(place, part)
}

/// Uploads packed RGBA8 to `device` as `[H, W]`, one `u32` a pixel. Nothing is copied before the driver takes the
/// pixels; `pixels` lives until then. On the host `pixels` itself is the tensor's memory, and must be aligned as `u32`.
///
/// # Panics
/// When `pixels` has not four bytes a pixel.
#[must_use]
pub fn upload_shared(pixels: Bytes, width: usize, height: usize, device: &Device) -> Plane {
    Tensor::from_data(TensorData::from_bytes(pixels, [height, width], DType::U32), (device, DType::U32))
}

/// The values of `tensor` on the host. burn would copy them at the first access, which panics after a failure of the
/// device and waits while it hangs: here the copy is complete on return.
///
/// # Errors
/// The device's failure.
pub fn download<const D: usize, K: Basic>(tensor: Tensor<D, K>) -> Result<TensorData, String> {
    let data = tensor.try_into_data().map_err(|error| error.to_string())?;
    data.bytes().read(Default::default()).map_err(|error| error.to_string())?;
    Ok(data)
}
