//! From a picture and its mask to the finished picture, on the CPU or on the GPU that has a copy of the picture's pixels.

mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod task;

pub(super) use task::{Composition, Finished, Task};

use super::error::PipelineError;
use cpu::CpuExecutor;
#[cfg(feature = "gpu")]
use gpu::GpuExecutor;
use task::Executor;

/// The finished picture of `task`, by the executor for it.
///
/// # Errors
/// Those of [`Executor::finished`].
pub(super) fn finished(task: Task) -> Result<Finished, PipelineError> {
    let transfers = task.coverage.transfer_counter(&task.frame);
    let finished = executor(&task).finished(task)?;
    Ok(Finished { transferred: transfers.map(|counter| counter.total()), ..finished })
}

/// The GPU's where the picture that is matted has a copy on one, else the CPU's.
fn executor(task: &Task) -> &'static dyn Executor {
    #[cfg(feature = "gpu")]
    if task.coverage.matted(&task.frame).on_device().is_some() {
        return &GpuExecutor;
    }
    #[cfg(not(feature = "gpu"))]
    let _ = task;
    &CpuExecutor
}
