//! The retoucher on the CPU kernels.

use std::sync::OnceLock;

use backdrop_kernels::conv::Isa;

use super::{FaceCrop, Factor, Retoucher};
use crate::image::{Face, Frame};
use crate::model::SegmentError;
use crate::model::face::{self, FaceNet};
use crate::model::restore::RestoreNet;
use crate::model::upscale::{self, UpscaleNet};
use crate::model::weights::{BuiltIn, Weights, WeightsError};

/// The networks that are part of the binary, on the CPU kernels; each is unpacked when it is first needed.
///
/// What they give depends neither on the number of threads nor on what else is going on.
#[derive(Debug)]
pub struct CpuRetoucher {
    isa: Isa,
    face: OnceLock<FaceNet>,
    restore: OnceLock<RestoreNet>,
    upscale: [OnceLock<UpscaleNet>; 2],
}

impl Default for CpuRetoucher {
    /// On the fastest instruction set that this machine has.
    fn default() -> Self {
        Self::new(Isa::detect())
    }
}

impl CpuRetoucher {
    /// On `isa`, which this machine must have by the time a network is used.
    #[must_use]
    pub const fn new(isa: Isa) -> Self {
        let upscale = [OnceLock::new(), OnceLock::new()];
        Self { isa, face: OnceLock::new(), restore: OnceLock::new(), upscale }
    }

    fn unpacked<'a, N>(
        &self,
        slot: &'a OnceLock<N>,
        which: BuiltIn,
        pack: impl FnOnce(&Weights, Isa) -> Result<N, WeightsError>,
    ) -> &'a N {
        slot.get_or_init(|| {
            pack(&Weights::built_in(which), self.isa).expect("weights were checked when they were read")
        })
    }

    pub(super) fn face(&self) -> &FaceNet {
        self.unpacked(&self.face, BuiltIn::Face, FaceNet::new)
    }

    pub(super) fn restore(&self) -> &RestoreNet {
        self.unpacked(&self.restore, BuiltIn::Restore, RestoreNet::new)
    }

    pub(super) fn upscale(&self, by: Factor) -> &UpscaleNet {
        let [two, four] = &self.upscale;
        let slot = match by {
            Factor::Two => two,
            Factor::Four => four,
        };
        self.unpacked(slot, BuiltIn::Upscale(by), UpscaleNet::new)
    }
}

impl Retoucher for CpuRetoucher {
    fn faces(&self, frame: &Frame) -> Result<Vec<Face>, SegmentError> {
        face::find(frame, self.face())
    }

    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        face.check()?;
        Ok(FaceCrop(self.restore().run(&face.0)))
    }

    fn enlarged(&self, frame: &Frame, by: Factor) -> Result<Frame, SegmentError> {
        upscale::enlarged(frame, self.upscale(by))
    }
}
