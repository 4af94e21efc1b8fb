//! Support of the fuzz targets: bounds on the CPU time and the allocated bytes of an input, and the replay of seeds.
//!
//! The bodies of the targets are beside the code that they test, in files named `fuzzing.rs`. `fuzz/` runs them under libFuzzer
//! (`make fuzz`), and tests replay the seeds of `fuzz/corpus` through them, with the same bounds. Bytes are counted for each
//! thread, because other tests run beside a replay; so a target runs on a thread that does all work which it hands to rayon.
//! What C code allocates is not counted: libFuzzer bounds the process's memory (`fuzz/run`).
//!
//! Compiled for tests and for fuzzing (`--cfg fuzzing`) only.

use rayon::ThreadPoolBuilder;
use rustix::time::{ClockId, clock_gettime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

/// The CPU time that an input may take unless its target returns another, on the instrumented build of `fuzz/`.
const CPU_TIME: Duration = Duration::from_secs(1);

/// The clock that measures it: of the thread in tests, beside which others run; else of the process, with the writer of the store.
const CLOCK: ClockId = if cfg!(test) { ClockId::ThreadCPUTime } else { ClockId::ProcessCPUTime };

/// The bytes that an input may have allocated at a time.
const BYTES: usize = 64 << 20;

/// What a target returns: the CPU time that its input may take.
pub trait TimeLimit {
    /// This time.
    fn time_limit(self) -> Duration;
}

impl TimeLimit for () {
    fn time_limit(self) -> Duration {
        CPU_TIME
    }
}

impl TimeLimit for Duration {
    fn time_limit(self) -> Duration {
        self
    }
}

/// Runs a target on one input.
///
/// # Panics
/// When it takes more CPU time or memory than it may.
pub fn within_bounds<L: TimeLimit>(target: impl FnOnce() -> L) {
    let before = cpu_time();
    let (limit, peak) = peak_of(target);
    let took = cpu_time() - before;
    let limit = limit.time_limit();
    assert!(took <= limit, "{took:?} of CPU time, more than {limit:?}");
    assert!(peak <= BYTES, "{peak} bytes of memory, more than {BYTES}");
}

fn cpu_time() -> Duration {
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Makes this thread do all work that it hands to rayon.
///
/// # Panics
/// When it belongs to a pool of rayon already.
pub fn work_on_this_thread() {
    let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    // It lasts as long as the thread.
    std::mem::forget(pool.expect("a thread of no other pool"));
}

thread_local! {
    /// Bytes that this thread allocated, less those that it released, whichever thread allocated them.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The result of `work`, and its peak of allocated bytes over those before, on this thread.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    let earlier = PEAK.replace(before);
    let result = work();
    let peak = PEAK.get();
    // It counts for the work that this is a part of.
    PEAK.set(peak.max(earlier));
    (result, (peak - before).unsigned_abs())
}

/// The system's allocator, with a count of the bytes that each thread has in use, and of their peak.
#[derive(Debug)]
pub struct CountingAllocator;

impl CountingAllocator {
    fn add(bytes: usize) {
        let live = LIVE.get() + bytes.cast_signed();
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
    }

    fn subtract(bytes: usize) {
        LIVE.set(LIVE.get() - bytes.cast_signed());
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    // Zeroed pages cost nothing until they are written, but they are reserved: they count.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size);
        Self::subtract(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::subtract(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Calls `target` with each seed of `fuzz/corpus/{name}`.
#[cfg(test)]
pub(crate) fn replay<L: TimeLimit>(name: &str, target: impl Fn(&[u8]) -> L + Sync) {
    replay_folder(&format!("fuzz/corpus/{name}"), target);
}

/// Calls `target` with each file of a folder of the repository.
#[cfg(test)]
pub(crate) fn replay_folder<L: TimeLimit>(folder: &str, target: impl Fn(&[u8]) -> L + Sync) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            work_on_this_thread();
            for file in &files {
                // Shown where the target panics: the last one is the culprit.
                println!("{}", file.display());
                let seed = std::fs::read(file).expect("a seed");
                within_bounds(|| target(&seed));
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn the_peak_of_allocated_bytes_is_that_of_the_thread() {
        let block = |bytes| drop(black_box(Vec::<u8>::with_capacity(bytes)));
        assert_eq!(peak_of(|| [1000, 500].map(block)).1, 1000);
        let ((), peak) = peak_of(|| std::thread::scope(|scope| drop(scope.spawn(|| block(1 << 24)))));
        assert!(peak < 1 << 24, "{peak}");
    }

    #[test]
    fn the_peak_of_a_part_counts_for_the_whole() {
        let block = |bytes| drop(black_box(Vec::<u8>::with_capacity(bytes)));
        for (before, part) in [(500, 1000), (1000, 500)] {
            let whole = || {
                block(before);
                peak_of(|| block(part)).1
            };
            assert_eq!(peak_of(whole), (part, 1000));
        }
    }

    #[test]
    fn work_that_is_handed_to_rayon_is_counted() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                work_on_this_thread();
                let block = || black_box(Vec::<u8>::with_capacity(1 << 20));
                assert!(peak_of(|| rayon::join(block, block)).1 >= 2 << 20);
            });
        });
    }

    fn work_for(time: Duration) {
        let end = cpu_time() + time;
        while cpu_time() <= end {}
    }

    #[test]
    #[should_panic(expected = "of CPU time, more than 1s")]
    fn an_input_that_takes_too_much_cpu_time_is_found() {
        within_bounds(|| work_for(CPU_TIME));
    }

    #[test]
    #[should_panic(expected = "of CPU time, more than 10ms")]
    fn the_time_that_a_target_returns_is_all_that_its_input_may_take() {
        let limit = Duration::from_millis(10);
        within_bounds(|| {
            work_for(limit);
            limit
        });
    }

    #[test]
    #[should_panic(expected = "bytes of memory, more than 67108864")]
    fn an_input_that_allocates_too_much_is_found() {
        within_bounds(|| drop(black_box(Vec::<u8>::with_capacity(BYTES + 1))));
    }
}
