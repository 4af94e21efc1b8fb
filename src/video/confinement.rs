//! Confines ffmpeg between `fork` and `exec`: limits, an empty network namespace, and a Landlock ruleset of the job's
//! folder and the system's libraries.
//!
//! Everything that allocates or opens a file is prepared before the `fork`; after it only system calls are made.
//! Network namespaces and Landlock depend on the system. [`Confinement::missing`] names absent protections.

use super::tool_limits::{Files, ResourceLimits};
use crate::codec::sandbox::landlock_version;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::set_no_new_privs;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::process::Command;

/// Folders of programs, their libraries and facts about the processors.
const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/etc/localtime",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system",
    "/dev/urandom",
];
/// Devices that may be written.
const DEVICES: &[&str] = &["/dev/null"];
/// The newest Landlock rights known here; older kernels enforce the rights that they know.
const NEWEST: ABI = ABI::V6;
/// Rights of a process in its folder. No symbolic links, pipes or sockets: the daemon would follow or wait for them.
const FOLDER: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | RemoveFile
});
/// Maximum number of open files of a process.
const MAX_FILES: u64 = 512;
/// Processes and threads of the user in addition to those already running, outside of containers. Root is exempt.
pub(super) const MAX_TASKS: u64 = 512;

/// The protections that the system offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confinement {
    /// Version of Landlock's interface; 0 without Landlock.
    pub(super) landlock: i64,
    /// Whether the process has a separate network namespace without any device.
    pub(super) network: bool,
}

impl Confinement {
    #[must_use]
    pub(super) fn missing(self) -> Vec<&'static str> {
        let Self { landlock, network } = self;
        let is_since = |version| landlock == 0 || landlock >= version;
        let all = [
            ("landlock", landlock > 0),
            ("landlock's rules for TCP", network || is_since(4)),
            ("landlock's scope for signals", is_since(6)),
            ("a network namespace", network),
        ];
        all.into_iter().filter(|(_, active)| !active).map(|(name, _)| name).collect()
    }
}

/// Confines the process that `command` will start. Fails when a required file cannot be opened.
pub(super) fn confine(
    command: &mut Command,
    program: &Path,
    files: Files<'_>,
    limits: ResourceLimits,
) -> io::Result<Prepared> {
    let ruleset: Option<OwnedFd> = ruleset(program, files).map_err(io::Error::other)?.into();
    let landlock = if ruleset.is_some() { landlock_version() } else { 0 };
    // Closed by `exec`; a byte reports that there is no namespace.
    let (reader, writer) = io::pipe()?;
    let limits = resources(limits);
    let before_exec = move || {
        for (resource, limit) in &limits {
            setrlimit(*resource, *limit)?;
        }
        // Privileged, or as the owner of a new user namespace; without a namespace if neither is allowed.
        // SAFETY: changes namespaces of this process, which has one thread.
        let unshared = |flags| unsafe { libc::unshare(flags) } == 0;
        if !unshared(libc::CLONE_NEWNET) && !unshared(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) {
            rustix::io::write(&writer, &[0])?;
        }
        set_no_new_privs(true)?;
        if let Some(ruleset) = &ruleset {
            // SAFETY: takes a descriptor and flags.
            let restricted = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
            if restricted != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between `fork` and `exec` the closure makes system calls only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(before_exec) };
    Ok(Prepared { landlock, reader })
}

/// A confined command whose process has not started.
#[derive(Debug)]
pub(super) struct Prepared {
    landlock: i64,
    reader: PipeReader,
}

impl Prepared {
    /// The protections of the process that was started with the command, which must be dropped. Warns, once, of missing
    /// protections. Fails when the report of the process cannot be read.
    pub(super) fn of_started(mut self) -> io::Result<Confinement> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes)?;
        let confinement = Confinement { landlock: self.landlock, network: bytes.is_empty() };
        let missing = confinement.missing();
        if !missing.is_empty() && !WARNED.swap(true, Ordering::Relaxed) {
            tracing::warn!(?missing, "this system cannot confine ffmpeg completely");
        }
        Ok(confinement)
    }
}

/// The file system and network rights of the process.
fn ruleset(program: &Path, files: Files<'_>) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        // No rule follows: TCP is forbidden even without a network namespace.
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(libraries(program), read))?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::from_file(NEWEST)))?;
    let ruleset = with_rule(ruleset, files.input, AccessFs::ReadFile.into())?;
    with_rule(ruleset, files.folder, FOLDER)
}

/// Unlike `path_beneath_rules`, fails for a missing path.
fn with_rule(
    ruleset: RulesetCreated,
    path: Option<&Path>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Some(path) = path else { return Ok(ruleset) };
    match PathFd::new(path) {
        Ok(opened) => ruleset.add_rule(PathBeneath::new(opened, access)),
        // The process itself reports the error.
        Err(_) => Ok(ruleset),
    }
}

/// The program with its folder, the library folder next to it, and the configured library folders.
#[expect(clippy::disallowed_methods, reason = "the linker's own variable, not a setting of this daemon")]
fn libraries(program: &Path) -> Vec<PathBuf> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let folder = program.parent();
    let beside = folder.and_then(Path::parent).map(|parent| ["lib", "lib64"].map(|name| parent.join(name)));
    let configured = std::env::var_os("LD_LIBRARY_PATH");
    let configured = configured.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute());
    folder.map(Path::to_owned).into_iter().chain(beside.into_iter().flatten()).chain(configured).collect()
}

fn resources(limits: ResourceLimits) -> Vec<(Resource, Rlimit)> {
    let tasks = is_pid_namespace_initial().then(|| tasks_of_user() + MAX_TASKS);
    [
        // The hard limit on processor time kills a process that ignores the soft limit's signal.
        (Resource::Cpu, limits.cpu, limits.cpu + 5),
        (Resource::As, limits.memory, limits.memory),
        (Resource::Fsize, limits.file, limits.file),
        (Resource::Core, 0, 0),
        (Resource::Nofile, MAX_FILES, MAX_FILES),
    ]
    .into_iter()
    .chain(tasks.map(|tasks| (Resource::Nproc, tasks, tasks)))
    .map(|(resource, soft, hard)| {
        // The hard limit of this process is the highest that it may set.
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        (resource, Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) })
    })
    .collect()
}

/// Whether `/proc` shows every task that the system counts. The system counts the user's tasks in all namespaces,
/// including the daemon's threads. In a container `/proc` shows fewer; containers have a separate limit. The number is
/// `PROC_PID_INIT_INO` of Linux.
pub(super) fn is_pid_namespace_initial() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == 0xEFFF_FFFC)
}

/// Number of processes and threads of this user.
pub(super) fn tasks_of_user() -> u64 {
    let user = rustix::process::geteuid().as_raw();
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let folders = processes.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    // A folder's links are itself, its parent, and one for each thread.
    let threads = folders.filter_map(|entry| std::fs::metadata(entry.path().join("task")).ok());
    threads.filter(|task| task.uid() == user).map(|task| task.nlink().saturating_sub(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let missing = |landlock, network| Confinement { landlock, network }.missing();
        assert_eq!(missing(6, true), [""; 0]);
        assert_eq!(missing(3, true), ["landlock's scope for signals"]);
        assert_eq!(
            missing(3, false),
            ["landlock's rules for TCP", "landlock's scope for signals", "a network namespace"]
        );
        assert_eq!(missing(0, false), ["landlock", "a network namespace"]);
    }

    #[test]
    fn the_tasks_of_this_process_count_as_tasks_of_its_user() {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(tasks_of_user() >= threads as u64);
    }
}
