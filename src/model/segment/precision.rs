//! Arithmetic of the segmentation network on the CPU: f32, or products of bfloat16 with sums in f32.

use backdrop_kernels::conv::Isa;

/// Type of the products in the network's dense convolutions. Sums, depthwise convolutions and stored values are f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single precision; equal bits on every processor with fused multiply-add.
    #[default]
    F32,
    /// Bfloat16 (AVX-512 BF16), on processors that support it.
    Bf16,
}

/// The processor lacks the instructions of the configured precision.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("engine.precision bf16: this processor has no AVX-512 BF16; use f32")]
pub struct UnsupportedPrecision;

impl Precision {
    /// The instruction set of the precision.
    ///
    /// # Errors
    /// When this processor lacks it.
    pub fn isa(self) -> Result<Isa, UnsupportedPrecision> {
        match self {
            Self::F32 => Ok(Isa::detect()),
            Self::Bf16 if Isa::Avx512Bf16.is_available() => Ok(Isa::Avx512Bf16),
            Self::Bf16 => Err(UnsupportedPrecision),
        }
    }

    pub(super) fn of_isa(isa: Isa) -> Self {
        if isa == Isa::Avx512Bf16 { Self::Bf16 } else { Self::F32 }
    }

    /// The model reported in `x-service-model` for `weights` (a name or `NAME/VERSION`) in this precision.
    #[must_use]
    pub fn of(self, weights: &str) -> String {
        match (self, weights.rsplit_once('/')) {
            (Self::F32, _) => weights.to_owned(),
            (Self::Bf16, Some((name, version))) => format!("{name}-bf16/{version}"),
            (Self::Bf16, None) => format!("{weights}-bf16"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bf16_changes_the_name_of_the_model() {
        for (weights, bf16) in [("fgnet-384/5", "fgnet-384-bf16/5"), ("mine", "mine-bf16")] {
            assert_eq!(Precision::F32.of(weights), weights);
            assert_eq!(Precision::Bf16.of(weights), bf16);
        }
    }
}
