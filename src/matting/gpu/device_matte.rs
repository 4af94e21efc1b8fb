//! The matte of a clip's frame on a GPU.

use crate::image::{AlphaMatte, DeviceSession, Size};
use crate::matting::clean::CleanMask;
use backdrop_kernels::device::{Plane, download};
use std::fmt;
use std::sync::Arc;

/// Coverage on a device, before traces of coverage and specks are removed. Clones share it.
#[derive(Clone)]
pub struct DeviceMatte(Arc<Inner>);

struct Inner {
    alpha: Plane,
    session: DeviceSession,
    mask: CleanMask,
}

impl DeviceMatte {
    /// `alpha` (u32 `[H, W]`, 0..=255) on the device of `session`, solved from `mask`.
    pub(super) fn new(alpha: Plane, session: DeviceSession, mask: CleanMask) -> Self {
        Self(Arc::new(Inner { alpha, session, mask }))
    }

    pub(super) fn alpha(&self) -> Plane {
        self.0.alpha.clone()
    }

    /// The mask from which it was solved; the CPU mattes by it when the device fails.
    pub(super) fn mask(&self) -> &CleanMask {
        &self.0.mask
    }

    /// The session of its GPU.
    #[must_use]
    pub fn session(&self) -> &DeviceSession {
        &self.0.session
    }

    /// The coverage on the host.
    ///
    /// # Errors
    /// The device's failure.
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
    /// Omits the coverage, which would have to be downloaded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMatte({:?})", self.0.alpha.dims())
    }
}
