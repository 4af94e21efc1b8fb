//! Makes the finished picture from a picture and its mask, on the CPU or on the GPU that has a copy of its pixels.

mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod task;

pub(super) use task::{Composition, FinishedPicture, Task};

use super::error::PipelineError;
use cpu::CpuExecutor;
#[cfg(feature = "gpu")]
use gpu::GpuExecutor;
use task::Executor;

/// The finished picture of `task`, made by its executor.
///
/// # Errors
/// See [`Executor::finish`].
pub(super) fn finish(task: Task) -> Result<FinishedPicture, PipelineError> {
    let transfers = task.coverage.transfer_counter(&task.frame);
    let finished = executor(&task).finish(task)?;
    Ok(FinishedPicture { transferred: transfers.map(|counter| counter.total()), ..finished })
}

/// The GPU if it has a copy of the matted picture, else the CPU.
fn executor(task: &Task) -> &'static dyn Executor {
    #[cfg(feature = "gpu")]
    if task.coverage.matted(&task.frame).on_device().is_some() {
        return &GpuExecutor;
    }
    #[cfg(not(feature = "gpu"))]
    let _ = task;
    &CpuExecutor
}
