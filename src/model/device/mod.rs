//! Which device the network runs on, chosen once at start-up.
//!
//! `auto` takes a real GPU when there is one and the CPU otherwise. Software adapters (Mesa's lavapipe, WARP) are
//! GPUs in name only, a hundred times slower than our CPU kernels: they are taken only when asked for by name.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use backdrop_kernels::conv::Isa;
use serde::{Deserialize, Serialize};

use super::weights::Weights;
use super::{CpuRetoucher, CpuSegmenter, Retoucher, SegmentError, Segmenter};

/// The device that was asked for: `auto`, `cpu`, `gpu`, or a part of an adapter's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum DeviceChoice {
    /// A real GPU when there is one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A real GPU, or an error.
    Gpu,
    /// The first adapter, software ones included, whose name contains this (in any case), or an error.
    Named(String),
}

impl From<String> for DeviceChoice {
    fn from(text: String) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "" | "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "gpu" => Self::Gpu,
            _ => Self::Named(text),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text.to_owned()))
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Named(name) => name,
        })
    }
}

/// Why the device that was asked for cannot be had.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The program was built without its GPU part.
    #[error("device {0} was asked for, but this build has no GPU support (feature `gpu`)")]
    NotBuiltIn(DeviceChoice),
    /// There is no real GPU.
    #[error("device gpu was asked for, but no GPU was found ({found}); use `cpu`, or ask for an adapter by name")]
    NoGpu {
        /// The adapters there are, in words.
        found: String,
    },
    /// No adapter has that name.
    #[error("no adapter is named {name} ({found})")]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The adapters there are, in words.
        found: String,
    },
}

/// The device that will be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Our CPU kernels.
    Cpu,
    /// burn on wgpu.
    #[cfg(feature = "gpu")]
    Gpu(Adapter),
}

impl Chosen {
    /// Loads `weights` there, ready for batches of up to `max_batch`. The CPU needs no warming up.
    ///
    /// # Errors
    /// [`SegmentError::Device`] when the device cannot be used, or computes something else than it should.
    #[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only a GPU is warmed up for its batches"))]
    pub fn segmenter(&self, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        match self {
            Self::Cpu => {
                let segmenter = CpuSegmenter::new(weights, Isa::detect());
                Ok(Box::new(segmenter.map_err(|error| SegmentError::Device(error.to_string()))?))
            }
            #[cfg(feature = "gpu")]
            Self::Gpu(adapter) => Ok(Box::new(super::gpu::GpuSegmenter::start(adapter, weights, max_batch)?)),
        }
    }

    /// The networks beside the one that cuts out, there. Each is loaded when it is first needed, and one that does not
    /// compute what it should on its device fails then.
    #[must_use]
    pub fn retoucher(&self) -> Arc<dyn Retoucher> {
        match self {
            Self::Cpu => Arc::new(CpuRetoucher::default()),
            #[cfg(feature = "gpu")]
            Self::Gpu(adapter) => Arc::new(super::GpuRetoucher::new(adapter)),
        }
    }
}

/// Decides between the CPU and the adapters of this machine.
///
/// # Errors
/// [`DeviceError`] when what was asked for explicitly is not there; `auto` and `cpu` always succeed.
pub fn choose(choice: &DeviceChoice) -> Result<Chosen, DeviceError> {
    match choice {
        // The CPU never waits for graphics drivers to be asked.
        DeviceChoice::Cpu => Ok(Chosen::Cpu),
        #[cfg(feature = "gpu")]
        DeviceChoice::Auto | DeviceChoice::Gpu | DeviceChoice::Named(_) => pick(choice, adapters()),
        #[cfg(not(feature = "gpu"))]
        DeviceChoice::Auto => Ok(Chosen::Cpu),
        #[cfg(not(feature = "gpu"))]
        DeviceChoice::Gpu | DeviceChoice::Named(_) => Err(DeviceError::NotBuiltIn(choice.clone())),
    }
}

#[cfg(feature = "gpu")]
use with_gpu::pick;
#[cfg(feature = "gpu")]
pub use with_gpu::{Adapter, AdapterKind, adapters};

#[cfg(feature = "gpu")]
mod with_gpu {
    use std::fmt;
    use std::sync::{Mutex, OnceLock, PoisonError};

    use backdrop_kernels::device::tune_briefly;
    use burn::tensor::wgpu::{WgpuBackend, wgpu};
    use burn::tensor::{Device, DeviceKind, read_sync};

