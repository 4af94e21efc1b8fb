//! The compute kernels of Backdrop.

pub mod conv;
pub mod model_input;
