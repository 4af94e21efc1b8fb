//! Binds each thread of a pool to one processor, if the pool has a thread for each processor.
//!
//! Linux wakes the threads of an idle pool on the processor of the thread that wakes them. Without binding, a pool of two threads
//! segments a picture on one processor, in twice the time, and ends before the scheduler moves a thread. A pool of another size is
//! left to the scheduler, which knows what else runs.

use rayon::ThreadPoolBuilder;

/// Binds each of the `threads` threads of a pool to a processor, if this process may use as many processors.
#[cfg(target_os = "linux")]
pub(super) fn bound(builder: ThreadPoolBuilder, threads: usize) -> ThreadPoolBuilder {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(usable) = sched_getaffinity(None) else { return builder };
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| usable.is_set(cpu)).collect();
    // A quota of processor time is no set of processors.
    let granted = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if usable.len() != threads || granted != threads {
        return builder;
    }
    builder.start_handler(move |index| {
        let mut own = CpuSet::new();
        own.set(usable[index]);
        // An error means that binding is not permitted: the scheduler then decides.
        let _ = sched_setaffinity(None, &own);
    })
}

/// Leaves the threads to the scheduler: only Linux was measured to place them badly.
#[cfg(not(target_os = "linux"))]
pub(super) fn bound(builder: ThreadPoolBuilder, _threads: usize) -> ThreadPoolBuilder {
    builder
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::bound;
    use rayon::ThreadPoolBuilder;
    use rustix::thread::sched_getaffinity;

    /// The number of processors that each thread of a pool may use.
    fn usable(threads: usize) -> Vec<u32> {
        let builder = ThreadPoolBuilder::new().num_threads(threads);
        let pool = bound(builder, threads).build().expect("a thread pool");
        pool.broadcast(|_| sched_getaffinity(None).expect("the affinity of a thread").count())
    }

    #[test]
    fn only_a_pool_of_all_processors_is_bound_to_them() {
        let all = sched_getaffinity(None).expect("the affinity of a thread").count();
        let granted = std::thread::available_parallelism().expect("a number of processors").get();
        if granted == all as usize {
            assert_eq!(usable(granted), vec![1; granted]);
        }
        assert_eq!(usable(granted + 1), vec![all; granted + 1]);
    }
}