    use super::{Chosen, DeviceChoice, DeviceError};

    /// A graphics adapter of this machine, as one graphics API shows it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Adapter {
        /// The adapter's own name, such as `NVIDIA H200`.
        pub name: String,
        /// What stands behind it.
        pub kind: AdapterKind,
        /// The graphics API it is reached through.
        pub api: Api,
        /// Which one of its kind, counted in this API from 0.
        pub index: usize,
    }

    /// What stands behind an adapter, best first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AdapterKind {
        /// A card of its own.
        Discrete,
        /// A GPU beside the processor's cores.
        Integrated,
        /// A share of a GPU, handed through to a virtual machine.
        Virtual,
        /// The processor, pretending.
        Software,
    }

    /// A graphics API, best first. OpenGL is left out: its compute shaders lack what the kernels need.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Api {
        /// Vulkan.
        Vulkan,
        /// Metal.
        Metal,
        /// DirectX 12.
        Dx12,
    }

    impl Api {
        const ALL: [Self; 3] = [Self::Vulkan, Self::Metal, Self::Dx12];

        const fn wgpu(self) -> wgpu::Backends {
            match self {
                Self::Vulkan => wgpu::Backends::VULKAN,
                Self::Metal => wgpu::Backends::METAL,
                Self::Dx12 => wgpu::Backends::DX12,
            }
        }

        const fn burn(self) -> WgpuBackend {
            match self {
                Self::Vulkan => WgpuBackend::Vulkan,
                Self::Metal => WgpuBackend::Metal,
                Self::Dx12 => WgpuBackend::Dx12,
            }
        }
    }

    impl fmt::Display for Adapter {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let kind = match self.kind {
                AdapterKind::Discrete => "discrete",
                AdapterKind::Integrated => "integrated",
                AdapterKind::Virtual => "virtual",
                AdapterKind::Software => "software",
            };
            write!(f, "{}, {kind}, {:?}", self.name, self.api)
        }
    }

    impl Adapter {
        /// The burn device on this adapter. The first call brings it up; later ones share it, because a process
        /// can register an adapter only once.
        ///
        /// # Errors
        /// What the graphics driver answered, in words.
        pub fn open(&self) -> Result<Device, String> {
            static OPEN: Mutex<Vec<(Adapter, Device)>> = Mutex::new(Vec::new());
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, device)) = open.iter().find(|(adapter, _)| adapter == self) {
                return Ok(device.clone());
            }
            let kind = match self.kind {
                AdapterKind::Discrete => DeviceKind::DiscreteGpu(self.index),
                AdapterKind::Integrated => DeviceKind::IntegratedGpu(self.index),
                AdapterKind::Virtual => DeviceKind::VirtualGpu(self.index),
                AdapterKind::Software => DeviceKind::Cpu,
            };
            if self.kind == AdapterKind::Software {
                tune_briefly();
            }
            let device = Device::wgpu_options()
                .device_kind(kind)
                .graphics_api(self.api.burn())
                .init()
                .map_err(|error| error.to_string())?;
            open.push((self.clone(), device.clone()));
            Ok(device)
        }
    }

    /// The adapters of this machine, asked for once.
    #[must_use]
    pub fn adapters() -> &'static [Adapter] {
        static FOUND: OnceLock<(Vec<wgpu::Instance>, Vec<Adapter>)> = OnceLock::new();
        // The instances are kept: some Vulkan loaders crash when one goes while another comes on a second thread.
        &FOUND
            .get_or_init(|| {
                let mut instances = Vec::new();
                let mut found = Vec::new();
                for api in Api::ALL {
                    if !wgpu::Instance::enabled_backend_features().contains(api.wgpu()) {
                        continue;
                    }
                    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
                        backends: api.wgpu(),
                        ..wgpu::InstanceDescriptor::new_without_display_handle()
                    });
                    for adapter in read_sync(instance.enumerate_adapters(api.wgpu())) {
                        let info = adapter.get_info();
                        let kind = match info.device_type {
                            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
                            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
                            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
                            wgpu::DeviceType::Cpu => AdapterKind::Software,
                            // burn cannot address these.
                            wgpu::DeviceType::Other => continue,
                        };
                        let same = |other: &&Adapter| other.kind == kind && other.api == api;
                        let index = found.iter().filter(same).count();
                        found.push(Adapter { name: info.name, kind, api, index });
                    }
                    instances.push(instance);
                }
                (instances, found)
            })
            .1
    }

    /// The decision alone.
    pub(super) fn pick(choice: &DeviceChoice, adapters: &[Adapter]) -> Result<Chosen, DeviceError> {
        let best = |wanted: &dyn Fn(&Adapter) -> bool| {
            adapters
                .iter()
                .filter(|adapter| wanted(adapter))
                .min_by_key(|adapter| (adapter.kind, adapter.api, adapter.index))
                .map(|adapter| Chosen::Gpu(adapter.clone()))
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
            DeviceChoice::Cpu => Ok(Chosen::Cpu),
            DeviceChoice::Auto => Ok(best(&real).unwrap_or(Chosen::Cpu)),
            DeviceChoice::Gpu => best(&real).ok_or_else(|| DeviceError::NoGpu { found: found() }),
            DeviceChoice::Named(name) => {
                let wanted = name.to_lowercase();
                best(&|adapter: &Adapter| adapter.name.to_lowercase().contains(&wanted))
                    .ok_or_else(|| DeviceError::UnknownName { name: name.clone(), found: found() })
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn adapter(name: &str, kind: AdapterKind) -> Adapter {
            Adapter { name: name.to_owned(), kind, api: Api::Vulkan, index: 0 }
        }

        fn named(name: &str) -> DeviceChoice {
            DeviceChoice::Named(name.to_owned())
        }

        #[test]
        fn auto_takes_the_discrete_gpu_and_never_a_software_adapter() {
            let lavapipe = adapter("llvmpipe (LLVM 15.0.6, 256 bits)", AdapterKind::Software);
            let integrated = adapter("Radeon 780M", AdapterKind::Integrated);
            let discrete = adapter("NVIDIA H200", AdapterKind::Discrete);
            let all = [lavapipe.clone(), integrated.clone(), discrete.clone()];
            assert_eq!(pick(&DeviceChoice::Auto, &all), Ok(Chosen::Gpu(discrete)));
            assert_eq!(pick(&DeviceChoice::Auto, &all[..2]), Ok(Chosen::Gpu(integrated)));
            assert_eq!(pick(&DeviceChoice::Auto, &[lavapipe]), Ok(Chosen::Cpu));
            assert_eq!(pick(&DeviceChoice::Auto, &[]), Ok(Chosen::Cpu));
        }

        #[test]
        fn asking_for_a_gpu_that_is_not_there_says_what_is() {
            let lavapipe = adapter("llvmpipe", AdapterKind::Software);
            let error = pick(&DeviceChoice::Gpu, &[lavapipe]).unwrap_err();
            assert!(error.to_string().contains("llvmpipe, software"), "{error}");
            let error = pick(&DeviceChoice::Gpu, &[]).unwrap_err();
            assert!(error.to_string().contains("no adapters"), "{error}");
        }

        #[test]
        fn a_software_adapter_is_taken_when_asked_for_by_name() {
            let lavapipe = adapter("llvmpipe (LLVM 15.0.6, 256 bits)", AdapterKind::Software);
            let picked = pick(&named("LLVMpipe"), std::slice::from_ref(&lavapipe));
            assert_eq!(picked, Ok(Chosen::Gpu(lavapipe.clone())));
            assert!(matches!(pick(&named("geforce"), &[lavapipe]), Err(DeviceError::UnknownName { .. })));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_ways_to_name_a_device_are_told_apart() {
        for (text, expected) in [
            ("auto", DeviceChoice::Auto),
            ("CPU", DeviceChoice::Cpu),
            ("gpu", DeviceChoice::Gpu),
            ("Radeon 780M", DeviceChoice::Named("Radeon 780M".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        assert_eq!(DeviceChoice::default(), DeviceChoice::Auto);
    }

    #[test]
    fn a_choice_survives_its_text() {
        for choice in [DeviceChoice::Auto, DeviceChoice::Cpu, DeviceChoice::Gpu, DeviceChoice::Named("H200".into())] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
    }

    #[test]
    fn the_cpu_can_always_be_had() {
        assert_eq!(choose(&DeviceChoice::Cpu), Ok(Chosen::Cpu));
    }

    #[cfg(not(feature = "gpu"))]
    #[test]
    fn a_build_without_gpu_support_says_so() {
        assert_eq!(choose(&DeviceChoice::Auto), Ok(Chosen::Cpu));
        for choice in [DeviceChoice::Gpu, DeviceChoice::Named("H200".into())] {
            assert_eq!(choose(&choice), Err(DeviceError::NotBuiltIn(choice)));
        }
    }
}
