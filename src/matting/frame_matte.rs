//! The matte of a clip's frame, on the host or on the device that has the frame.

#[cfg(feature = "gpu")]
use super::gpu::device_matte::DeviceMatte;
use crate::image::{AlphaMatte, Size};

/// How much of each pixel of a frame the subject covers.
#[derive(Clone, Debug)]
pub enum FrameMatte {
    /// On the host.
    Host(AlphaMatte),
    /// On the device that has the frame; traces of coverage and specks are removed when the frame is cut out.
    #[cfg(feature = "gpu")]
    Device(DeviceMatte),
}

impl FrameMatte {
    /// The matte on the host.
    ///
    /// # Errors
    /// Why the device failed.
    pub fn downloaded(&self) -> Result<AlphaMatte, String> {
        match self {
            Self::Host(matte) => Ok(matte.clone()),
            #[cfg(feature = "gpu")]
            Self::Device(matte) => matte.downloaded(),
        }
    }
}

/// The frame before, and the motion from the current one back to it.
#[derive(Clone, Copy, Debug)]
pub struct PreviousFrame<'a> {
    /// Its matte before traces of coverage and specks were removed.
    pub unfiltered: &'a FrameMatte,
    /// Columns and rows of the grid on which the motion is known.
    pub grid: Size,
    /// Motion to the right and down, in cells of the grid, row after row.
    pub flow: [&'a [f32]; 2],
    /// Its weight in the current matte, 0 to 1, row after row.
    pub share: &'a [f32],
}
