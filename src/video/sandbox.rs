//! Runs ffmpeg and ffprobe as child processes: clean environment, no network protocols, limited CPU time, memory and
//! output, and on Linux without a network and with no files but their job's.
//!
//! Each runs in a separate process group, which is killed when its [`ToolProcess`] is dropped. Limits and confinement
//! are set before `exec` (`confinement`).

use super::VideoError;
#[cfg(target_os = "linux")]
use super::confinement::{self, Confinement};
use super::tool_limits::{Files, ResourceLimits};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Protocols that ffmpeg may open: its input file and our pipes.
pub(super) const PROTOCOLS: &str = "file,pipe";

/// Bytes kept of the beginning and of the end of standard error: the first messages name the cause of a failure, the
/// last ones whether the file was completed.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Exit codes of ffmpeg after a signal that it catches, such as SIGTERM and SIGXCPU: it ends its output early but
/// complete, and after the fourth signal incomplete.
const SIGNALLED: [i32; 2] = [255, 123];

/// Time that standard error may stay open after the process has ended.
const MESSAGES_END: Duration = Duration::from_secs(5);

/// A running process. When dropped, it is killed with its children.
#[derive(Debug)]
pub(super) struct ToolProcess {
    // The first field is dropped first, while the group's id cannot have been reused.
    group: Option<ProcessGroup>,
    child: Child,
    messages: JoinHandle<String>,
    name: String,
    #[cfg(target_os = "linux")]
    confinement: Confinement,
}

#[derive(Debug)]
pub(super) struct Exit {
    pub(super) status: ExitStatus,
    /// Beginning and end of standard error.
    pub(super) messages: String,
    name: String,
}

impl Exit {
    /// The error of a failed process: [`VideoError::Exhausted`] when a limit ended it, else [`VideoError::Tool`].
    pub(super) fn failure(&self) -> VideoError {
        if let Some(limit) = self.limit() {
            return VideoError::Exhausted(format!("{} reached its limit on {limit}", self.name));
        }
        let message = self.messages.lines().next().unwrap_or("no message");
        VideoError::Tool(format!("{} ended with {}: {message}", self.name, self.status))
    }

    /// Whether it was killed from outside: by the system for lack of memory, or with the daemon's process group. ffmpeg
    /// catches the signal of the limit on processor time, which then counts as well.
    pub(super) fn is_killed(&self) -> bool {
        if self.status.code().is_some_and(|code| SIGNALLED.contains(&code)) {
            return true;
        }
        #[cfg(unix)]
        {
            use rustix::process::Signal;
            use std::os::unix::process::ExitStatusExt;
            let signal = self.status.signal();
            if [Signal::KILL, Signal::TERM].iter().any(|killing| signal == Some(killing.as_raw())) {
                return true;
            }
        }
        false
    }

    fn limit(&self) -> Option<&'static str> {
        #[cfg(unix)]
        {
            use rustix::process::Signal;
            use std::os::unix::process::ExitStatusExt;
            let signal = self.status.signal()?;
            if signal == Signal::XCPU.as_raw() {
                return Some("processor time");
            }
            if signal == Signal::XFSZ.as_raw() {
                return Some("file size");
            }
        }
        None
    }
}

