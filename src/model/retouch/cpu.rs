//! The auxiliary networks on the CPU kernels, each loaded on first use.

use std::sync::OnceLock;

use backdrop_kernels::conv::Isa;

use super::{FaceCrop, Retoucher};
use crate::image::{Face, Frame};
use crate::model::face::{self, CpuFaceDetector, FaceSearch};
use crate::model::restore_cpu::CpuRestorer;
use crate::model::upscale::{self, CpuUpscaler};
use crate::model::weights::{BuiltIn, Weights, WeightsError};
use crate::model::{Enlargement, Factor, SegmentError};

/// The embedded auxiliary networks on the CPU, each unpacked on first use. Results do not depend on concurrent work.
#[derive(Debug)]
pub struct CpuRetoucher {
    isa: Isa,
    face: OnceLock<CpuFaceDetector>,
    restore: OnceLock<CpuRestorer>,
    upscale: [OnceLock<CpuUpscaler>; 2],
}

impl Default for CpuRetoucher {
    /// Uses the fastest instruction set of this machine.
    fn default() -> Self {
        Self::new(Isa::detect())
    }
}

impl CpuRetoucher {
    /// Uses `isa`, which this machine must have when a network is first used.
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

    pub(super) fn face(&self) -> &CpuFaceDetector {
        self.unpacked(&self.face, BuiltIn::Face, CpuFaceDetector::new)
    }

    pub(super) fn restore(&self) -> &CpuRestorer {
        self.unpacked(&self.restore, BuiltIn::Restore, CpuRestorer::new)
    }

    pub(super) fn upscale(&self, by: Factor) -> &CpuUpscaler {
        let [two, four] = &self.upscale;
        let slot = match by {
            Factor::Two => two,
            Factor::Four => four,
        };
        self.unpacked(slot, BuiltIn::Upscale(by), CpuUpscaler::new)
    }
}

impl Retoucher for CpuRetoucher {
    fn faces(&self, frame: &Frame, search: FaceSearch) -> Result<Vec<Face>, SegmentError> {
        face::detect(frame, self.face(), search)
    }

    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        face.check()?;
        Ok(FaceCrop(self.restore().run(&face.0)))
    }

    fn enlarge_band(&self, picture: &mut Enlargement) -> Result<(), SegmentError> {
        upscale::enlarge_band(picture, self.upscale(picture.factor()))
    }
}
