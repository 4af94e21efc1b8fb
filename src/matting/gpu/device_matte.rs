//! The matte of a clip's frame on a GPU.

use crate::image::{AlphaMatte, DeviceSession, Size};
use crate::matting::clean::CleanMask;
use backdrop_kernels::device::{Plane, download};
use std::fmt;
use std::sync::Arc;

/// Coverage on a device, before traces of it and specks are removed. Clones share it.
#[derive(Clone)]
pub struct DeviceMatte(Arc<Inner>);

struct Inner {
    alpha: Plane,
    session: DeviceSession,
    mask: CleanMask,
}

impl DeviceMatte {
    /// `alpha` (u32 `[H, W]`, 0..=255) on the device of `session`, which was solved from `mask`.
    pub(super) fn new(alpha: Plane, session: DeviceSession, mask: CleanMask) -> Self {
        Self(Arc::new(Inner { alpha, session, mask }))
    }

    pub(super) fn alpha(&self) -> Plane {
        self.0.alpha.clone()
    }

    /// What it was solved from: the CPU's matte, should the device fail.
    pub(super) fn mask(&self) -> &CleanMask {
        &self.0.mask
    }

    /// The GPU that it is on.
    #[must_use]
    pub fn session(&self) -> &DeviceSession {
        &self.0.session
    }

    /// The coverage on the host.
    ///
    /// # Errors
    /// Why the device failed.
    pub fn downloaded(&self) -> Result<AlphaMatte, String> {
        let alpha = self.alpha();
        let [height, width] = alpha.dims();
        let data = self.session().call(move || download(alpha)).map_err(|error| error.to_string())??;
        let words = data.try_into_vec::<u32>().map_err(|error| error.to_string())?;
        let coverage: Vec<u8> = words.into_iter().map(|word| word as u8).collect();
        Ok(AlphaMatte::new(Size::new(width as u32, height as u32), coverage))
    }
}

impl fmt::Debug for DeviceMatte {
    /// Without the coverage, which would be downloaded for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMatte({:?})", self.0.alpha.dims())
    }
}
