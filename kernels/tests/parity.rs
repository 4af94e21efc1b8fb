//! Compares every GPU twin with its CPU twin on any available adapter, at critical sizes.
//!
//! Without an adapter the test is skipped with a notice; with `BACKDROP_TEST_DEVICE=gpu` in the environment it fails.
//! A software adapter (Mesa's lavapipe) is enough: results are tested, not speed.
#![cfg(feature = "gpu")]

use backdrop_kernels::parity::{Scene, compare, kernels};
use burn::tensor::{Device, DeviceKind};

/// One pixel; a row; a column; odd; a multiple of the workgroup; just above a multiple; wide; tall.
const SIZES: [(usize, usize); 8] = [(1, 1), (97, 1), (1, 83), (33, 65), (64, 48), (81, 49), (4096, 19), (17, 4096)];

fn device() -> Option<Device> {
    let real = [DeviceKind::DiscreteGpu(0), DeviceKind::IntegratedGpu(0), DeviceKind::VirtualGpu(0), DeviceKind::Cpu];
    let mut reasons = Vec::new();
    for kind in real {
        match Device::wgpu_options().device_kind(kind.clone()).init() {
            Ok(device) => {
                eprintln!("GPU twins run on {kind:?}: {:?}", device.identity().map(|identity| identity.name));
                return Some(device);
            }
            Err(error) => reasons.push(error.to_string()),
        }
    }
    #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
    let wanted = std::env::var("BACKDROP_TEST_DEVICE").is_ok_and(|value| value == "gpu");
    assert!(!wanted, "BACKDROP_TEST_DEVICE=gpu, but there is no adapter: {reasons:?}");
    eprintln!("\n*** SKIPPED: no graphics adapter, the GPU twins were NOT tested (install mesa-vulkan-drivers) ***\n");
    None
}

#[test]
fn every_gpu_twin_matches_its_cpu_twin() {
    compare_at(&SIZES);
}

#[test]
#[ignore = "minutes on a software adapter: make gpu-parity"]
fn every_gpu_twin_matches_its_cpu_twin_at_full_size() {
    compare_at(&[(4096, 4096), (4032, 3024)]);
}

fn compare_at(sizes: &[(usize, usize)]) {
    let Some(device) = device() else { return };
    let mut failures = Vec::new();
    for kernel in kernels() {
        for (index, &(width, height)) in sizes.iter().enumerate() {
            let scene = Scene::new(width, height, index as u32 + 1);
            let expected = kernel.expected(&scene);
            let actual = kernel.run(&scene, &device);
            let outcome = match actual {
                Err(error) => Err(error),
                Ok(actual) => compare(&expected, &actual, kernel.tolerance).map_err(|error| error.to_string()),
            };
            match outcome {
                Ok(off) => eprintln!("{} at {width}×{height}: off by {off:e}", kernel.name),
                Err(error) => failures.push(format!("{} at {width}×{height}: {error}", kernel.name)),
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
