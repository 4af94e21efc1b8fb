//! Helpers of the GPU twins: launch grids, and tensors created on, uploaded to and read from a device.
//!
//! A kernel is an operation on burn tensors. The tensor's device picks the twin: `#[cube]` for data on a GPU, plain
//! Rust for data on the host. Neither twin copies data from the other side.

use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::kind::Basic;
use burn::tensor::{Bytes, DType, Device, Element, Int, Shape, Tensor, TensorData, read_sync};
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

/// The values of a tensor on the host.
pub(crate) fn host_floats(tensor: FloatTensor<Flex>) -> Vec<f32> {
    let data = read_sync(Flex::float_into_data(tensor)).expect("host memory can be read");
    data.try_into_vec().expect("kernels work on f32")
}

/// The packed words of a tensor on the host.
pub(crate) fn host_words(tensor: IntTensor<Flex>) -> Vec<u32> {
    let data = read_sync(Flex::int_into_data(tensor)).expect("host memory can be read");
    data.try_into_vec().expect("packed pictures are u32")
}

/// The bytes that `words` hold one each: labels or coverage.
pub(crate) fn host_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().map(|&word| u8::try_from(word).expect("labels and coverage are bytes")).collect()
}

/// The bytes of packed words.
pub(crate) fn bytes_of_words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The words of packed bytes.
pub(crate) fn words_of_bytes(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

/// A plane, or its single value repeated for every pixel.
pub(crate) fn everywhere<T: Copy>(plane: Vec<T>, pixels: usize) -> Vec<T> {
    match plane[..] {
        [value] => vec![value; pixels],
        _ => plane,
    }
}

/// Step from pixel to pixel: 1, or 0 for a plane of a single value.
pub(crate) fn step(plane: &CubeTensor) -> u32 {
    u32::from(plane.shape().num_elements() > 1)
}

/// A host tensor of `values`.
pub(crate) fn host_tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FloatTensor<Flex> {
    Flex::float_from_data(TensorData::new(values, shape), &Default::default())
}

/// A host tensor of packed `words`.
pub(crate) fn host_int_tensor(words: Vec<u32>, shape: impl Into<Shape>) -> IntTensor<Flex> {
    Flex::int_from_data(TensorData::new(words, shape), &Default::default())
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
