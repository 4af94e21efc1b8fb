//! A copy of a picture's pixels in the memory of a GPU, and what has crossed the border between host and device for it.

use super::{DeviceSession, Size, TransferCounter, Transferred};
use backdrop_kernels::device::upload;
use burn::tensor::{Int, Tensor};
use std::fmt;
use std::sync::Arc;

/// Packed RGBA8 on a device, one u32 a pixel. Clones share it.
#[derive(Clone)]
pub struct DeviceCopy(Arc<Inner>);

struct Inner {
    words: Tensor<2, Int>,
    session: DeviceSession,
    counter: Arc<TransferCounter>,
}

impl DeviceCopy {
    /// Uploads `pixels`, packed RGBA8 of a picture of `size`, to the device of `session`.
    ///
    /// # Panics
    /// When `pixels` is not four bytes a pixel.
    #[must_use]
    pub fn of(pixels: &[u8], size: Size, session: &DeviceSession) -> Self {
        let words = upload(pixels, size.width as usize, size.height as usize, session.device());
        let session = session.clone();
        let copy = Self(Arc::new(Inner { words, session, counter: Arc::default() }));
        copy.count(Transferred { up: pixels.len() as u64, down: 0 });
        copy
    }

    /// The GPU that it is on.
    #[must_use]
    pub fn session(&self) -> &DeviceSession {
        &self.0.session
    }

    /// The pixels, u32 `[H, W]`.
    #[must_use]
    pub fn words(&self) -> Tensor<2, Int> {
        self.0.words.clone()
    }

    /// Adds what else was moved for this picture, and reports it.
    pub fn count(&self, more: Transferred) {
        self.0.counter.add(more);
        self.0.session.report(more.up, more.down);
    }

    /// What has been moved for this picture so far, its upload included.
    #[must_use]
    pub fn transferred(&self) -> Transferred {
        self.0.counter.total()
    }

    /// What counts it, without the pixels.
    #[must_use]
    pub fn counter(&self) -> Arc<TransferCounter> {
        Arc::clone(&self.0.counter)
    }
}

impl fmt::Debug for DeviceCopy {
    /// Without the pixels, which would be downloaded for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceCopy({:?})", self.0.words.dims())
    }
}
