//! The options of matting: method, edge, despill, decontamination, opaque subjects, hair.

use super::clean::CleanParams;
use super::hair::Hair;

/// How the unknown band is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Closed-form matting.
    #[default]
    ClosedForm,
    /// The upsampled mask as it is.
    None,
}

/// How partly covered pixels are finalized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// They stay partly covered (hair, fur).
    #[default]
    Soft,
    /// They become an edge that is anti-aliased over one pixel (products).
    Hard,
}

/// How to cut out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// How the unknown band is solved.
    pub method: Method,
    /// How partly covered pixels are finalized.
    pub edge: Edge,
    /// How much green or blue light of the background is removed from the edge, 0 to 1.
    pub despill: f32,
    /// Whether background that the mask includes near its edge is removed by colour likelihood.
    pub decontaminate: bool,
    /// Whether the subject is known to be opaque all over, as products are: holes are closed unless they show background,
    /// and the edge is hard, whatever `edge` says.
    pub opaque: bool,
    /// Where the unknown band reaches further out, for hair.
    pub hair: Option<Hair>,
}

impl Options {
    /// What decides in the clean-up of the mask.
    pub(super) const fn cleaning(&self) -> CleanParams {
        CleanParams { decontaminate: self.decontaminate, opaque: self.opaque }
    }
}
