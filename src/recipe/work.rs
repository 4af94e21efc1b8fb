//! [`Recipe`]: all parameters of one picture for the pipeline, with all defaults filled in.

use super::guidance::{Guidance, MaskSource};
use super::network::Network;
use super::prompt::PromptRequest;
use super::region::Region;
use super::values::{CutEngine, Detect, ModelRef};
use crate::image::{EdgeKinds, SourceUrl};
use crate::model::Factor;
use crate::model::weights::BuiltIn;
use crate::{codec, compose, matting};

/// All parameters of one picture.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The work on the source before it is placed in the scene.
    pub work: Work,
    /// Parameters of the composition.
    pub scene: compose::Scene,
    /// Format and quality of the result.
    pub encode: codec::EncodeOptions,
    /// Required pictures other than the source.
    pub inputs: RequiredInputs,
}

impl Recipe {
    /// Parameters of the cutout; `None` for a retouch.
    #[must_use]
    pub const fn cut(&self) -> Option<&Cut> {
        match &self.work {
            Work::Cut { cut, .. } => Some(cut),
            Work::Retouch(_) => None,
        }
    }

    /// Parameters of the cutout, to change; `None` for a retouch.
    pub const fn cut_mut(&mut self) -> Option<&mut Cut> {
        match &mut self.work {
            Work::Cut { cut, .. } => Some(cut),
            Work::Retouch(_) => None,
        }
    }

    /// Sets the network, if a subject is cut out.
    pub fn cut_out_by(&mut self, network: impl Into<Network>) {
        if let Some(cut) = self.cut_mut() {
            cut.network = network.into();
        }
    }

    /// The recipe for a source within `limits`: a result may be as large as the largest source, if this exceeds
    /// [`compose::MAX_SIDE`] and the format can store it.
    #[must_use]
    pub fn within(&self, limits: &codec::Limits) -> Self {
        let side = limits.max_side.max(compose::MAX_SIDE).min(codec::longest_side(self.encode.format));
        let mut recipe = self.clone();
        recipe.scene.limit = compose::CanvasLimit(side);
        recipe
    }

    /// The embedded weights that the work needs, without segmentation's, which a configured file may replace.
    #[must_use]
    pub fn built_in(&self) -> Vec<BuiltIn> {
        let (finds, restores, enlarges) = match self.work {
            Work::Cut { picture: Picture::Cutout | Picture::CleanMask | Picture::Source, .. } => (false, false, None),
            Work::Cut { picture: Picture::Classified, .. } => (true, false, None),
            Work::Cut { picture: Picture::Portrait(portrait), .. } => (true, portrait.restore_face, None),
            Work::Retouch(Retouch::Enlarge(factor)) => (false, false, Some(factor)),
            Work::Retouch(Retouch::Faces { enlarge, .. }) => (true, true, enlarge),
        };
        let (face, restore) = (finds.then_some(BuiltIn::Face), restores.then_some(BuiltIn::Restore));
        face.into_iter().chain(restore).chain(enlarges.map(BuiltIn::Upscale)).collect()
    }
}

/// The work on the source.
#[derive(Clone, Debug)]
pub enum Work {
    /// The subject is segmented.
    Cut {
        /// Parameters of the cutout.
        cut: Cut,
        /// The part of the source that is placed in the scene.
        picture: Picture,
    },
    /// The whole picture is kept, enlarged or with restored faces, without a cutout.
    Retouch(Retouch),
}

/// The work on a picture that is kept whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Retouch {
    /// Enlarges it.
    Enlarge(Factor),
    /// Restores its faces.
    Faces {
        /// Factor by which it is enlarged first.
        enlarge: Option<Factor>,
        /// Weight of the restored face in the result, 0 to 1.
        strength: f32,
    },
}

impl Retouch {
    /// The default weight of a restored face.
    pub const STRENGTH: f32 = 0.8;

    /// Factor by which the source is enlarged.
    #[must_use]
    pub const fn factor(self) -> Option<Factor> {
        match self {
            Self::Enlarge(factor) => Some(factor),
            Self::Faces { enlarge, .. } => enlarge,
        }
    }
}

/// Parameters of the cutout.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Options from mask to matte; [`Cut::matting_of`] adapts them to a mask.
    pub matting: matting::Options,
    /// Whether the kind of the subject's outline selects the edge.
    pub edge_by_kind: bool,
    /// Whether an input with real transparency keeps its alpha as its matte.
    pub keep_alpha: bool,
    /// Number of the network's passes.
    pub detect: Detect,
    /// A cutout pipeline other than the default.
    pub engine: Option<CutEngine>,
    /// The model named by the fields.
    pub named_model: Option<ModelRef>,
    /// The network, from the named model or the request's header, else from the account or the configuration.
    pub network: Network,
    /// Region of the subject; everything outside is background.
    pub region: Option<Region>,
    /// The caller's guidance.
    pub guidance: Box<Guidance>,
}

impl Cut {
    /// Options from mask to matte for a subject with this outline.
    #[must_use]
    pub fn matting_of(&self, outline: Option<EdgeKinds>) -> matting::Options {
        match outline {
            Some(kinds) if self.edge_by_kind => self.matting.by_kind(kinds),
            Some(_) | None => self.matting,
        }
    }
}

/// The part of the source that is placed in the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The subject alone.
    Cutout,
    /// The subject by its clean mask, before matting.
    CleanMask,
    /// The subject alone; its faces are detected to classify it.
    Classified,
    /// The uncut source; the subject only determines the crop.
    Source,
    /// The subject as a portrait if it has a face, else the subject alone.
    Portrait(Portrait),
}

/// Differences of a portrait's scene from the scene of a subject without a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portrait {
    /// Aspect of the result; default: the aspect of an exact box, else square.
    pub aspect: Option<compose::Aspect>,
    /// Whether the face is restored.
    pub restore_face: bool,
}

impl Portrait {
    /// `scene` for a portrait: framed by the head, without the drop shadow of an object in front of a wall.
    #[must_use]
    pub fn scene(&self, scene: &compose::Scene, head: compose::Head) -> compose::Scene {
        let framing = compose::Framing::Portrait { aspect: self.aspect, head };
        compose::Scene { framing, shadow: None, ..scene.clone() }
    }
}

/// Required pictures other than the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequiredInputs {
    /// The new background.
    pub background: Option<Source>,
    /// The watermark.
    pub mark: Option<SourceUrl>,
    /// The caller's mask.
    pub mask: Option<MaskSource>,
}

/// Source of a background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Uploaded with the request.
    Attached,
    /// Fetched from this address.
    Url(SourceUrl),
    /// Generated from a prompt: by an image API, which makes a file of it, else by the built-in generator.
    Generated(PromptRequest),
}
