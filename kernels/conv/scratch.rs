//! Working memory of one task, kept by its thread.

use std::cell::RefCell;

use rayon::prelude::*;

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
    // Miri takes one thread: the pool's queues do not keep to its rules of borrowing.
    let threads = if cfg!(miri) { 1 } else { rayon::current_num_threads() };
    rows.div_ceil(2 * threads).max(1)
}

/// Runs `work(task, strip)` for each strip of `len` values of `data`, side by side.
pub(super) fn each_strip(data: &mut [f32], len: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    if cfg!(miri) {
        data.chunks_mut(len).enumerate().for_each(|(task, strip)| work(task, strip));
    } else {
        data.par_chunks_mut(len).enumerate().for_each(|(task, strip)| work(task, strip));
    }
}
