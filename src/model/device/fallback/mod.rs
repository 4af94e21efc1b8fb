//! Loads the networks on the selected device; under `auto`, falls back to the CPU from a GPU that fails, until it passes its
//! self-test again.
//!
//! Under `auto` a GPU that cannot be opened, fails its self-test or does not answer in time is replaced by the CPU, with one
//! warning. From time to time it is loaded and tested again beside the CPU; when it passes, it takes over. The time until then
//! goes on while the segmentation network is unloaded. A GPU that was configured by `gpu` or by name is never replaced: its
//! failure is the error.

mod active_device;
mod gpu;
mod next_trial;
mod retoucher;
mod segmenter;

pub use active_device::ActiveDevice;
pub use gpu::Gpu;

#[cfg(test)]
mod tests;
