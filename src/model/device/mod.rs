//! The device that the networks run on: the setting, the selection of an adapter, and the fallback from a failing GPU.

mod active;
#[cfg(feature = "gpu")]
mod adapter;
mod choice;
mod select;

pub use active::{ActiveDevice, Gpu};
#[cfg(feature = "gpu")]
pub use adapter::{Adapter, AdapterKind, adapters};
pub use choice::{DeviceChoice, DeviceError};
pub use select::{SelectedDevice, select};
