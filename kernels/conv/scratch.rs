//! Thread-local scratch memory, and the split of a plane into one strip of rows per task.

use std::cell::RefCell;

use rayon::prelude::*;

use super::plane::Aligned;

thread_local! {
    static SCRATCH: RefCell<Aligned> = RefCell::default();
    static PAIRS: RefCell<Aligned> = RefCell::default();
}

/// Runs `work` with `len` floats that start on a cache line, with values of earlier tasks.
///
/// The memory stays with the thread (and in its cache), so that nothing is allocated in the steady state. `work` must
/// not run other tasks of the pool: they could use the same memory.
pub(super) fn with<R>(len: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| work(grown(scratch, len)))
}

/// As [`with`], for the inputs of a dense convolution rounded to bfloat16. May be called inside `with`.
pub(super) fn with_pairs<R>(len: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    PAIRS.with_borrow_mut(|pairs| work(grown(pairs, len)))
}

fn grown(memory: &mut Aligned, len: usize) -> &mut [f32] {
    memory.grow(len);
    &mut memory.as_mut_slice()[..len]
}

/// Rows of one task, for two tasks per thread; at least one.
pub(super) fn rows_per_task(rows: usize) -> usize {
    // One thread under Miri, whose borrowing rules the pool's queues violate.
    let threads = if cfg!(miri) { 1 } else { rayon::current_num_threads() };
    rows.div_ceil(2 * threads).max(1)
}

/// Runs `work(task, strip)` for each strip of `len` values of `data`, in parallel.
pub(super) fn each_strip(data: &mut [f32], len: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    if cfg!(miri) {
        data.chunks_mut(len).enumerate().for_each(|(task, strip)| work(task, strip));
    } else {
        data.par_chunks_mut(len).enumerate().for_each(|(task, strip)| work(task, strip));
    }
}
