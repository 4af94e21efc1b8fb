//! Loads the networks on the selected device; under `auto`, falls back to the CPU from a GPU that fails, until it passes its
//! self-test again.
//!
//! Under `auto` a GPU that cannot be opened, fails its self-test, does not answer in time or fails three times in a row is
//! replaced by the CPU, with one warning. From time to time it is loaded and tested again beside the CPU; when it passes, it takes
//! over. The time until then goes on while the segmentation network is unloaded. A GPU that was configured by `gpu` or by name is
//! never replaced: its failure is the error, until the networks that failed are loaded again.

mod active_device;
mod failures;
mod gpu;
mod next_trial;
mod retoucher;
mod segmenter;

pub use active_device::ActiveDevice;
pub use gpu::Gpu;

#[cfg(test)]
mod tests;
