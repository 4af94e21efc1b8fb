//! What the caller asked for: `Fields → Params → Recipe`, three steps before any work.
//!
//! 1. [`Fields`]: names and values as they were sent, repeated and unknown ones refused.
//! 2. [`RemoveParams`], [`MaskParams`]: one struct per endpoint, each field an `Option` of a type that cannot hold a
//!    bad value. Declared once with `params!`, which also makes the table ([`Params::FIELDS`]) that the documentation
//!    page and the contract test read.
//! 3. [`Recipe`]: no options left, defaults filled.
//!
//! A new endpoint is one file here and one line in `http/router.rs`.

mod fields;
mod mask;
mod params;
mod remove;
mod reserved;
mod values;

pub use fields::{FieldError, Fields};
pub use mask::MaskParams;
pub use params::{Field, Origin, Params};
pub use remove::RemoveParams;
pub use reserved::{RESERVED, Reserved};
pub use values::{AlphaOnly, CutoutFormat, Flag, Kind, Side, Value};

use crate::{codec, compose, matting};

/// Everything the pipeline needs to know about one job; nothing is left open.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// How the subject is cut out.
    pub matting: matting::Options,
    /// What surrounds the subject.
    pub scene: compose::Scene,
    /// The file that comes back.
    pub encode: codec::EncodeOptions,
    /// Whether an input that already has real transparency keeps it as its matte.
    pub keep_alpha: bool,
}
