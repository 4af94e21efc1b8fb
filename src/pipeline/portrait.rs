//! Who sits for a portrait, and what the picture owes to that.

use super::{FaceFound, PipelineError, Workers};
use crate::compose::{Head, Layout, Scene};
use crate::face::{main_face, restored, share_of_alpha, share_of_mask, usable};
use crate::image::{Face, Frame, Mask, Rect, Size};
use crate::matting::{self, Hair};
use crate::recipe::{Portrait, Retouch};
use std::time::Duration;

/// Share of a face's box that has to be subject for the face to be the subject's, and not one on a poster behind it.
const LEAST_SHARE: f32 = 0.5;
/// Where hair is looked for around a face: above, aside and below its box, and how far it stands off, all in heights of the
/// face.
const ABOVE: f32 = 0.9;
const ASIDE: f32 = 0.7;
const BELOW: f32 = 0.3;
const STANDS_OFF: f32 = 0.04;

/// The subject, when it has a face.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortraitFace {
    face: Face,
    portrait: Portrait,
}

/// A picture whose faces have been looked for.
pub(super) struct PortraitInput {
    /// The picture; with its sitter's face restored, where that was wanted.
    pub(super) frame: Frame,
    /// What the network saw in it before.
    pub(super) mask: Option<Mask>,
    /// Nothing where the subject has no face.
    pub(super) sitter: Option<PortraitFace>,
    /// How long it took.
    pub(super) took: Duration,
}

impl PortraitFace {
    /// Looks for the face that decides, among those that belong to the subject, and restores it. Before the subject is cut
    /// out, so that matting and the unmixing of colours see the pixels that they work on.
    pub(super) async fn find(
        workers: &Workers<'_>,
        mut frame: Frame,
        mask: Option<Mask>,
        portrait: Portrait,
    ) -> Result<PortraitInput, PipelineError> {
        let retoucher = workers.engine.retoucher().clone();
        let find = move || {
            let size = frame.size();
            let share = |face: &Face| match &mask {
                Some(mask) => share_of_mask(mask, face, size),
                None => share_of_alpha(&frame, face),
            };
            let faces = retoucher.faces(&frame)?;
            let own = faces.iter().filter(|face| usable(face, size) && share(face) >= LEAST_SHARE);
            let sitter = main_face(own, size).map(|face| Self { face: *face, portrait });
            if let Some(Self { face, .. }) = sitter.filter(|_| portrait.restore_face) {
                restored(&mut frame, &face, Retouch::STRENGTH, |crop| retoucher.restoration(crop))?;
            }
            Ok::<_, PipelineError>((frame, mask, sitter))
        };
        let (found, took) = workers.run("portrait", find).await?;
        let (frame, mask, sitter) = found?;
        Ok(PortraitInput { frame, mask, sitter, took })
    }

    /// `options` with room for this sitter's hair, in a picture of `size`.
    pub(super) fn matting(&self, options: matting::Options, size: Size) -> matting::Options {
        let Face { left, top, right, bottom, .. } = self.face;
        let height = bottom - top;
        let [aside, above, below] = [ASIDE, ABOVE, BELOW].map(|share| share * height);
        let region = within([left - aside, top - above, right + aside, bottom + below], size);
        matting::Options { hair: region.map(|region| Hair { region, reach: STANDS_OFF * height }), ..options }
    }

    /// The scene for this sitter, cut out, where another subject would be put into `scene`.
    pub(super) fn scene(&self, scene: &Scene, cutout: &Frame) -> Scene {
        self.portrait.scene(scene, Head::measured(cutout, &self.face))
    }

    /// The face in the finished picture that `layout` makes of one of `size`.
    pub(super) fn found(&self, layout: &Layout, size: Size) -> FaceFound {
        box_of(&self.face, size).and_then(|part| layout.placed(part)).map_or(FaceFound::None, FaceFound::At)
    }
}

/// A face's box in whole pixels of a picture of `size`; nothing where it lies outside.
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
