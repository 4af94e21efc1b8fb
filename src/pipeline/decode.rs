//! Decodes the input files, reads the caller's mask, keeps a reduced copy of the source for a blurred background, and
//! flattens transparent sources onto white.

use super::error::PipelineError;
use super::given_mask::Given;
use super::per_file::PerFile;
use super::probe::Probed;
use crate::compose::{self, Materials, Scene};
use crate::image::{BufferPool, Frame};
use crate::recipe::{Cut, Located, MASK_FILE, MaskSource, RequiredInputs};

/// The decoded source, the origin of its subject's coverage, and the materials of its scene.
pub(super) struct Decoded {
    pub(super) frame: Frame,
    pub(super) given: Given,
    pub(super) materials: Materials,
}

/// Decodes `probed` for `scene`. A source that is already a cutout keeps its alpha if `cut` says so.
pub(super) fn decoded(
    probed: Probed,
    buffers: &BufferPool,
    scene: &Scene,
    (cut, located, inputs): (&Cut, &Located, &RequiredInputs),
) -> Result<Decoded, PipelineError> {
    let PerFile { source: mut frame, background, mark, mask } = probed.decoded(buffers)?;
    let transparent = frame.has_transparency();
    let own_alpha = transparent && cut.keep_alpha && !cut.guidance.overrides_alpha() && frame.is_cut_out();
    let given = if own_alpha {
        Given::OwnAlpha
    } else {
        let param = inputs.mask.as_ref().map_or(MASK_FILE, MaskSource::param);
        Given::of(mask.as_ref().zip(cut.guidance.mask), located, param)?
    };
    let plate = scene.plate(&frame);
    if transparent && !own_alpha {
        // Cleaning and matting must see the colours of the network's input, not the colours under transparent pixels.
        compose::flatten_onto_white(&mut frame);
    }
    Ok(Decoded { frame, given, materials: Materials { background, plate, mark } })
}
