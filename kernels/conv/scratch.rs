//! Working memory of one task, kept by its thread.

use std::cell::RefCell;

use super::plane::Aligned;

thread_local! {
    static SCRATCH: RefCell<Aligned> = RefCell::default();
}

/// Runs `work` with `len` floats that start on a cache line. What they hold is left over from earlier tasks.
///
/// The memory stays with the thread (and in its cache), so in the steady state nothing is allocated. `work` must not
/// run other tasks of the pool: one of them could land here again.
pub(super) fn with<R>(len: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.grow(len);
        work(&mut scratch.as_mut_slice()[..len])
    })
}

/// Rows for one task, so that each thread has two to choose from; one row when there are fewer.
pub(super) fn rows_per_task(rows: usize) -> usize {
    rows.div_ceil(2 * rayon::current_num_threads()).max(1)
}
