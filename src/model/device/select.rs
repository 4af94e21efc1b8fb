//! Selects a device for a `device` setting: the CPU or one of the adapters of this machine.
//!
//! `auto` selects a hardware GPU, else the CPU. Software adapters (Mesa's lavapipe, WARP) are a hundred times slower
//! than the CPU kernels, and are selected only by name.

#[cfg(feature = "gpu")]
use super::adapter::{Adapter, AdapterKind, adapters};
use super::choice::{DeviceChoice, DeviceError};

/// The device selected for a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedDevice {
    /// The CPU kernels.
    Cpu,
    /// burn on wgpu.
    #[cfg(feature = "gpu")]
    Gpu(Adapter),
}

/// Selects between the CPU and the adapters of this machine.
///
/// # Errors
/// [`DeviceError`] when an explicitly configured device is not available; `auto` and `cpu` always succeed.
pub fn select(choice: &DeviceChoice) -> Result<SelectedDevice, DeviceError> {
    match choice {
        // Without the enumeration of graphics adapters, which takes time.
        DeviceChoice::Cpu => Ok(SelectedDevice::Cpu),
        #[cfg(feature = "gpu")]
        DeviceChoice::Auto | DeviceChoice::Gpu | DeviceChoice::Named(_) => select_from(choice, adapters()),
        #[cfg(not(feature = "gpu"))]
        DeviceChoice::Auto => Ok(SelectedDevice::Cpu),
        #[cfg(not(feature = "gpu"))]
        DeviceChoice::Gpu | DeviceChoice::Named(_) => Err(DeviceError::NotBuiltIn(choice.clone())),
    }
}

#[cfg(feature = "gpu")]
fn select_from(choice: &DeviceChoice, adapters: &[Adapter]) -> Result<SelectedDevice, DeviceError> {
    let best = |accepts: &dyn Fn(&Adapter) -> bool| {
        adapters
            .iter()
            .filter(|adapter| accepts(adapter))
            .min_by_key(|adapter| (adapter.kind, adapter.api, adapter.index))
            .map(|adapter| SelectedDevice::Gpu(adapter.clone()))
    };
    let found = || match adapters {
        [] => "no adapters".to_owned(),
        adapters => {
            let names: Vec<_> = adapters.iter().map(ToString::to_string).collect();
            format!("found: {}", names.join("; "))
        }
    };
    let real = |adapter: &Adapter| adapter.kind != AdapterKind::Software;
    match choice {
        DeviceChoice::Cpu => Ok(SelectedDevice::Cpu),
        DeviceChoice::Auto => Ok(best(&real).unwrap_or(SelectedDevice::Cpu)),
        DeviceChoice::Gpu => best(&real).ok_or_else(|| DeviceError::NoGpu { found: found() }),
        DeviceChoice::Named(name) => {
            let part = name.to_lowercase();
            best(&|adapter: &Adapter| adapter.name.to_lowercase().contains(&part))
                .ok_or_else(|| DeviceError::UnknownName { name: name.clone(), found: found() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_available() {
        assert_eq!(select(&DeviceChoice::Cpu), Ok(SelectedDevice::Cpu));
    }

    #[cfg(not(feature = "gpu"))]
    #[test]
    fn a_build_without_gpu_support_says_so() {
        assert_eq!(select(&DeviceChoice::Auto), Ok(SelectedDevice::Cpu));
        for choice in [DeviceChoice::Gpu, DeviceChoice::Named("H200".into())] {
            assert_eq!(select(&choice), Err(DeviceError::NotBuiltIn(choice)));
        }
    }

    #[cfg(feature = "gpu")]
    mod with_gpu {
        use super::super::*;
        use crate::model::device::adapter::Api;

        fn adapter(name: &str, kind: AdapterKind) -> Adapter {
            Adapter { name: name.to_owned(), kind, api: Api::Vulkan, index: 0 }
        }

        #[test]
        fn auto_selects_the_discrete_gpu_and_never_a_software_adapter() {
            let lavapipe = adapter("llvmpipe (LLVM 15.0.6, 256 bits)", AdapterKind::Software);
            let integrated = adapter("Radeon 780M", AdapterKind::Integrated);
            let discrete = adapter("NVIDIA H200", AdapterKind::Discrete);
            let all = [lavapipe.clone(), integrated.clone(), discrete.clone()];
            assert_eq!(select_from(&DeviceChoice::Auto, &all), Ok(SelectedDevice::Gpu(discrete)));
            assert_eq!(select_from(&DeviceChoice::Auto, &all[..2]), Ok(SelectedDevice::Gpu(integrated)));
            assert_eq!(select_from(&DeviceChoice::Auto, &[lavapipe]), Ok(SelectedDevice::Cpu));
            assert_eq!(select_from(&DeviceChoice::Auto, &[]), Ok(SelectedDevice::Cpu));
        }

        #[test]
        fn the_error_of_a_missing_gpu_lists_the_adapters() {
            let lavapipe = adapter("llvmpipe", AdapterKind::Software);
            let error = select_from(&DeviceChoice::Gpu, &[lavapipe]).unwrap_err();
            assert!(error.to_string().contains("llvmpipe, software"), "{error}");
            let error = select_from(&DeviceChoice::Gpu, &[]).unwrap_err();
            assert!(error.to_string().contains("no adapters"), "{error}");
            let error = select_from(&DeviceChoice::Named("geforce".to_owned()), &[]).unwrap_err();
            assert!(matches!(error, DeviceError::UnknownName { .. }), "{error}");
        }
    }
}
