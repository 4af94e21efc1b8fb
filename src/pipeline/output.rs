//! The result of a run: the encoded picture, and measurements.

use super::timings::Timings;
use super::warning::Warning;
use crate::image::{EncodedImage, Rect};
use crate::matting::Edge;
use std::fmt;

/// An encoded picture and its measurements.
#[derive(Clone, Debug)]
pub struct Output {
    /// The file.
    pub image: EncodedImage,
    /// Bounds of the pixels that the subject covers by more than 3 %; `None` if no subject was segmented.
    pub subject: Option<Rect>,
    /// The mask's uncertainty, 0 to 1; 0 for a picture with its own alpha. `None` if no subject was segmented.
    pub uncertainty: Option<f32>,
    /// The edge selected by the kind of outline; `None` if the recipe sets it or no outline was classified.
    pub edge: Option<Edge>,
    /// The face that frames the picture; `None` if no face detection ran.
    pub face: Option<FaceFound>,
    /// Name and version of the model that did the recipe's work.
    pub model: String,
    /// Words of the prompt for which the built-in generator has a scene; `None` if it rendered no backdrop.
    pub understood: Option<Vec<String>>,
    /// Warnings for the caller.
    pub warnings: Vec<Warning>,
    /// Time spent in each stage.
    pub timings: Timings,
}

/// The result of face detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceFound {
    /// No face.
    None,
    /// The face's box in the finished picture.
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
