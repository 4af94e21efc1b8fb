//! Selects the portrait's face and derives framing and matting options from it.

use super::coverage::Coverage;
use super::error::PipelineError;
use super::output::FaceFound;
use super::warning::Warning;
use super::workers::Workers;
use crate::compose::{Head, Layout, Scene};
use crate::face::{main_face, restored, usable};
use crate::image::{Alpha, Face, Frame, Rect, Size};
use crate::matting::{self, Hair};
use crate::model::FaceSearch;
use crate::recipe::{Picture, Portrait, Retouch};
use std::borrow::Cow;
use std::time::Duration;

/// Share of a face's box that the subject must fill: a face on a poster behind the subject does not count.
const LEAST_SHARE: f32 = 0.5;
/// Extent of the region with hair around a face: above, aside and below its box, and the distance of hair from the
/// head, all in face heights.
const ABOVE: f32 = 0.9;
const ASIDE: f32 = 0.7;
const BELOW: f32 = 0.3;
const STANDS_OFF: f32 = 0.04;

/// The subject's face; absent if the recipe detects none or the subject has none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortraitFace {
    face: Option<Face>,
    /// Framing by the face; `None` if the face only classifies the subject.
    portrait: Option<Portrait>,
    /// Whether face detection ran.
    detected: bool,
}

/// A picture after face detection.
pub(super) struct PortraitInput {
    /// The picture, with its face restored if the recipe says so.
    pub(super) frame: Frame,
    /// Source of the subject's coverage, unchanged.
    pub(super) coverage: Coverage,
    pub(super) face: PortraitFace,
    /// Time of detection and restoration.
    pub(super) took: Duration,
}

/// Upper bound on the pixels that composing needs in addition to a source of `size`, for any subject and face.
pub(super) fn most_pixels(scene: &Scene, picture: Picture, size: Size) -> usize {
    match picture {
        Picture::Portrait(portrait) => {
            let framed = portrait.scene(scene, Head::anywhere(size)).most_pixels(size);
            framed.max(scene.most_pixels(size))
        }
        Picture::Cutout | Picture::CleanMask | Picture::Classified | Picture::Source => scene.most_pixels(size),
    }
}

/// Detects faces if `picture` needs them, selects one of the subject, and restores it. This precedes the cutout, so
/// that matting and foreground estimation use the final pixels.
pub(super) async fn find(
    workers: &Workers<'_>,
    mut frame: Frame,
    mut coverage: Coverage,
    picture: Picture,
) -> Result<PortraitInput, PipelineError> {
    let portrait = match picture {
        Picture::Cutout | Picture::CleanMask | Picture::Source => {
            return Ok(PortraitInput { frame, coverage, face: PortraitFace::default(), took: Duration::ZERO });
        }
        Picture::Classified => None,
        Picture::Portrait(portrait) => Some(portrait),
    };
    let retoucher = workers.engine.retoucher().clone();
    let buffers = workers.engine.buffers().clone();
    // A portrait may use a small face if there is no large one. Classifying a subject does not justify the passes over
    // tiles, where part of a product may be mistaken for a face.
    let search = if portrait.is_some() { FaceSearch::LargeElseSmall } else { FaceSearch::Large };
    let find = move || {
        let size = frame.size();
        let faces = retoucher.faces(&frame, search)?;
        let own = faces.iter().filter(|face| usable(face, size) && coverage.share_of(&frame, face) >= LEAST_SHARE);
        let face = main_face(own, size).copied();
        if let Some(face) = face.filter(|_| portrait.is_some_and(|portrait| portrait.restore_face)) {
            restored(&mut frame, &face, Retouch::STRENGTH, |crop| retoucher.restoration(crop))?;
            coverage.copy_window_of(&frame, &buffers);
        }
        Ok::<_, PipelineError>((frame, coverage, face))
    };
    let (found, took) = workers.run("portrait", find).await?;
    let (frame, coverage, face) = found?;
    Ok(PortraitInput { frame, coverage, face: PortraitFace { face, portrait, detected: true }, took })
}

impl PortraitFace {
    /// The warning for a portrait without a face.
    pub(super) fn warning(&self) -> Option<Warning> {
        (self.portrait.is_some() && self.face.is_none()).then_some(Warning::NoFace)
    }

    /// The face and its framing; `None` if it does not frame the picture.
    fn framing(&self) -> Option<(Face, Portrait)> {
        self.face.zip(self.portrait)
    }

    /// `options` with a wider band for the hair of a framing face, in a picture of `size`.
    pub(super) fn matting(&self, options: matting::Options, size: Size) -> matting::Options {
        let Some((Face { left, top, right, bottom, .. }, _)) = self.framing() else { return options };
        let height = bottom - top;
        let [aside, above, below] = [ASIDE, ABOVE, BELOW].map(|share| share * height);
        let region = within([left - aside, top - above, right + aside, bottom + below], size);
        matting::Options { hair: region.map(|region| Hair { region, reach: STANDS_OFF * height }), ..options }
    }

    /// `scene` framed by the face, if it frames the picture; otherwise anchored to the cutout.
    pub(super) fn scene<'a>(&self, scene: &'a Scene, cutout: &impl Alpha) -> Cow<'a, Scene> {
        match self.framing() {
            Some((face, portrait)) => Cow::Owned(portrait.scene(scene, Head::measured(cutout, &face))),
            None => scene.anchored(cutout),
        }
    }

    /// The face in the picture that `layout` makes of a picture of `size`; `None` if no face detection ran.
    pub(super) fn located(&self, layout: &Layout, size: Size) -> Option<FaceFound> {
        let part = self.face.and_then(|face| box_of(&face, size)).and_then(|part| layout.placed(part));
        self.detected.then(|| part.map_or(FaceFound::None, FaceFound::At))
    }
}

/// A face's box in whole pixels of a picture of `size`; `None` if it lies outside.
pub(super) fn box_of(face: &Face, size: Size) -> Option<Rect> {
    within([face.left, face.top, face.right, face.bottom], size)
}

fn within([left, top, right, bottom]: [f32; 4], size: Size) -> Option<Rect> {
    let axis = |low: f32, high: f32, side: u32| {
        let low = (low.max(0.0) as u32).min(side);
        let high = (high.max(0.0).ceil() as u32).min(side);
        (low < high).then(|| (low, high - low))
    };
    let ((left, width), (top, height)) = (axis(left, right, size.width)?, axis(top, bottom, size.height)?);
    Some(Rect { left, top, width, height })
}
