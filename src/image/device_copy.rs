//! A copy of a picture's pixels in GPU memory, and the count of bytes transferred for it.

use super::{Buffer, DeviceSession, Size, TransferCounter, Transferred};
use backdrop_kernels::device::{Plane, upload_shared};
use burn::tensor::{AllocationProperty, Bytes, Device};
use std::fmt;
use std::sync::Arc;

/// Packed RGBA8 on a device, one u32 a pixel. Clones share it.
#[derive(Clone)]
pub struct DeviceCopy(Arc<Inner>);

struct Inner {
    words: Plane,
    session: DeviceSession,
    counter: Arc<TransferCounter>,
}

impl DeviceCopy {
    /// Uploads `pixels` to the device of `session`, and counts the transfer.
    pub(super) fn of(size: Size, pixels: Arc<Buffer>, session: &DeviceSession) -> Self {
        let up = pixels.len() as u64;
        let words = upload(size, pixels, session.device());
        let copy = Self(Arc::new(Inner { words, session: session.clone(), counter: Arc::default() }));
        copy.count(Transferred { up, down: 0 });
        copy
    }

    /// The session of the GPU that holds the copy.
    #[must_use]
    pub fn session(&self) -> &DeviceSession {
        &self.0.session
    }

    /// The pixels, u32 `[H, W]`.
    #[must_use]
    pub fn words(&self) -> Plane {
        self.0.words.clone()
    }

    /// Adds further transfers for this picture, and reports them.
    pub fn count(&self, more: Transferred) {
        self.0.counter.add(more);
        self.0.session.report(more.up, more.down);
    }

    /// All transfers for this picture so far, including the upload.
    #[must_use]
    pub fn transferred(&self) -> Transferred {
        self.0.counter.total()
    }

    /// The counter of transfers, without the pixels.
    #[must_use]
    pub fn counter(&self) -> Arc<TransferCounter> {
        Arc::clone(&self.0.counter)
    }
}

impl fmt::Debug for DeviceCopy {
    /// Omits the pixels, which would have to be downloaded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceCopy({:?})", self.0.words.dims())
    }
}

/// Pixels shared by a frame and its upload.
struct SharedPixels(Arc<Buffer>);

impl AsRef<[u8]> for SharedPixels {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Uploads `pixels` to `device` without a copy on the host: u32 `[H, W]`.
pub(super) fn upload(size: Size, pixels: Arc<Buffer>, device: &Device) -> Plane {
    let pixels = Bytes::from_shared(bytes::Bytes::from_owner(SharedPixels(pixels)), AllocationProperty::Other);
    upload_shared(pixels, size.width as usize, size.height as usize, device)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::image::shared_memory::ReceivedMemory;
    use crate::image::{BufferPool, Frame};

    const SIZE: Size = Size::new(3, 2);

    fn frame(pool: &BufferPool) -> Frame {
        let mut pixels = pool.take(SIZE.area() * 4);
        pixels.fill(7);
        Frame::new(SIZE, pixels)
    }

    /// A frame in another process's memory, as received from a decode worker.
    #[cfg(target_os = "linux")]
    fn received(pool: &BufferPool) -> Frame {
        let memory = frame(&BufferPool::in_shared_memory()).into_pixels().into_shared().expect("shared");
        let memory = ReceivedMemory::seal(&memory.into_descriptor(), SIZE.area() * 4).unwrap();
        Frame::new(SIZE, pool.received(memory))
    }

    // On a host device, uploaded memory becomes the tensor's memory.
    #[test]
    fn pixels_are_uploaded_from_the_memory_of_their_frame() {
        let pool = BufferPool::new(1 << 20);
        let frames = [
            frame(&pool),
            #[cfg(target_os = "linux")]
            received(&pool),
        ];
        for frame in frames {
            let data = frame.uploaded(&Device::flex()).into_data();
            assert_eq!(data.bytes().as_ptr(), frame.pixels().as_ptr());
            assert!(data.bytes().iter().all(|&byte| byte == 7));
            drop(data);
            assert_eq!(frame.into_pixels().len(), SIZE.area() * 4);
        }
        assert_eq!(pool.lent_bytes(), SIZE.area() as u64 * 4, "pixels were copied");
    }

    #[test]
    fn a_frame_that_changes_does_not_change_its_upload() {
        let pool = BufferPool::new(1 << 20);
        let mut frame = frame(&pool);
        let words = frame.uploaded(&Device::flex());
        frame.pixels_mut()[0] = 200;
        assert_eq!((frame.pixels()[0], frame.pixels()[1]), (200, 7));
        assert!(words.into_data().bytes().iter().all(|&byte| byte == 7));
        drop(frame);
        assert_eq!(pool.kept_bytes(), 2 * SIZE.area() * 4, "both buffers return to the pool");
    }
}
