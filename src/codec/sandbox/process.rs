//! A decode worker's process: starts it, sends it a file, kills it when it is late or dropped.

use super::channel;
use super::lockdown::Protections;
use super::protocol::{ANSWER_BYTES, Answer, Request};
use crate::codec::Limits;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a worker may take to start.
const START_TIME: Duration = Duration::from_secs(30);
/// Time beyond the decoder's own limit after which a worker is killed.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of address space of a worker without a picture: program, libraries, stacks.
const BASE_BYTES: u64 = 512 << 20;
/// Bytes of address space per pixel of the largest allowed picture: up to 16 in libheif, including a tile along the
/// borders, 4 for the frame, 4 for a rotated copy.
const PIXEL_BYTES: u64 = 32;
/// Maximum of descriptors: three standard ones, the file, and memory for a picture and its rotated copy.
const MAX_DESCRIPTORS: u64 = 16;

/// The program that a worker runs.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The running program with the argument `decode-worker`; also after its file was replaced.
    #[must_use]
    pub fn this() -> Self {
        Self::new("/proc/self/exe", ["decode-worker"])
    }

    /// A program whose main function calls [`run`](super::run) when it is started with these arguments.
    pub fn new<A: Into<OsString>>(path: impl Into<PathBuf>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self { path: path.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

/// Why a worker gave no answer. The worker cannot be used again.
#[derive(Debug)]
pub(super) enum Failure {
    /// It had ended before it received the file.
    Gone,
    /// It ended while it processed the file.
    Crashed(String),
    /// It was ended from outside: by the system, which lacked memory, or by an operator.
    Killed(String),
    Late(Duration),
    /// It sent an answer that the worker's code never sends.
    Broken(String),
}

/// A running worker. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    socket: OwnedFd,
    protections: Protections,
    served: u32,
    /// Limit of its total processor time, in seconds, up to the end of the current request.
    processor_seconds: u64,
}

impl Worker {
    /// Starts a worker and waits until it has given up its rights. Fails when the system has no process left, or the
    /// program does not become a worker.
    pub(super) fn start(program: &Program) -> io::Result<Self> {
        let (socket, other_end) = channel::pair()?;
        let child = Command::new(&program.path)
            .arg0("backdrop")
            .args(&program.arguments)
            .env_clear()
            // Each arena reserves address space, which is limited.
            .envs([("MALLOC_ARENA_MAX", "1"), ("MIMALLOC_ARENA_RESERVE", "16MiB")])
            .envs(library_path())
            .stdin(Stdio::from(other_end))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C must reach the daemon only, which finishes its pictures first.
            .process_group(0)
            .spawn()?;
        let protections = Protections { seccomp: false, landlock: false };
        let mut worker = Self { child, socket, protections, served: 0, processor_seconds: 0 };
        for (resource, most) in [(Resource::Core, 0), (Resource::Nofile, MAX_DESCRIPTORS)] {
            let most = Some(below_own(resource, most));
            worker.limit(resource, Rlimit { current: most, maximum: most })?;
        }
        match channel::receive::<1>(&worker.socket, Some(Instant::now() + START_TIME))? {
            Some(hello) => worker.protections = Protections::from_byte(hello.bytes[0]),
            None => return Err(io::Error::other(format!("the worker ended with {}", worker.ended().0))),
        }
        Ok(worker)
    }

    pub(super) const fn protections(&self) -> Protections {
        self.protections
    }

    /// Requests sent to it.
    pub(super) const fn served(&self) -> u32 {
        self.served
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends `request` with its file, and waits for the answer for `time` and a short grace.
    pub(super) fn answer(
        &mut self,
        request: Request,
        file: &OwnedFd,
        time: Duration,
    ) -> Result<(Answer, Option<OwnedFd>), Failure> {
        self.served += 1;
        let time = time + GRACE;
        self.limit_request(&request.limits, time).map_err(|_| Failure::Gone)?;
        // A worker sees the file only if the whole message arrives; an error means that it did not.
        channel::send(&self.socket, &request.to_bytes(), Some(file.as_fd())).map_err(|_| Failure::Gone)?;
        let message = match channel::receive::<ANSWER_BYTES>(&self.socket, Some(Instant::now() + time)) {
            Ok(Some(message)) => message,
            Ok(None) => {
                let (how, from_outside) = self.ended();
                return Err(if from_outside { Failure::Killed(how) } else { Failure::Crashed(how) });
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Failure::Late(time)),
            Err(error) => return Err(Failure::Broken(error.to_string())),
        };
        let answer =
            Answer::from_bytes(&message.bytes).ok_or_else(|| Failure::Broken("an unknown answer".to_owned()))?;
        Ok((answer, message.descriptor))
    }

    /// Limits memory and processor time for a request. The worker may not call `prlimit`, which could raise them.
    fn limit_request(&mut self, limits: &Limits, time: Duration) -> io::Result<()> {
        // Twice the limit: the decoder's thread and the main thread. The system counts from the process's start.
        self.processor_seconds += 2 * (time.as_secs() + 1);
        let pixels = u64::from(limits.max_megapixels) * 1_000_000;
        for (resource, most) in [
            (Resource::As, BASE_BYTES + PIXEL_BYTES * pixels),
            (Resource::Cpu, self.processor_seconds),
            (Resource::Fsize, 4 * pixels),
        ] {
            // The hard limit stays: raising it needs a privilege.
            let maximum = getrlimit(resource).maximum;
            self.limit(resource, Rlimit { current: Some(below_own(resource, most)), maximum })?;
        }
        Ok(())
    }

    fn limit(&self, resource: Resource, limit: Rlimit) -> io::Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        prlimit(id, resource, limit)?;
        Ok(())
    }

    /// How the worker ended, in words, and whether by a signal that no picture causes. Once the socket is closed the
    /// exit status is already set, and the kill does not change it.
    fn ended(&mut self) -> (String, bool) {
        let _: io::Result<()> = self.child.kill();
        match self.child.wait() {
            Ok(status) => match status.signal() {
                Some(signal) => {
                    let outside = [libc::SIGHUP, libc::SIGINT, libc::SIGKILL, libc::SIGTERM];
                    (format!("signal {signal}"), outside.contains(&signal))
                }
                None => (status.to_string(), false),
            },
            Err(error) => (error.to_string(), false),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _: io::Result<()> = self.child.kill();
        let _: io::Result<_> = self.child.wait();
    }
}

/// The lower of `limit` and this process's hard limit, which child processes inherit.
fn below_own(resource: Resource, limit: u64) -> u64 {
    getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit))
}

#[expect(clippy::disallowed_methods, reason = "passed on unchanged, not a setting of this daemon")]
fn library_path() -> Option<(&'static str, OsString)> {
    Some(("LD_LIBRARY_PATH", std::env::var_os("LD_LIBRARY_PATH")?))
}
