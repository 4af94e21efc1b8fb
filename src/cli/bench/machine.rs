//! Describes the machine of a run: processor, cores, memory, operating system.

use backdrop_kernels::conv::Isa;
use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// The machine of a run. The operating system may not report a value that is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) processor: Option<String>,
    /// The vector instructions that the network's kernels use.
    pub(super) instructions: String,
    /// Cores that this process may use, with the limits of its container.
    pub(super) cores: usize,
    pub(super) memory_bytes: u64,
    pub(super) os: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) architecture: String,
}

impl Machine {
    /// This machine.
    pub(super) fn this() -> Self {
        let wanted = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(wanted);
        let processor = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
        Self {
            processor: processor.filter(|name| !name.is_empty()),
            instructions: Isa::detect().to_string(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: system.total_memory(),
            os: System::long_os_version(),
            kernel: System::kernel_version(),
            architecture: std::env::consts::ARCH.to_owned(),
        }
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let Self { processor, instructions, cores, memory_bytes, os, kernel, architecture } = self;
        let unknown = || "unknown".to_owned();
        format!(
            "{} ({instructions}), {cores} {}, {:.1} GiB memory, {}, kernel {}, {architecture}",
            processor.clone().unwrap_or_else(unknown),
            if *cores == 1 { "core" } else { "cores" },
            *memory_bytes as f64 / f64::from(1 << 30),
            os.clone().unwrap_or_else(unknown),
            kernel.clone().unwrap_or_else(unknown),
        )
    }
}
