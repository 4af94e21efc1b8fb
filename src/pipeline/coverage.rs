//! Where the subject's coverage comes from (the network's mask, the caller's mask or trimap, or the source's own alpha channel),
//! and the cutout made by it.

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

/// A cutout that is bad with a probability above this one has a warning.
const UNCERTAIN: f32 = 0.5;

/// Cuts the subject out of a frame, where the guide says it is.
pub(super) type CutOut<'a> = &'a dyn Fn(Frame, Guide<'_>, &Options) -> Result<Cutout, NoSubject>;

/// The source of a subject's coverage.
pub(super) enum Coverage {
    /// The network's mask.
    Network {
        /// The mask of the window.
        mask: RawMask,
        /// The standard mask beside one of high recall.
        standard: Option<RawMask>,
        /// What the caller has marked in it.
        seeds: Box<Seeds>,
        /// The part of the picture that is segmented: all of it without a box.
        window: Rect,
        /// The pixels of the window, with their copy on a device, where it is not the whole picture.
        crop: Option<Frame>,
    },
    /// The caller's mask.
    Mask(AlphaMatte),
    /// The caller's trimap.
    Trimap(Trimap),
    /// The alpha channel of the picture itself, which is cut out already.
    OwnAlpha,
}

/// A picture and the source of its subject's coverage.
pub(super) struct Found {
    pub(super) frame: Frame,
    pub(super) coverage: Coverage,
    /// How uncertain the mask is, 0 to 1; 0 where the network did not run.
    pub(super) uncertainty: f32,
    /// How long the network took.
    pub(super) took: Duration,
}

/// Segments `frame`, or its part in `window`, unless `given` is all that is needed.
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
        let Segmentation { frame, mask, standard, uncertainty, took } = segment(engine, slot, frame, cut, call).await?;
        let coverage = Coverage::Network { mask, standard, seeds: Box::new(seeds), window, crop: None };
        return Ok(Found { frame, coverage, uncertainty, took });
    }
    let buffers = engine.buffers().clone();
    let crop = move || {
        let crop = window::cropped(&frame, window, &buffers);
        (frame, crop, window::seeds_within(seeds, window))
    };
    let ((frame, crop, seeds), cropping) = workers.run("crop", crop).await?;
    let Segmentation { frame: crop, mask, standard, uncertainty, took } =
        segment(engine, slot, crop, cut, call).await?;
    let coverage = Coverage::Network { mask, standard, seeds: Box::new(seeds), window, crop: Some(crop) };
    Ok(Found { frame, coverage, uncertainty, took: cropping + took })
}

impl Coverage {
    /// What the caller may not expect of a cutout by it, whose uncertainty is `uncertainty`.
    pub(super) fn warning(&self, uncertainty: f32) -> Option<Warning> {
        match self {
            Self::OwnAlpha => Some(Warning::OwnAlphaKept),
            Self::Network { .. } => (uncertainty > UNCERTAIN).then_some(Warning::UncertainMask(uncertainty)),
            Self::Mask(_) | Self::Trimap(_) => None,
        }
    }

    /// The kinds of the subject's outline, where the network has classified it.
    pub(super) fn outline(&self) -> Option<EdgeKinds> {
        match self {
            Self::Network { mask, .. } => mask.edge(),
            Self::Mask(_) | Self::Trimap(_) | Self::OwnAlpha => None,
        }
    }

    /// Copies the window of the caller's box again from `frame`, whose pixels have changed.
    pub(super) fn copy_window_of(&mut self, frame: &Frame, buffers: &BufferPool) {
        if let Self::Network { window, crop: Some(crop), .. } = self {
            *crop = window::cropped(frame, *window, buffers);
        }
    }

    /// How much of a face's box in `frame` the subject fills, 0 to 1.
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

    /// What is matted of `frame`: its part in the window, or all of it.
    pub(super) fn matted<'a>(&'a self, frame: &'a Frame) -> &'a Frame {
        match self {
            Self::Network { crop: Some(crop), .. } => crop,
            Self::Network { .. } | Self::Mask(_) | Self::Trimap(_) | Self::OwnAlpha => frame,
        }
    }

    /// What counts the bytes that cross the border to a GPU for what is matted of `frame`.
    pub(super) fn transfer_counter(&self, frame: &Frame) -> Option<Arc<TransferCounter>> {
        self.matted(frame).transfer_counter()
    }

    /// What is composed of `frame`, cut out by `cut_out`, and the bounds of the subject in it. The source itself is not cleared
    /// outside of `region`, but bounded by it.
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

/// What is composed of `frame` where `guide` says what the subject is.
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
            // These have an allowance for cells coarser than the picture, which the caller's mask does not need.
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

/// What `bounds` have in common with `region`, where there is one.
fn within(bounds: Option<Rect>, region: Option<Rect>) -> Option<Rect> {
    let Some(region) = region else { return bounds };
    Some(window::outside(window::within(bounds?, region)?, region))
}
