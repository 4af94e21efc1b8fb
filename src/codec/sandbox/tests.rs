//! Decode workers that crash, hang, lie, exhaust their memory or use a system call outside of the allowlist.
//!
//! A worker is this test program, restarted with [`faulty_worker`] as its only test. It gives up its rights as the
//! production worker does, and then misbehaves as the first bytes of the file say.

use super::lockdown::landlock_version;
use super::pool::{Tuning, Workers};
use super::process::Program;
use super::protocol::Request;
use super::worker::{self, Decoded};
use crate::codec::{Container, DecodeError, Header, Limits, decoders, detect_container};
use crate::image::{Buffer, BufferPool, Frame, Size};
use std::hint::black_box;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PHOTO: &[u8] = include_bytes!("../../../tests/photos/coffee.jpg");
const TURNED: &[u8] = include_bytes!("../../../tests/fixtures/codec/orientation_6.jpg");
#[cfg(feature = "heic")]
const HEIC: &[u8] = include_bytes!("../../../tests/fixtures/codec/grid.heic");
const DISPLAY_P3: &[u8] = include_bytes!("../../../tests/fixtures/codec/display_p3.png");
const WEBP: &[u8] = include_bytes!("../../../tests/fixtures/codec/lossy_alpha.webp");
const SIZE: Size = Size { width: 64, height: 32 };
/// The variables that a worker may have.
const ENVIRONMENT: [&str; 3] = ["LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "MIMALLOC_ARENA_RESERVE"];

#[test]
#[ignore = "the worker of the tests below"]
fn faulty_worker() {
    worker::serve(misbehave).expect("it was started by a test below");
}

/// Actions that an attacker's decoder may try, named by the file's first bytes; other files are decoded.
fn misbehave(request: &Request, bytes: &[u8], pool: &BufferPool) -> Result<Decoded, DecodeError> {
    let read = |path: &str| std::fs::read(path).is_ok();
    let succeeded = match bytes {
        b"crash" => {
            // SAFETY: it is the end of this process, on purpose.
            unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
            true
        }
        b"abort" => std::process::abort(),
        b"panic" => panic!("a decoder panicked outside of `catch_panic`"),
        b"loop" => loop {
            black_box(0);
        },
        b"memory" => black_box(vec![1_u8; 3 << 30]).iter().all(|&byte| byte == 1),
        b"open" => read("/etc/passwd") || read("/proc/self/environ"),
        b"openat2" => {
            let (here, path, how) = (libc::AT_FDCWD, c"/etc/passwd", std::ptr::null::<libc::c_void>());
            // SAFETY: the system refuses to read from a null pointer.
            unsafe { libc::syscall(libc::SYS_openat2, here, path.as_ptr(), how, 0_usize) >= 0 }
        }
        b"socket" => std::net::UdpSocket::bind("127.0.0.1:0").is_ok(),
        b"program" => std::process::Command::new("/bin/true").status().is_ok(),
        b"signal" => {
            rustix::process::kill_process(rustix::process::getppid().unwrap(), rustix::process::Signal::TERM).is_ok()
        }
        b"code" => {
            // SAFETY: the memory is not shared yet.
            let page = unsafe {
                let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
                libc::mmap(std::ptr::null_mut(), 4096, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
            };
            page != libc::MAP_FAILED
        }
        b"environment" => has_other_variables(),
        b"limits" => {
            use rustix::process::{Resource, Rlimit, setrlimit};
            setrlimit(Resource::Cpu, Rlimit { current: None, maximum: None }).is_ok()
        }
        b"other size" => return Ok(((Size::new(1, 1), None), None)),
        b"no pixels" => return Ok(((SIZE, None), None)),
        b"short" => return Ok(((SIZE, None), Some(Frame::new(Size::new(8, 8), pool.take(8 * 8 * 4))))),
        // Still mapped for writing when its descriptor is sent: the daemon's data could change.
        b"mapped" => {
            let memory = still_mapped(pool.take(SIZE.area() * 4));
            return Ok(((SIZE, None), Some(Frame::new(SIZE, memory))));
        }
        b"descriptors" => {
            // The three standard ones, and the file.
            let open = (0..1024).filter(|&number| is_open(number)).count();
            return Ok(((Size::new(open as u32, 1), None), None));
        }
        _ => {
            let container = detect_container(bytes)?;
            return worker::decoded(&Request { container, ..*request }, bytes, pool);
        }
    };
    Ok(((Size::new(if succeeded { 999 } else { 1 }, 1), None), None))
}

/// Whether the environment has more than [`ENVIRONMENT`].
fn has_other_variables() -> bool {
    std::env::vars_os().any(|(name, _)| !ENVIRONMENT.contains(&&*name.to_string_lossy()))
}

/// Duplicates the mapping of a buffer for writing, and keeps it.
fn still_mapped(mut memory: Buffer) -> Buffer {
    // SAFETY: an old length of 0 duplicates a shared mapping; the duplicate is never used.
    let twin = unsafe { libc::mremap(memory.as_mut_ptr().cast(), 0, memory.len(), libc::MREMAP_MAYMOVE) };
    assert_ne!(twin, libc::MAP_FAILED, "the mapping is shared, and may be duplicated");
    memory
}

fn is_open(number: i32) -> bool {
    // Of the calls that a worker may make, this one checks the descriptor first and reads nothing.
    // SAFETY: the system refuses to write to a null pointer.
    unsafe { libc::recvmsg(number, std::ptr::null_mut(), libc::MSG_DONTWAIT) };
    io::Error::last_os_error().raw_os_error() != Some(libc::EBADF)
}

fn workers(most: usize, requests: u32) -> Arc<Workers> {
    workers_with_time(most, requests, |_| Duration::from_secs(60))
}

fn workers_with_time(most: usize, requests: u32, time_limit: fn(Option<Size>) -> Duration) -> Arc<Workers> {
    let arguments = ["--ignored", "--exact", "--test-threads=1", "codec::sandbox::tests::faulty_worker"];
    let program = Program::new(std::env::current_exe().unwrap(), arguments);
    Workers::with(program, Tuning { most, requests, time_limit })
}

fn probe(workers: &Workers, bytes: &[u8]) -> Result<Size, DecodeError> {
    workers.probe(Container::Heic, bytes, &Limits::default()).map(|(size, _)| size)
}

fn decode(workers: &Workers, bytes: &[u8], pool: &BufferPool) -> Result<Frame, DecodeError> {
    let container = detect_container(bytes).unwrap_or(Container::Heic);
    let size = detect_container(bytes).ok().and_then(|_| probe(workers, bytes).ok()).unwrap_or(SIZE);
    workers.decode(
        bytes,
        &Header { container, size, flaw: None, limits: Limits::default(), applies_profile: true },
        pool,
    )
}

fn message(result: Result<impl std::fmt::Debug, DecodeError>) -> String {
    match result {
        Err(DecodeError::Corrupt(message)) => message,
        other => panic!("{other:?} is no damaged file"),
    }
}

#[test]
fn pictures_equal_those_decoded_in_process_and_are_not_copied() {
    let workers = workers(1, 1000);
    // Buffers of each decode: a rotation that swaps the sides takes a second one. Whether the profile is applied.
    let mut pictures =
        vec![(PHOTO, 1, true), (TURNED, 2, true), (DISPLAY_P3, 1, true), (DISPLAY_P3, 1, false), (WEBP, 1, true)];
    #[cfg(feature = "heic")]
    pictures.push((HEIC, 1, true));
    for (bytes, buffers, applies_profile) in pictures {
        let container = detect_container(bytes).unwrap();
        let limits = Limits::default();
        let probed @ (size, _) = decoders::probe(container, bytes, &limits).unwrap();
        assert_eq!(workers.probe(container, bytes, &limits).unwrap(), probed);
        let header = Header { container, size, flaw: None, limits, applies_profile };
        let (own, shared) = (BufferPool::new(1 << 30), BufferPool::new(1 << 30));
        let expected = decoders::decode(bytes, &header, &own).unwrap();
        let frame = workers.decode(bytes, &header, &shared).unwrap();
        assert_eq!(frame.pixels(), expected.pixels(), "{container:?}");
        assert_eq!(own.lent_bytes(), buffers * size.area() as u64 * 4, "{container:?}");
        assert_eq!(shared.lent_bytes(), 0, "{container:?}: pixels were copied into a buffer of this process");
        let at = frame.pixels().as_ptr() as usize;
        assert!(mapping_of(at).contains("memfd:backdrop-picture"), "{}", mapping_of(at));
    }
    assert_eq!(workers.started(), 1);
}

/// The line of this process's memory map for an address.
fn mapping_of(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let contains = |line: &&str| {
        let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(from)..number(to)).contains(&address)
    };
    maps.lines().find(contains).unwrap_or_default().to_owned()
}

#[test]
fn a_worker_that_crashes_fails_only_its_picture() {
    let workers = workers(2, 1000);
    for end in ["crash", "abort", "panic"] {
        assert_eq!(message(probe(&workers, end.as_bytes())), "the HEIC decoder failed", "{end}");
        assert!(probe(&workers, PHOTO).is_ok(), "after {end}");
    }
}

#[test]
fn a_picture_whose_worker_is_ended_from_outside_gets_another_one() {
    let workers = workers_with_time(1, 1000, |_| Duration::from_secs(2));
    assert!(probe(&workers, PHOTO).is_ok());
    let idle = workers.idle()[0];
    let seen = std::thread::scope(|scope| {
        let looping = scope.spawn(|| message(decode(&workers, b"loop", &BufferPool::new(0))));
        std::thread::sleep(Duration::from_millis(300));
        kill(idle);
        looping.join().unwrap()
    });
    assert!(seen.starts_with("it takes more than"), "the second worker had it for its own time: {seen}");
}

#[test]
fn a_worker_cannot_take_more_memory_than_its_limit() {
    let workers = workers(1, 1000);
    assert_eq!(message(probe(&workers, b"memory")), "the HEIC decoder failed");
    assert!(probe(&workers, PHOTO).is_ok());
}

#[test]
fn a_worker_can_neither_open_files_nor_reach_other_processes() {
    let workers = workers(1, 1000);
    assert_eq!(workers.protections(), None);
    // The C library opens files for hints only: the call fails and the worker continues.
    assert_eq!(probe(&workers, b"open").unwrap(), Size::new(1, 1), "a file was read");
    assert_eq!(workers.started(), 1, "it ended");
    let protections = workers.protections().expect("a worker has started");
    assert_eq!(protections.landlock, landlock_version() > 0);
    assert!(protections.seccomp, "without seccomp the rest of this test shows nothing");
    for call in ["openat2", "socket", "program", "signal", "code", "limits"] {
        assert_eq!(message(probe(&workers, call.as_bytes())), "the HEIC decoder failed", "{call}");
    }
}

#[test]
fn a_worker_has_limits_on_what_its_requests_may_take() {
    use rustix::process::{Resource, getrlimit};
    let workers = workers(1, 1000);
    for requests in 1..=2 {
        probe(&workers, PHOTO).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", workers.idle()[0])).unwrap();
        for (name, resource, most) in [
            // Each request may take 62 s plus a started second, on two threads.
            ("Max cpu time", Resource::Cpu, requests * 2 * 63),
            ("Max address space", Resource::As, (512 << 20) + 32 * 17_000_000),
            ("Max file size", Resource::Fsize, 4 * 17_000_000),
            ("Max core file size", Resource::Core, 0),
            ("Max open files", Resource::Nofile, 16),
        ] {
            let row = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let soft = row.split_whitespace().next().and_then(|value| value.parse::<u64>().ok());
            let most = getrlimit(resource).maximum.map_or(most, |own| own.min(most));
            assert_eq!(soft, Some(most), "{name} {row}");
        }
    }
}

#[test]
fn a_worker_has_no_descriptors_but_its_socket_and_the_file() {
    // Inheritable by every program started from now on.
    let kept = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
    assert!(kept.as_raw_fd() > 2);
    assert_eq!(probe(&workers(1, 1000), b"descriptors").unwrap(), Size::new(4, 1));
}

#[test]
fn a_workers_environment_has_only_allowed_variables() {
    assert!(has_other_variables(), "this process has none that a worker could inherit");
    assert_eq!(probe(&workers(1, 1000), b"environment").unwrap(), Size::new(1, 1), "it inherited some");
}

#[test]
fn an_invalid_answer_ends_the_worker() {
    let (workers, pool) = (workers(1, 1000), BufferPool::new(0));
    for lie in ["other size", "no pixels", "short", "mapped"] {
        let refused = message(decode(&workers, lie.as_bytes(), &pool));
        assert!(refused == "the HEIC decoder failed" || refused.contains("differs"), "{lie}: {refused}");
        assert_eq!(workers.started(), 0, "{lie}: its worker goes on");
    }
    assert!(decode(&workers, PHOTO, &pool).is_ok());
}

#[test]
fn a_worker_is_replaced_after_its_number_of_requests() {
    let workers = workers(1, 3);
    let mut seen = Vec::new();
    for _ in 0..7 {
        probe(&workers, PHOTO).unwrap();
        seen.extend(workers.idle());
    }
    // The third and the sixth request end their worker.
    assert_eq!(seen.len(), 5);
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
}

/// Waits for at most a minute.
fn wait_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::yield_now();
    }
}

