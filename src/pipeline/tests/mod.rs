//! Tests of the stages from the network to the finished picture.

mod composing_on_gpu;
mod matting_on_gpu;
pub(crate) mod support;
