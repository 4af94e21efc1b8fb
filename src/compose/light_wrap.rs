//! The light of a scene on the subject's translucent edge ([`backdrop_kernels::light_wrap`]).

use super::Grounding;

/// The factors of linear red, green and blue of a scene's light, clamped to 0..=4.
pub(super) fn tint(grounding: &Grounding) -> [f32; 3] {
    grounding.light.tint.map(|factor| if factor.is_nan() { 1.0 } else { factor.clamp(0.0, 4.0) })
}
