//! The result of a run: the encoded picture, and what was measured on the way.

use super::timings::Timings;
use super::warning::Warning;
use crate::image::{EncodedImage, Rect};
use crate::matting::Edge;
use std::fmt;

/// A finished picture and what was measured on the way.
#[derive(Clone, Debug)]
pub struct Output {
    /// The file.
    pub image: EncodedImage,
    /// Where the subject is in it: the bounds of all pixels that it covers by more than 3 %. Nothing where no subject was
    /// segmented.
    pub subject: Option<Rect>,
    /// The mask's uncertainty, 0 to 1; 0 for a picture that has its own alpha. Nothing where no subject was segmented.
    pub uncertainty: Option<f32>,
    /// The edge that was selected by the kind of the subject's outline; nothing where the recipe says which, or no outline was
    /// classified.
    pub edge: Option<Edge>,
    /// The face that the picture was made by; nothing where no faces were detected.
    pub face: Option<FaceFound>,
    /// Name and version of the model that did the recipe's work.
    pub model: String,
    /// Where the built-in generator rendered the backdrop: the words of the prompt that it has a scene for.
    pub understood: Option<Vec<String>>,
    /// What the caller may not expect of it.
    pub warnings: Vec<Warning>,
    /// Time spent in each stage.
    pub timings: Timings,
}

/// The result of face detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceFound {
    /// There is none.
    None,
    /// Its box in the finished picture.
    At(Rect),
}

impl fmt::Display for FaceFound {
    /// `left,top,width,height`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::At(at) => at.fmt(f),
        }
    }
}
