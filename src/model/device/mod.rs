//! The device of the networks: the setting, the selection of an adapter, and the fallback from a failing GPU.

#[cfg(feature = "gpu")]
mod adapter;
mod choice;
mod fallback;
mod select;
#[cfg(all(test, feature = "gpu"))]
pub(crate) mod test_adapter;

#[cfg(feature = "gpu")]
pub use adapter::{Adapter, AdapterKind, adapters};
pub use choice::{DeviceChoice, DeviceError};
pub use fallback::{ActiveDevice, Gpu};
pub use select::{SelectedDevice, select};
