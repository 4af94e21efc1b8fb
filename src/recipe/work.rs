//! [`Recipe`]: everything that the pipeline needs to make one picture, with all defaults filled in.

use super::guidance::{Guidance, MaskSource};
use super::network::Network;
use super::prompt::PromptRequest;
use super::region::Region;
use super::values::{CutEngine, Detect, ModelRef};
use crate::image::{EdgeKinds, SourceUrl};
use crate::model::Factor;
use crate::model::weights::BuiltIn;
use crate::{codec, compose, matting};

/// What the pipeline makes of one source.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// What is done with the source before it is put into the scene.
    pub work: Work,
    /// What surrounds it.
    pub scene: compose::Scene,
    /// Format and quality of the result.
    pub encode: codec::EncodeOptions,
    /// Pictures that it needs beside the source.
    pub inputs: RequiredInputs,
}

impl Recipe {
    /// How the subject is cut out; nothing for a retouch.
    #[must_use]
    pub const fn cut(&self) -> Option<&Cut> {
        match &self.work {
            Work::Cut { cut, .. } => Some(cut),
            Work::Retouch(_) => None,
        }
    }

    /// The same, mutable.
    pub const fn cut_mut(&mut self) -> Option<&mut Cut> {
        match &mut self.work {
            Work::Cut { cut, .. } => Some(cut),
            Work::Retouch(_) => None,
        }
    }

    /// Sets the network, where a subject is cut out.
    pub fn cut_out_by(&mut self, network: impl Into<Network>) {
        if let Some(cut) = self.cut_mut() {
            cut.network = network.into();
        }
    }

    /// The same for a source within `limits`: the result may be as large as the largest source, where that is larger than
    /// [`compose::MAX_SIDE`] and a file of its format can be.
    #[must_use]
    pub fn within(&self, limits: &codec::Limits) -> Self {
        let side = limits.max_side.max(compose::MAX_SIDE).min(codec::longest_side(self.encode.format));
        let mut recipe = self.clone();
        recipe.scene.limit = compose::CanvasLimit(side);
        recipe
    }

    /// The embedded weights that its work needs, except those of segmentation, which a configured file may replace.
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

/// What is done with the source.
#[derive(Clone, Debug)]
pub enum Work {
    /// Its subject is segmented.
    Cut {
        /// How.
        cut: Cut,
        /// What of the source is then put into the scene.
        picture: Picture,
    },
    /// The whole picture is kept, enlarged or with restored faces; nothing is cut out.
    Retouch(Retouch),
}

/// What is done with a picture that is kept whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Retouch {
    /// It is enlarged.
    Enlarge(Factor),
    /// The faces in it are restored.
    Faces {
        /// The factor by which it is enlarged first.
        enlarge: Option<Factor>,
        /// Weight of the restored face in the result, 0 to 1.
        strength: f32,
    },
}

impl Retouch {
    /// The default weight of a restored face.
    pub const STRENGTH: f32 = 0.8;

    /// The factor by which the source is enlarged.
    #[must_use]
    pub const fn factor(self) -> Option<Factor> {
        match self {
            Self::Enlarge(factor) => Some(factor),
            Self::Faces { enlarge, .. } => enlarge,
        }
    }
}

/// How the subject is cut out.
#[derive(Clone, Debug)]
pub struct Cut {
    /// From the mask to the matte; [`Cut::matting_of`] has the options of a mask.
    pub matting: matting::Options,
    /// Whether the edge follows from the kind of the subject's outline.
    pub edge_by_kind: bool,
    /// Whether the alpha of an input with real transparency is kept as its matte.
    pub keep_alpha: bool,
    /// How many passes the network makes.
    pub detect: Detect,
    /// Another cutout pipeline than the default.
    pub engine: Option<CutEngine>,
    /// The model that the fields name.
    pub named_model: Option<ModelRef>,
    /// The network, by the named model or the request's header, else by the account or the configuration.
    pub network: Network,
    /// Everything outside of it is background.
    pub region: Option<Region>,
    /// What the caller says about where the subject is.
    pub guidance: Box<Guidance>,
}

impl Cut {
    /// From a mask whose subject has this outline to the matte.
    #[must_use]
    pub fn matting_of(&self, outline: Option<EdgeKinds>) -> matting::Options {
        match outline {
            Some(kinds) if self.edge_by_kind => self.matting.by_kind(kinds),
            Some(_) | None => self.matting,
        }
    }
}

/// What of the source is put into the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The subject alone.
    Cutout,
    /// The subject by its clean mask, before matting.
    CleanMask,
    /// The subject alone, and the faces in it are detected to classify the subject.
    Classified,
    /// The source itself; the subject only determines the crop.
    Source,
    /// The subject as a portrait where it has a face, else the subject alone.
    Portrait(Portrait),
}

/// How the scene of a portrait differs from that of a subject without a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portrait {
    /// Aspect of the result; the default is that of an exact box, else square.
    pub aspect: Option<compose::Aspect>,
    /// Whether the face is restored.
    pub restore_face: bool,
}

impl Portrait {
    /// `scene` for a portrait: framed by the head, and without the drop shadow of an object in front of a wall.
    #[must_use]
    pub fn scene(&self, scene: &compose::Scene, head: compose::Head) -> compose::Scene {
        let framing = compose::Framing::Portrait { aspect: self.aspect, head };
        compose::Scene { framing, shadow: None, ..scene.clone() }
    }
}

/// Pictures that a recipe needs beside the source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequiredInputs {
    /// The new background.
    pub background: Option<Source>,
    /// The watermark.
    pub mark: Option<SourceUrl>,
    /// The caller's mask.
    pub mask: Option<MaskSource>,
}

/// Where a background comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Uploaded with the request.
    Attached,
    /// Fetched from this address.
    Url(SourceUrl),
    /// Generated from a prompt: by an image API, which makes it a file, else by the built-in generator.
    Generated(PromptRequest),
}
