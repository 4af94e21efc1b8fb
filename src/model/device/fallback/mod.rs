//! Loads the networks on the selected device; under `auto`, on the CPU while a failed GPU does not pass its self-test.
//!
//! Under `auto` the CPU replaces a GPU that cannot be opened, fails its self-test, does not answer in time or fails
//! three times in a row, with one warning. At intervals the GPU is loaded and tested again while the CPU works; when it
//! passes, the networks return to it. The interval continues while the segmentation network is unloaded. A GPU
//! configured by `gpu` or by name is never replaced: its failure is an error until its networks are loaded again.

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
