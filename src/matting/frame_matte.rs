//! The matte of a clip's frame, on the host or on the device that has a copy of the frame.

#[cfg(feature = "gpu")]
use super::gpu::device_matte::DeviceMatte;
use crate::image::{AlphaMatte, Size};

/// Coverage of each pixel of a frame by the subject.
#[derive(Clone, Debug)]
pub enum FrameMatte {
    /// On the host.
    Host(AlphaMatte),
    /// On the device; traces of coverage and specks are removed when the frame is cut out.
    #[cfg(feature = "gpu")]
    Device(DeviceMatte),
}

impl FrameMatte {
    /// The matte on the host.
    ///
    /// # Errors
    /// The device's failure.
    pub fn downloaded(&self) -> Result<AlphaMatte, String> {
        match self {
            Self::Host(matte) => Ok(matte.clone()),
            #[cfg(feature = "gpu")]
            Self::Device(matte) => matte.downloaded(),
        }
    }
}

/// A clip's previous frame, and the motion from the current one back to it.
#[derive(Clone, Copy, Debug)]
pub struct PreviousFrame<'a> {
    /// Its matte before traces of coverage and specks were removed.
    pub unfiltered: &'a FrameMatte,
    /// Columns and rows of the motion's grid.
    pub grid: Size,
    /// Motion to the right and down, in cells of the grid, row after row.
    pub flow: [&'a [f32]; 2],
    /// Weight of the previous matte in the current one, 0 to 1, row after row.
    pub share: &'a [f32],
}
