//! The graphics adapters of this machine, and opening one as a burn device.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use burn::tensor::wgpu::{WgpuBackend, wgpu};
use burn::tensor::{Device, DeviceKind, read_sync};

use crate::image::{DeviceLimits, DeviceSession};
use crate::telemetry::metrics;

/// Maximum GPU memory of pictures in flight, in bytes.
const MOST_MEMORY: u64 = 16 << 30;
/// Time limit of a call to a GPU: hundreds of times the duration of a batch or a picture.
const CALL: Duration = Duration::from_secs(30);
/// Time limit of a call to a software adapter.
const SOFTWARE_CALL: Duration = Duration::from_secs(900);

/// A graphics adapter of this machine, as listed by one graphics API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The adapter's name, such as `NVIDIA H200`.
    pub name: String,
    /// The adapter's kind.
    pub kind: AdapterKind,
    /// The graphics API.
    pub api: Api,
    /// Index among the adapters of this kind in this API.
    pub index: usize,
}

/// The kind of an adapter, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A graphics card.
    Discrete,
    /// A GPU integrated with the processor.
    Integrated,
    /// A share of a GPU, passed through to a virtual machine.
    Virtual,
    /// An emulation on the processor.
    Software,
}

/// A graphics API, best first. OpenGL's compute shaders lack features that the kernels need.
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
    /// The burn device on this adapter: opened once and shared, because a process can register an adapter only once.
    ///
    /// # Errors
    /// The graphics driver's error.
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
        let device = Device::wgpu_options()
            .device_kind(kind)
            .graphics_api(self.api.burn())
            .init()
            .map_err(|error| error.to_string())?;
        open.push((self.clone(), device.clone()));
        Ok(device)
    }
}

impl Adapter {
    /// The session on the opened adapter, shared by all networks and pictures; a new one after the GPU is lost. wgpu
    /// does not report a GPU's memory: work in flight is limited to the size of its largest buffer, at most 16 GiB.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn session(&self) -> Result<DeviceSession, String> {
        static SESSIONS: Mutex<Vec<(Adapter, DeviceSession)>> = Mutex::new(Vec::new());
        let device = self.open()?;
        let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(_, session)| !session.is_lost());
        if let Some((_, session)) = sessions.iter().find(|(adapter, _)| adapter == self) {
            return Ok(session.clone());
        }
        let (adapters, limits) = listed();
        let granted = adapters.iter().zip(limits).find(|(adapter, _)| *adapter == self).map(|(_, limits)| limits);
        let granted = granted.cloned().unwrap_or_else(wgpu::Limits::defaults);
        let limits = DeviceLimits {
            memory: granted.max_buffer_size.min(MOST_MEMORY),
            largest_buffer: granted.max_buffer_size.min(granted.max_storage_buffer_binding_size),
            call: if self.kind == AdapterKind::Software { SOFTWARE_CALL } else { CALL },
        };
        let session = DeviceSession::new(device, limits, metrics::device_bytes);
        sessions.push((self.clone(), session.clone()));
        Ok(session)
    }
}

/// The adapters of this machine, listed once.
#[must_use]
pub fn adapters() -> &'static [Adapter] {
    &listed().0
}

type Listed = (Vec<Adapter>, Vec<wgpu::Limits>);

fn listed() -> &'static Listed {
    static FOUND: OnceLock<(Vec<wgpu::Instance>, Listed)> = OnceLock::new();
    // The instances are kept: some Vulkan loaders crash when an instance is dropped while another thread creates one.
    &FOUND
        .get_or_init(|| {
            let mut instances = Vec::new();
            let (mut found, mut limits) = (Vec::new(), Vec::new());
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
                        // burn cannot address other devices.
                        wgpu::DeviceType::Other => continue,
                    };
                    let same = |other: &&Adapter| other.kind == kind && other.api == api;
                    let index = found.iter().filter(same).count();
                    limits.push(adapter.limits());
                    found.push(Adapter { name: info.name, kind, api, index });
                }
                instances.push(instance);
            }
            (instances, (found, limits))
        })
        .1
}
