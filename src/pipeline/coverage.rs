//! Where the subject's coverage comes from (the network's mask, or the source's own alpha channel), and the cutout made by it.

use super::call::Call;
use super::segment::{Segmentation, segment};
use super::workers::Workers;
use crate::compose::SUBJECT_ALPHA;
use crate::engine::EngineError;
use crate::face::{share_of_alpha, share_of_mask};
use crate::image::{Cutout, Face, Frame, RawMask, Rect, Subject};
use crate::matting::{self, NoSubject};
use crate::recipe::{Cut, Picture};
use std::time::Duration;

/// The source of a subject's coverage.
pub(super) enum Coverage {
    /// The network's mask.
    Mask(RawMask),
    /// The alpha channel of the picture itself, which is cut out already.
    OwnAlpha,
}

/// A picture and the source of its subject's coverage.
pub(super) struct Found {
    pub(super) frame: Frame,
    pub(super) coverage: Coverage,
    /// How uncertain the mask is, 0 to 1; 0 for a picture's own alpha.
    pub(super) uncertainty: f32,
    /// How long the network took.
    pub(super) took: Duration,
}

/// Segments `frame`, unless its own alpha is its matte.
pub(super) async fn find(
    workers: &Workers<'_>,
    frame: Frame,
    own_alpha: bool,
    cut: &Cut,
    call: &Call,
) -> Result<Found, EngineError> {
    if own_alpha {
        return Ok(Found { frame, coverage: Coverage::OwnAlpha, uncertainty: 0.0, took: Duration::ZERO });
    }
    let Segmentation { frame, mask, uncertainty, took } =
        segment(workers.engine, workers.slot, frame, cut, call).await?;
    Ok(Found { frame, coverage: Coverage::Mask(mask), uncertainty, took })
}

impl Coverage {
    /// How much of a face's box in `frame` the subject fills, 0 to 1.
    pub(super) fn share_of(&self, frame: &Frame, face: &Face) -> f32 {
        match self {
            Self::Mask(mask) => share_of_mask(mask, face, frame.size()),
            Self::OwnAlpha => share_of_alpha(frame, face),
        }
    }

    /// What is composed of `frame`, and the bounds of the subject in it.
    pub(super) fn subject(
        &self,
        frame: Frame,
        picture: Picture,
        options: &matting::Options,
    ) -> Result<(Subject, Rect), NoSubject> {
        let (subject, bounds) = match (self, picture) {
            (Self::OwnAlpha, _) => cutout(matting::from_own_alpha(frame)?),
            (Self::Mask(mask), Picture::Cutout | Picture::Classified | Picture::Portrait(_)) => {
                cutout(matting::cut_out(frame, mask, options)?)
            }
            (Self::Mask(mask), Picture::Source) => {
                let bounds = matting::subject_bounds(&frame, mask, options)?;
                (Subject::Source(frame), Some(bounds))
            }
        };
        Ok((subject, bounds.ok_or(NoSubject)?))
    }
}

fn cutout(cutout: Cutout) -> (Subject, Option<Rect>) {
    let bounds = cutout.frame().covered(SUBJECT_ALPHA);
    (Subject::Cutout(cutout), bounds)
}
