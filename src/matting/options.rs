//! The options of matting: method, edge, despill, decontamination, opaque subjects, hair.

use super::clean::CleanParams;
use super::hair::Hair;
use crate::image::EdgeKinds;

/// A subject is matted as opaque when hair and glass, which a hard edge would lose, have at most this total
/// probability, and thin parts are less probable than an opaque outline. Of held-out classes 48 % of the opaque
/// pictures pass, and 1.2 % of those with hair (`weights/train/edge_kinds.py`).
const MOST_LOST: f32 = 0.2;

/// Method for the unknown band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Closed-form matting.
    #[default]
    ClosedForm,
    /// The upsampled mask, unchanged.
    None,
}

/// Treatment of partly covered pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// They stay partly covered (hair, fur).
    #[default]
    Soft,
    /// They become an edge anti-aliased over one pixel (products).
    Hard,
}

impl Edge {
    /// Name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Hard => "hard",
        }
    }
}

/// Options of the cutout.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Method for the unknown band.
    pub method: Method,
    /// Treatment of partly covered pixels.
    pub edge: Edge,
    /// Strength of the removal of green or blue background light from the edge, 0 to 1.
    pub despill: f32,
    /// Whether background that the mask includes near its edge is removed by colour likelihood.
    pub decontaminate: bool,
    /// Whether the subject is opaque all over, as products are: holes are closed unless they show background, and the
    /// edge is hard, whatever `edge` says.
    pub opaque: bool,
    /// Region in which the unknown band reaches further out, for hair.
    pub hair: Option<Hair>,
}

impl Options {
    /// Adapts the options to the kinds of a subject's outline: opaque where that is probable, else with a soft edge.
    #[must_use]
    pub fn by_kind(self, kinds: EdgeKinds) -> Self {
        let is_opaque = kinds.hair + kinds.transparent <= MOST_LOST && kinds.opaque > kinds.thin;
        Self { opaque: self.opaque || is_opaque, edge: Edge::Soft, ..self }
    }

    /// The edge that is applied.
    #[must_use]
    pub const fn finalized_edge(&self) -> Edge {
        if self.opaque { Edge::Hard } else { self.edge }
    }

    /// Parameters of the clean-up of the mask.
    pub(super) const fn cleaning(&self) -> CleanParams {
        CleanParams { decontaminate: self.decontaminate, opaque: self.opaque }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_an_outline_choose_between_opaque_and_soft() {
        let kinds = |[opaque, hair, transparent, thin]: [f32; 4]| EdgeKinds { opaque, hair, transparent, thin };
        let plain = Options { despill: 0.5, decontaminate: true, ..Options::default() };
        for opaque in [[1.0, 0.0, 0.0, 0.0], [0.55, 0.1, 0.05, 0.3]] {
            assert_eq!(plain.by_kind(kinds(opaque)), Options { opaque: true, ..plain });
        }
        for soft in [
            [0.75, 0.25, 0.0, 0.0],
            [0.75, 0.0, 0.25, 0.0],
            [0.4, 0.0, 0.1, 0.5],
            [0.25; 4],
            [0.0, 1.0, 0.0, 0.0],
            [f32::NAN; 4],
        ] {
            assert_eq!(plain.by_kind(kinds(soft)), plain);
        }
        // `product-v1` does not change.
        let product = Options { opaque: true, ..plain };
        assert_eq!(product.by_kind(kinds([0.0, 1.0, 0.0, 0.0])), product);
        assert_eq!([plain.finalized_edge(), product.finalized_edge()], [Edge::Soft, Edge::Hard]);
    }
}
