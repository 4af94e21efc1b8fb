//! The tools as child processes: nothing of our environment, no network, bounded in memory, time and output, and gone
//! with whoever waits for them.
//!
//! Each runs in a process group of its own, which is killed when its guard is dropped. The limits are set from outside
//! right after the start, before the tool has read a byte of a caller's file: its input comes through our pipe, or it is
//! still loading libraries.

use super::VideoError;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Protocols that a tool may open: the file that it is given, and our pipes.
pub(super) const PROTOCOLS: &str = "file,pipe";

/// What a tool says is kept up to here; the first messages tell what was wrong.
const KEPT_MESSAGES: usize = 4096;

/// What a tool may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Seconds of processor time, all threads together.
    pub(super) cpu: u64,
    /// Bytes of address space.
    pub(super) memory: u64,
    /// Bytes of the largest file that it may write.
    pub(super) file: u64,
}

/// A running tool. Dropped, it is killed with all that it started.
#[derive(Debug)]
pub(super) struct Tool {
    // First: it is dropped first, while the number of the group is surely not another's.
    group: Option<Group>,
    child: Child,
    messages: JoinHandle<String>,
    name: String,
}

/// How a tool ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// As the system tells it.
    pub(super) status: ExitStatus,
    /// What it said, its beginning.
    pub(super) messages: String,
    name: String,
}

impl Ended {
    /// Why it failed: [`VideoError::Exhausted`] when the system ended it for its limits, else [`VideoError::Tool`].
    pub(super) fn failure(&self) -> VideoError {
        if let Some(limit) = self.limit() {
            return VideoError::Exhausted(format!("{} used up its {limit}", self.name));
        }
        let said = self.messages.lines().next().unwrap_or("nothing");
        VideoError::Tool(format!("{} ended with {} and said: {said}", self.name, self.status))
    }

    /// The limit that ended it.
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
                return Some("room for files");
            }
        }
        None
    }
}

impl Tool {
    /// Starts `program`. Its input and output are pipes; what it says is collected.
    ///
    /// # Errors
    /// [`VideoError::Io`] when it cannot be started.
    pub(super) fn start<I: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = I>,
        folder: Option<&Path>,
        allowance: Allowance,
    ) -> Result<Self, VideoError> {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let failed = |source| VideoError::Io { what: format!("{name} could not be started"), source };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(["PATH", "LD_LIBRARY_PATH"].into_iter().filter_map(inherited))
            .env("LC_ALL", "C")
            // Each arena of the allocator is 64 MB of address space, and there would be one for each thread.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(failed)?;
        let group = child.id().and_then(Group::of);
        if let Some(group) = &group {
            group
                .limit(allowance)
                .map_err(|source| VideoError::Io { what: format!("the limits of {name} could not be set"), source })?;
        }
        let messages = tokio::spawn(collect(child.stderr.take()));
        Ok(Self { group, child, messages, name })
    }

    /// Its input; nothing the second time.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its output; nothing the second time.
    pub(super) fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`VideoError::Exhausted`] when it does not end within `patience`, [`VideoError::Io`] when the system fails.
    pub(super) async fn ended(mut self, patience: Duration) -> Result<Ended, VideoError> {
        drop(self.child.stdin.take());
        let status = tokio::time::timeout(patience, self.child.wait())
            .await
            .map_err(|_| VideoError::Exhausted(format!("{} did not end within {patience:?}", self.name)))?
            .map_err(|source| VideoError::Io { what: format!("{} could not be waited for", self.name), source })?;
        // Its number may belong to another by now.
        self.group = None;
        let messages = (&mut self.messages).await.unwrap_or_default();
        Ok(Ended { status, messages, name: std::mem::take(&mut self.name) })
    }
}

/// What a tool inherits: where it finds its libraries and its like.
#[expect(clippy::disallowed_methods, reason = "no setting of ours: it is handed on as it is")]
fn inherited(name: &'static str) -> Option<(&'static str, std::ffi::OsString)> {
    Some((name, std::env::var_os(name)?))
}

/// A process group, killed when this is dropped.
#[derive(Debug)]
struct Group {
    #[cfg(unix)]
    leader: rustix::process::Pid,
}

