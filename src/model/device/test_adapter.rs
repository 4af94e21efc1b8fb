//! The graphics adapter of the tests.

use super::{Adapter, adapters};
use burn::tensor::Device;

/// The best adapter.
pub(crate) fn adapter() -> Option<Adapter> {
    let Some(adapter) = adapters().iter().min_by_key(|adapter| adapter.kind) else {
        #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
        let wanted = std::env::var("BACKDROP_TEST_DEVICE").is_ok_and(|value| value == "gpu");
        assert!(!wanted, "BACKDROP_TEST_DEVICE=gpu, but there is no graphics adapter");
        eprintln!("\n*** SKIPPED: no graphics adapter, the GPU was NOT tested (install mesa-vulkan-drivers) ***\n");
        return None;
    };
    Some(adapter.clone())
}

pub(crate) fn device() -> Option<Device> {
    adapter().map(|adapter| adapter.open().expect("the adapter opens"))
}