fn kill(worker: u32) {
    let process = rustix::process::Pid::from_raw(i32::try_from(worker).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// Kills an idle worker and waits until its socket is closed, by the last of its threads.
fn end_idle(worker: u32) {
    kill(worker);
    let has_ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
        let threads = std::fs::read_dir(format!("/proc/{worker}/task")).unwrap().count();
        stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z') && threads == 1
    };
    wait_until(has_ended);
}

#[test]
fn a_worker_that_ended_while_idle_is_replaced_although_another_is_free() {
    for ended in [0, 1] {
        let workers = workers(2, 1000);
        workers.start_early();
        wait_until(|| workers.idle().len() == 2);
        let gone = workers.idle()[ended];
        end_idle(gone);
        for _ in 0..2 {
            assert!(probe(&workers, PHOTO).is_ok());
        }
        assert!(!workers.idle().contains(&gone), "the one at place {ended} is still kept");
    }
}

#[test]
fn without_workers_a_file_is_not_called_damaged() {
    let workers = Workers::new(Program::new("/nowhere/backdrop", ["decode-worker"]));
    assert!(matches!(probe(&workers, PHOTO), Err(DecodeError::Worker(_))));
    assert!(workers.failure().is_some());
    let workers = Workers::new(Program::new("/bin/true", [""; 0]));
    assert!(matches!(probe(&workers, PHOTO), Err(DecodeError::Worker(_))));
}
