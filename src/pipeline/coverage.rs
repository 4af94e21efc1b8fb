//! Finds the source of the subject's coverage (the network's mask, the caller's mask or trimap, or the source's alpha
//! channel) and cuts the subject out by it.

use super::call::Call;
use super::given_mask::Given;
use super::segment::{Segmentation, segment};
use super::warning::Warning;
use super::window;
use super::workers::Workers;
use crate::compose::SUBJECT_ALPHA;
use crate::engine::EngineError;
use crate::face::{share_of_alpha, share_of_coverage, share_of_mask};
use crate::image::{
    AlphaMatte, BufferPool, Cutout, EdgeKinds, Face, Frame, RawMask, Rect, Subject, TransferCounter, Trimap,
};
use crate::matting::{self, Guide, NoSubject, Options, Seeds};
use crate::recipe::{Cut, Picture};
use std::sync::Arc;
use std::time::Duration;

/// Probability of a bad cutout above which there is a warning.
const UNCERTAIN: f32 = 0.5;

/// Cuts the subject out of a frame by a guide.
pub(super) type CutOut<'a> = &'a dyn Fn(Frame, Guide<'_>, &Options) -> Result<Cutout, NoSubject>;

pub(super) enum Coverage {
    Network {
        /// Mask of the window.
        mask: RawMask,
        /// With a high-recall mask: the standard mask.
        standard: Option<RawMask>,
        /// The caller's marks in the window.
        seeds: Arc<Seeds>,
        /// The segmented part of the picture: the whole picture, unless the caller gave a box.
        window: Rect,
        /// The pixels of the window, with their copy on a device; `None` if the window is the whole picture.
        crop: Option<Frame>,
    },
    Mask(AlphaMatte),
    Trimap(Trimap),
    /// The alpha channel of the picture, which is already a cutout.
    OwnAlpha,
}

/// A picture and the source of its subject's coverage.
pub(super) struct Found {
    pub(super) frame: Frame,
    pub(super) coverage: Coverage,
    /// Uncertainty of the mask, 0 to 1; 0 without the network.
    pub(super) uncertainty: f32,
    /// Time of the network.
    pub(super) took: Duration,
}

/// Segments `frame` or its part in `window`, unless `given` replaces the network.
pub(super) async fn find(
    workers: &Workers<'_>,
    frame: Frame,
    given: Given,
    window: Rect,
    cut: &Cut,
    call: &Call,
) -> Result<Found, EngineError> {
    let without_network = |frame, coverage| Found { frame, coverage, uncertainty: 0.0, took: Duration::ZERO };
    let seeds = match given {
        Given::OwnAlpha => return Ok(without_network(frame, Coverage::OwnAlpha)),
        Given::Mask(mask) => return Ok(without_network(frame, Coverage::Mask(mask))),
        Given::Trimap(trimap) => return Ok(without_network(frame, Coverage::Trimap(trimap))),
        Given::Marks(seeds) => seeds,
    };
    let Workers { engine, slot } = *workers;
    if window == Rect::whole(frame.size()) {
        let seeds = Arc::new(seeds);
        let Segmentation { frame, mask, standard, uncertainty, took } =
            segment(engine, slot, frame, cut, &seeds, call).await?;
        let coverage = Coverage::Network { mask, standard, seeds, window, crop: None };
        return Ok(Found { frame, coverage, uncertainty, took });
    }
    let buffers = engine.buffers().clone();
    let crop = move || {
        let crop = window::cropped(&frame, window, &buffers);
        (frame, crop, Arc::new(window::seeds_within(seeds, window)))
    };
    let ((frame, crop, seeds), cropping) = workers.run("crop", crop).await?;
    let Segmentation { frame: crop, mask, standard, uncertainty, took } =
        segment(engine, slot, crop, cut, &seeds, call).await?;
    let coverage = Coverage::Network { mask, standard, seeds, window, crop: Some(crop) };
    Ok(Found { frame, coverage, uncertainty, took: cropping + took })
}

impl Coverage {
    /// The warning for a cutout by this coverage with this uncertainty.
    pub(super) fn warning(&self, uncertainty: f32) -> Option<Warning> {
        match self {
            Self::OwnAlpha => Some(Warning::OwnAlphaKept),
            Self::Network { .. } => (uncertainty > UNCERTAIN).then_some(Warning::UncertainMask(uncertainty)),
            Self::Mask(_) | Self::Trimap(_) => None,
        }
    }

    /// Kinds of the subject's outline; `None` if the network did not classify it.
    pub(super) fn outline(&self) -> Option<EdgeKinds> {
        match self {
            Self::Network { mask, .. } => mask.edge(),
            Self::Mask(_) | Self::Trimap(_) | Self::OwnAlpha => None,
        }
    }

    /// Copies the caller's box again from `frame` after its pixels have changed.
    pub(super) fn copy_window_of(&mut self, frame: &Frame, buffers: &BufferPool) {
        if let Self::Network { window, crop: Some(crop), .. } = self {
            *crop = window::cropped(frame, *window, buffers);
        }
    }

    /// Share of a face's box in `frame` that the subject fills, 0 to 1.
    pub(super) fn share_of(&self, frame: &Frame, face: &Face) -> f32 {
        match self {
            Self::Network { mask, window, .. } => {
                share_of_mask(mask, &window::face_within(face, *window), window.size())
            }
            Self::Mask(mask) => share_of_coverage(mask.coverage(), mask.size(), face),
            Self::Trimap(trimap) => share_of_coverage(trimap.labels(), trimap.size(), face),
            Self::OwnAlpha => share_of_alpha(frame, face),
        }
    }

    /// The matted part of `frame`: the window, or the whole frame.
    pub(super) fn matted<'a>(&'a self, frame: &'a Frame) -> &'a Frame {
        match self {
            Self::Network { crop: Some(crop), .. } => crop,
            Self::Network { .. } | Self::Mask(_) | Self::Trimap(_) | Self::OwnAlpha => frame,
        }
    }

    /// The counter of GPU transfers of the matted part of `frame`.
    pub(super) fn transfer_counter(&self, frame: &Frame) -> Option<Arc<TransferCounter>> {
        self.matted(frame).transfer_counter()
    }

    /// The input of composing made from `frame` with `cut_out`, and the subject's bounds in it. `region` bounds the
    /// subject of an uncut source, whose pixels outside of `region` stay.
    pub(super) fn subject(
        self,
        frame: Frame,
        picture: Picture,
        options: &Options,
        region: Option<Rect>,
        cut_out: CutOut<'_>,
    ) -> Result<(Subject, Rect), NoSubject> {
        let (subject, bounds) = match self {
            Self::OwnAlpha => cutout(matting::from_own_alpha(frame)?),
            Self::Mask(mask) => guided(frame, Guide::Mask(&mask), picture, options, region, cut_out)?,
            Self::Trimap(trimap) => guided(frame, Guide::Trimap(&trimap), picture, options, region, cut_out)?,
            Self::Network { mask, standard, seeds, crop: None, .. } => {
                let guide = Guide::Network { mask: &mask, standard: standard.as_ref(), seeds: &seeds };
                guided(frame, guide, picture, options, region, cut_out)?
            }
            Self::Network { mask, standard, seeds, window, crop: Some(crop) } => {
                let options = window::options_within(options, window);
                let region = region.and_then(|region| window::within(region, window));
                let guide = Guide::Network { mask: &mask, standard: standard.as_ref(), seeds: &seeds };
                let (subject, bounds) = guided(crop, guide, picture, &options, region, cut_out)?;
                let subject = match subject {
                    Subject::Cutout(cutout) => Subject::Cutout(window::pasted(frame, &cutout, window)?),
                    Subject::Source(_) => Subject::Source(frame),
                };
                (subject, bounds.map(|bounds| window::outside(bounds, window)))
            }
        };
        Ok((subject, bounds.ok_or(NoSubject)?))
    }
}

/// The input of composing made from `frame` by `guide`, and the subject's bounds in it.
fn guided(
    frame: Frame,
    guide: Guide<'_>,
    picture: Picture,
    options: &Options,
    region: Option<Rect>,
    cut_out: CutOut<'_>,
) -> Result<(Subject, Option<Rect>), NoSubject> {
    match (picture, guide) {
        (Picture::CleanMask, Guide::Network { .. }) => {
            let mask = matting::clean_mask(&frame, guide, options)?;
            Ok(cutout(Cutout::new(frame, &mask)))
        }
        (Picture::Cutout | Picture::CleanMask | Picture::Classified | Picture::Portrait(_), guide) => {
            Ok(cutout(cut_out(frame, guide, options)?))
        }
        (Picture::Source, Guide::Trimap(trimap)) => {
            let matte = AlphaMatte::new(trimap.size(), trimap.labels().to_vec());
            Ok((Subject::Source(frame), within(matte.covered(SUBJECT_ALPHA), region)))
        }
        (Picture::Source, guide @ (Guide::Network { .. } | Guide::Mask(_))) => {
            let bounds = Some(matting::subject_bounds(&frame, guide, options)?);
            // These bounds allow for cells coarser than the picture; the caller's mask needs no allowance.
            let bounds =
                if let Guide::Mask(mask) = guide { within(mask.covered(SUBJECT_ALPHA), bounds) } else { bounds };
            Ok((Subject::Source(frame), within(bounds, region)))
        }
    }
}

fn cutout(cutout: Cutout) -> (Subject, Option<Rect>) {
    let bounds = cutout.frame().covered(SUBJECT_ALPHA);
    (Subject::Cutout(cutout), bounds)
}

/// The intersection of `bounds` and `region`; `bounds` without a region.
fn within(bounds: Option<Rect>, region: Option<Rect>) -> Option<Rect> {
    let Some(region) = region else { return bounds };
    Some(window::outside(window::within(bounds?, region)?, region))
}
