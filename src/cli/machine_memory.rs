//! The memory of this machine.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// In megabytes; the container's limit, if it has one.
pub(super) fn total_megabytes() -> u64 {
    let ram = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(ram);
    system.cgroup_limits().map_or(system.total_memory(), |limits| limits.total_memory) >> 20
}
