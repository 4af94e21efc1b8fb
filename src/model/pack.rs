//! Reads convolutions from weights and packs them for the CPU kernels.

use backdrop_kernels::conv::{Activation, Dense, Depthwise, Filter, Isa, Separable};

use super::weights::{Weights, WeightsError};

#[derive(Clone, Copy)]
pub(super) struct Packer<'a> {
    pub(super) isa: Isa,
    pub(super) weights: &'a Weights,
}

impl<'a> Packer<'a> {
    /// The parameters of the convolution `name`, and its input and output channels.
    pub(super) fn filter(&self, name: &str) -> Result<(Filter<'a>, [usize; 2]), WeightsError> {
        let weights = self.weights.tensor(&format!("{name}.weight"))?;
        let bias = self.weights.tensor(&format!("{name}.bias"))?;
        let channels = [weights.shape[1], weights.shape[0]];
        Ok((Filter { weights: &weights.values, bias: &bias.values }, channels))
    }

    pub(super) fn dense(
        &self,
        name: &str,
        size: usize,
        stride: usize,
        activation: Activation,
    ) -> Result<Dense, WeightsError> {
        let (filter, [channels_in, channels_out]) = self.filter(name)?;
        Ok(Dense::new(self.isa, size, stride, channels_in, channels_out, filter, activation))
    }

    pub(super) fn depthwise(
        &self,
        name: &str,
        stride: usize,
        dilation: usize,
        activation: Activation,
    ) -> Result<Depthwise, WeightsError> {
        let (filter, [_, channels]) = self.filter(name)?;
        let size = self.weights.tensor(&format!("{name}.weight"))?.shape[2];
        Ok(Depthwise::new(self.isa, size, channels, stride, dilation, filter, activation))
    }

    /// The decoders' residual unit of two convolutions: `max(x + pointwise(max(depthwise(x), 0)), 0)`.
    pub(super) fn refinement(
        &self,
        [depthwise, pointwise]: [&str; 2],
        dilation: usize,
    ) -> Result<Separable, WeightsError> {
        let depthwise = self.depthwise(depthwise, 1, dilation, Activation::Relu)?;
        // The projection's activation is applied after the sum with the input.
        Ok(Separable::new(depthwise, self.dense(pointwise, 1, 1, Activation::Relu)?))
    }
}