#[cfg(unix)]
impl Group {
    fn of(leader: u32) -> Option<Self> {
        let leader = rustix::process::Pid::from_raw(i32::try_from(leader).ok()?)?;
        Some(Self { leader })
    }

    #[cfg(target_os = "linux")]
    fn limit(&self, allowance: Allowance) -> std::io::Result<()> {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limits = [
            (Resource::Cpu, allowance.cpu),
            (Resource::As, allowance.memory),
            (Resource::Fsize, allowance.file),
            (Resource::Core, 0),
        ];
        for (resource, most) in limits {
            // The hard limit of processor time kills where the soft one was ignored.
            let hard = if resource == Resource::Cpu { most + 5 } else { most };
            match prlimit(Some(self.leader), resource, Rlimit { current: Some(most), maximum: Some(hard) }) {
                // It is gone already: that shows when it is waited for.
                Ok(_) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "only Linux sets limits from outside")]
    fn limit(&self, _allowance: Allowance) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(not(unix))]
impl Group {
    fn of(_leader: u32) -> Option<Self> {
        None
    }

    fn limit(&self, _allowance: Allowance) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        // An error means that all of it is gone.
        let _gone = rustix::process::kill_process_group(self.leader, rustix::process::Signal::KILL);
    }
}

/// Reads all of it, keeps the beginning.
async fn collect(source: Option<impl AsyncRead + Unpin>) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    if let Some(mut source) = source {
        while let Ok(read @ 1..) = source.read(&mut buffer).await {
            let room = KEPT_MESSAGES - kept.len();
            kept.extend_from_slice(&buffer[..read.min(room)]);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const AMPLE: Allowance = Allowance { cpu: 20, memory: 1 << 30, file: 1 << 20 };

    fn shell(script: &str, allowance: Allowance) -> Tool {
        Tool::start(Path::new("/bin/sh"), ["-c", script], None, allowance).unwrap()
    }

    async fn ended(script: &str, allowance: Allowance) -> Ended {
        shell(script, allowance).ended(Duration::from_secs(60)).await.unwrap()
    }

    fn is_running(process: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{process}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
    }

    #[tokio::test]
    async fn a_tool_sees_nothing_of_our_environment() {
        let tool = ended("env | cut -d= -f1 | sort | grep -v '^_$' | tr '\\n' ' ' >&2", AMPLE).await;
        assert!(tool.status.success());
        for name in tool.messages.split_whitespace() {
            assert!(["LC_ALL", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "PATH", "PWD"].contains(&name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_failure_says_what_the_tool_said_first() {
        let error = ended("echo first >&2; echo second >&2; exit 3", AMPLE).await.failure();
        assert!(
            matches!(&error, VideoError::Tool(said) if said.contains("first") && !said.contains("second")),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_talkative_tool_is_not_held_up() {
        let tool = ended("i=0; while [ $i -lt 20000 ]; do echo 0123456789 >&2; i=$((i+1)); done", AMPLE).await;
        assert!(tool.status.success());
        assert_eq!(tool.messages.len(), KEPT_MESSAGES);
    }

    #[tokio::test]
    async fn processor_time_is_limited() {
        // The limit may be set a moment after the start; a second is counted from the start.
        let error = ended("while :; do :; done", Allowance { cpu: 1, ..AMPLE }).await.failure();
        assert!(matches!(&error, VideoError::Exhausted(what) if what.contains("processor time")), "{error}");
    }

    #[tokio::test]
    async fn the_size_of_files_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("big");
        let script = format!("read line; exec dd if=/dev/zero of={} bs=65536 count=100", file.display());
        let mut tool = shell(&script, AMPLE);
        let input = tool.input();
        drop(input); // the limits are set by now
        let ended = tool.ended(Duration::from_secs(60)).await.unwrap();
        assert!(!ended.status.success());
        assert!(std::fs::metadata(&file).unwrap().len() <= AMPLE.file);
    }

    #[tokio::test]
    async fn who_takes_too_long_is_ended() {
        let error = shell("sleep 600", AMPLE).ended(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(error, VideoError::Exhausted(_)));
    }

    #[tokio::test]
    async fn a_tool_goes_with_its_guard_and_takes_its_children_along() {
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
        panic!("it is still there");
    }
}
