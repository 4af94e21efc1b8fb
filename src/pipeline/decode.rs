//! Decodes the input files, keeps a reduced copy of the source for a blurred background, and flattens transparent sources onto white.

use super::error::PipelineError;
use super::probe::Probed;
use crate::compose::{self, Materials, Scene};
use crate::image::{BufferPool, Frame};
use crate::recipe::Picture;

/// The decoded source and the materials of its scene.
pub(super) struct Decoded {
    pub(super) frame: Frame,
    /// Whether the source's own alpha channel is its matte.
    pub(super) own_alpha: bool,
    pub(super) materials: Materials,
}

/// Decodes `probed` for `scene`. A transparent source keeps its own alpha where `keep_alpha` says so.
pub(super) fn decoded(
    probed: Probed,
    buffers: &BufferPool,
    scene: &Scene,
    keep_alpha: bool,
    picture: Picture,
) -> Result<Decoded, PipelineError> {
    let (mut frame, materials) = probed.decoded(buffers)?;
    let transparent = frame.has_transparency();
    let own_alpha = keep_alpha && transparent;
    let plate = scene.plate(&frame);
    if transparent && !own_alpha && picture != Picture::Source {
        // Matting has to use the colours that the network's input has, and not those under transparent pixels.
        compose::flatten_onto_white(&mut frame);
    }
    Ok(Decoded { frame, own_alpha, materials: Materials { plate, ..materials } })
}
