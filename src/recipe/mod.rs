//! What the caller asked for.

use crate::{codec, compose, matting};

/// Everything that the pipeline has to know, defaults filled in.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// How the subject is cut out.
    pub matting: matting::Options,
    /// The output size.
    pub resize: compose::Resize,
    /// How the result is written.
    pub encode: codec::EncodeOptions,
    /// A picture with transparency of its own keeps it.
    pub keep_alpha: bool,
}