impl ToolProcess {
    /// Starts `program` with pipes as standard input and output; collects standard error. Fails with [`VideoError::Io`]
    /// when it cannot be started.
    pub(super) fn start<I: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = I>,
        files: Files<'_>,
        limits: ResourceLimits,
    ) -> Result<Self, VideoError> {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let failed = |source| VideoError::Io { what: format!("{name} could not be started"), source };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(["PATH", "LD_LIBRARY_PATH"].into_iter().filter_map(inherited))
            .env("LC_ALL", "C")
            // Each allocator arena takes 64 MB of address space, by default one per thread.
            .env("MALLOC_ARENA_MAX", "2")
            // Every frame allocates up to 8.3 MB: from the heap, which keeps the pages, instead of fresh ones.
            .env("MALLOC_MMAP_THRESHOLD_", "33554432")
            .env("MALLOC_TRIM_THRESHOLD_", "134217728")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        if let Some(folder) = files.folder {
            command.current_dir(folder);
        }
        #[cfg(target_os = "linux")]
        let prepared = confinement::confine(&mut command, program, files, limits)
            .map_err(|source| VideoError::Io { what: format!("{name} could not be confined"), source })?;
        #[cfg(not(target_os = "linux"))]
        let _ = limits;
        let mut child = command.spawn().map_err(failed)?;
        // Drops the command's descriptors that `confine` opened.
        drop(command);
        let group = child.id().and_then(ProcessGroup::of);
        let messages = tokio::spawn(collect(child.stderr.take()));
        #[cfg(target_os = "linux")]
        let confinement = prepared.of_started().map_err(failed)?;
        Ok(Self {
            group,
            child,
            messages,
            name,
            #[cfg(target_os = "linux")]
            confinement,
        })
    }

    #[cfg(target_os = "linux")]
    pub(super) const fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// Standard input; `None` the second time.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Standard output; `None` the second time.
    pub(super) fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Closes standard input and waits for the exit. Fails with [`VideoError::Exhausted`] when it does not exit within
    /// `timeout`, [`VideoError::Io`] when the system fails.
    pub(super) async fn wait(mut self, timeout: Duration) -> Result<Exit, VideoError> {
        drop(self.child.stdin.take());
        let status = tokio::time::timeout(timeout, self.child.wait())
            .await
            .map_err(|_| VideoError::Exhausted(format!("{} did not exit within {timeout:?}", self.name)))?
            .map_err(|source| VideoError::Io { what: format!("{} could not be waited for", self.name), source })?;
        // The group's id may be reused by now.
        self.group = None;
        // Complete by now, unless a child that left the group still holds standard error.
        let messages = tokio::time::timeout(MESSAGES_END, &mut self.messages).await;
        let messages = messages.ok().and_then(Result::ok).unwrap_or_default();
        Ok(Exit { status, messages, name: std::mem::take(&mut self.name) })
    }
}

/// An environment variable that a process inherits: search paths of programs and libraries.
#[expect(clippy::disallowed_methods, reason = "passed on unchanged, not a setting of this daemon")]
fn inherited(name: &'static str) -> Option<(&'static str, std::ffi::OsString)> {
    Some((name, std::env::var_os(name)?))
}

/// A process group, killed when dropped.
#[derive(Debug)]
struct ProcessGroup {
    #[cfg(unix)]
    leader: rustix::process::Pid,
}

#[cfg(unix)]
impl ProcessGroup {
    fn of(leader: u32) -> Option<Self> {
        let leader = rustix::process::Pid::from_raw(i32::try_from(leader).ok()?)?;
        Some(Self { leader })
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    fn of(_leader: u32) -> Option<Self> {
        None
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // An error means that the whole group has exited.
        let _gone = rustix::process::kill_process_group(self.leader, rustix::process::Signal::KILL);
    }
}

/// Reads `source` to its end and keeps the beginning and the end.
async fn collect(source: Option<impl AsyncRead + Unpin>) -> String {
    let (mut first, mut last, mut buffer) = (Vec::new(), Vec::new(), [0; MAX_MESSAGE_BYTES]);
    if let Some(mut source) = source {
        while let Ok(read @ 1..) = source.read(&mut buffer).await {
            let (begin, rest) = buffer[..read].split_at(read.min(MAX_MESSAGE_BYTES - first.len()));
            first.extend_from_slice(begin);
            last.extend_from_slice(rest);
            last.drain(..last.len().saturating_sub(MAX_MESSAGE_BYTES));
        }
    }
    first.append(&mut last);
    String::from_utf8_lossy(&first).into_owned()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const AMPLE: ResourceLimits = ResourceLimits { cpu: 20, memory: 1 << 30, file: 1 << 20 };

    fn shell(script: &str, limits: ResourceLimits) -> ToolProcess {
        ToolProcess::start(Path::new("/bin/sh"), ["-c", script], Files::default(), limits).unwrap()
    }

    async fn run(script: &str, limits: ResourceLimits) -> Exit {
        shell(script, limits).wait(Duration::from_secs(60)).await.unwrap()
    }

    fn is_running(process: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{process}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
    }

    #[tokio::test]
    async fn a_process_inherits_only_the_listed_environment() {
        let tool = run("env | cut -d= -f1 | sort | grep -v '^_$' | tr '\\n' ' ' >&2", AMPLE).await;
        assert!(tool.status.success());
        let listed = [
            "LC_ALL",
            "LD_LIBRARY_PATH",
            "MALLOC_ARENA_MAX",
            "MALLOC_MMAP_THRESHOLD_",
            "MALLOC_TRIM_THRESHOLD_",
            "PATH",
            "PWD",
        ];
        for name in tool.messages.split_whitespace() {
            assert!(listed.contains(&name), "{name}");
        }
    }

    #[tokio::test]
    async fn the_first_and_the_last_messages_are_kept_and_the_first_is_that_of_a_failure() {
        // More than a pipe holds: the process is not blocked.
        let tool = run("echo first >&2; seq 99999 >&2; echo last >&2", AMPLE).await;
        assert!(tool.messages.starts_with("first\n1\n") && tool.messages.ends_with("99999\nlast\n"), "{tool:?}");
        assert_eq!(tool.messages.len(), 2 * MAX_MESSAGE_BYTES);
        let error = tool.failure();
        assert!(
            matches!(&error, VideoError::Tool(text) if text.contains("first") && !text.contains("last")),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_process_that_left_its_group_is_not_waited_for() {
        // `run` waits for a minute.
        let tool = run("setsid sleep 90 & sleep 1", AMPLE).await;
        assert!(tool.status.success(), "{tool:?}");
    }

    #[tokio::test]
    async fn processor_time_is_limited() {
        let error = run("while :; do :; done", ResourceLimits { cpu: 1, ..AMPLE }).await.failure();
        assert!(matches!(&error, VideoError::Exhausted(what) if what.contains("processor time")), "{error}");
    }

    #[tokio::test]
    async fn a_process_reads_its_clip_and_writes_into_its_folder_and_uses_no_other_file() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (clip, other) = (elsewhere.path().join("clip"), elsewhere.path().join("other"));
        std::fs::write(&clip, "a clip").unwrap();
        std::fs::write(&other, "of somebody else").unwrap();
        let files = Files { input: Some(&clip), folder: Some(folder.path()) };
        let run = async |script: String| {
            let tool = ToolProcess::start(Path::new("/bin/sh"), ["-c", &script], files, AMPLE).unwrap();
            assert!(tool.confinement().landlock > 0, "without Landlock this test shows nothing");
            tool.wait(Duration::from_secs(60)).await.unwrap().status.success()
        };
        assert!(run(format!("cat '{}' > result", clip.display())).await);
        assert_eq!(std::fs::read_to_string(folder.path().join("result")).unwrap(), "a clip");
        assert!(!run(format!("cat '{}'", other.display())).await, "another file was read");
        assert!(!run("cat /etc/passwd".to_owned()).await, "a file of the system was read");
        assert!(!run(format!("echo > '{}'", clip.display())).await, "the clip was changed");
        assert!(!run(format!("echo > '{}'", elsewhere.path().join("new").display())).await, "a file was made");
        assert!(run("mv result other && rm other && echo > result".to_owned()).await);
        // The daemon would follow such a link.
        assert!(!run(format!("ln -s '{}' link", other.display())).await, "a symbolic link was made");
        assert!(!run("mkfifo pipe".to_owned()).await, "a pipe was made");
        let are_signals_scoped = shell("", AMPLE).confinement().landlock >= 6;
        assert!(!run("kill -0 $PPID".to_owned()).await || !are_signals_scoped, "a signal reached the daemon");
    }

    #[tokio::test]
    async fn a_process_has_no_network_where_the_system_allows_a_namespace() {
        let tool = shell("read line", AMPLE);
        let network = tool.confinement().network;
        // An active device has an address, even the loopback device. The process cannot read these tables itself.
        let addresses = |process: &str| {
            let read = |table: &str| std::fs::read_to_string(format!("/proc/{process}/net/{table}"));
            // The second file is missing on systems without IPv6.
            read("fib_trie").unwrap() + &read("if_inet6").unwrap_or_default()
        };
        let process = tool.child.id().unwrap().to_string();
        assert!(addresses("self").contains("127.0.0.1"), "without a network this test shows nothing");
        assert_eq!(addresses(&process).is_empty(), network, "{}", addresses(&process));
        drop(tool);
        // If `unshare` of util-linux succeeds here, the process can make a namespace too.
        let allowed = |arguments: &[&str]| {
            std::process::Command::new("unshare").args(arguments).arg("true").status().is_ok_and(|it| it.success())
        };
        assert_eq!(network, allowed(&["-n"]) || allowed(&["-U", "-n"]));
    }

    #[tokio::test]
    async fn every_limit_is_set_before_the_program_starts() {
        use rustix::process::{Resource, getrlimit};
        let tool = shell("read line", AMPLE);
        let process = tool.child.id().unwrap().to_string();
        // Soft and hard limit, without those that are `unlimited`.
        let limits = |process: &str, of: &str| -> Vec<u64> {
            let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
            let row = limits.lines().find_map(|line| line.strip_prefix(of)).unwrap();
            row.split_whitespace().map_while(|limit| limit.parse().ok()).collect()
        };
        for (of, limit) in [
            ("Max cpu time", AMPLE.cpu),
            ("Max address space", AMPLE.memory),
            ("Max file size", AMPLE.file),
            ("Max core file size", 0),
            ("Max open files", 512),
        ] {
            assert_eq!(limits(&process, of).first(), Some(&limit), "{of}");
        }
        let tasks = |process: &str| limits(process, "Max processes");
        let limited = tasks(&process);
        if confinement::is_pid_namespace_initial() {
            let own = getrlimit(Resource::Nproc).maximum.unwrap_or(u64::MAX);
            let expected = own.min(confinement::tasks_of_user() + confinement::MAX_TASKS);
            // Other tests start and end tasks meanwhile.
            let is_near = |limit: &u64| limit.abs_diff(expected) < confinement::MAX_TASKS;
            assert!(limited.len() == 2 && limited.iter().all(is_near), "{limited:?}, expected {expected}");
        } else {
            assert_eq!(limited, tasks("self"));
        }
    }

    #[tokio::test]
    async fn a_process_killed_from_outside_is_distinguished_from_one_that_fails() {
        for (script, is_killed) in [
            ("kill -9 $$", true),
            ("kill -15 $$", true),
            ("exit 255", true),
            ("exit 123", true),
            ("kill -11 $$", false),
            ("exit 1", false),
        ] {
            let exit = run(script, AMPLE).await;
            assert!(exit.is_killed() == is_killed && matches!(exit.failure(), VideoError::Tool(_)), "{script}");
        }
    }

    #[tokio::test]
    async fn a_process_that_exceeds_its_timeout_is_killed() {
        let error = shell("sleep 600", AMPLE).wait(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(error, VideoError::Exhausted(_)));
    }

    #[tokio::test]
    async fn dropping_a_process_kills_its_whole_group() {
        let mut tool = shell("sleep 600 & echo $!; wait", AMPLE);
        let mut line = [0; 16];
        let read = tool.output().unwrap().read(&mut line).await.unwrap();
        let child: u32 = std::str::from_utf8(&line[..read]).unwrap().trim().parse().unwrap();
        let leader = tool.child.id().unwrap();
        assert!(is_running(child) && is_running(leader));
        drop(tool);
        for _ in 0..2000 {
            if !is_running(child) && !is_running(leader) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the process group is still running");
    }
}
