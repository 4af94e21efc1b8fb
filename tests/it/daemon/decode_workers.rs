//! Decode workers of a running daemon: one that crashes or hangs costs its own request only.
//!
//! The daemon and its workers are the shipped program. A worker is stopped before it gets a picture, so that it has one when it
//! is aborted, or when its time is over. Decoders that crash and loop by themselves are in no program but this one: of
//! `a_decoder_that_crashes_or_loops_costs_its_request_only` it is the daemon and its workers too. What a decoder that an attacker
//! took over may try is tested beside the code (`src/codec/sandbox/tests.rs`).

#![cfg(all(target_os = "linux", feature = "heic"))]

use crate::cli::serve::{Daemon, KEY, Running, serve};
use crate::support::child_process::{child_command, child_input, spawn};
use crate::support::command::{backdrop, end_after, golden_picture, longest_run, photo, stderr, with_variables};
use crate::support::hang_guard::until;
use backdrop::cli::Cli;
use backdrop::codec::sandbox::{self, Program, SandboxMode};
use clap::Parser;
use reqwest::Response;
use reqwest::multipart::{Form, Part};
use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use serde_json::Value;
use std::fs;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use tokio::task::JoinHandle;

const FAULTY_DAEMON: &str = concat!(module_path!(), "::daemon_with_faulty_decoders");
const FAULTY_WORKER: &str = concat!(module_path!(), "::worker_with_faulty_decoders");
/// The last bytes of a file whose decoder crashes, and of one whose decoder loops.
const CRASH: &[u8] = b"crash";
const LOOP: &[u8] = b"loop";

fn heic() -> PathBuf {
    golden_picture("heic-shoe.heic")
}

impl Running {
    /// Starts the daemon of `program`.
    fn of_program(program: Command, data: &Path) -> Self {
        Self::of(Daemon::spawn(serve(program, data).env("BACKDROP_BOOTSTRAP_KEY", KEY).stdout(Stdio::null())))
    }

    /// Starts the daemon [`daemon_with_faulty_decoders`].
    fn with_faulty_decoders(data: &Path) -> Self {
        let mut command = with_variables(child_command(FAULTY_DAEMON), &backdrop());
        command.envs([("BACKDROP_LOG_FORMAT", "json"), ("BACKDROP_BOOTSTRAP_KEY", KEY)]).stdout(Stdio::null());
        Self::of(Daemon(spawn(&mut command, data.to_str().expect("a plain path"))))
    }

    /// Sends a picture; the response arrives later.
    fn send(&self, file: &Path) -> JoinHandle<Response> {
        self.send_bytes(fs::read(file).expect("a picture"))
    }

    fn send_bytes(&self, bytes: Vec<u8>) -> JoinHandle<Response> {
        let form = Form::new().part("file", Part::bytes(bytes));
        let request = self.post("/remove").multipart(form);
        tokio::spawn(async move { request.send().await.expect("a response") })
    }

    async fn remove(&self, file: &Path) -> u16 {
        self.send(file).await.expect("no panic").status().as_u16()
    }

    async fn readiness(&self) -> Value {
        serde_json::from_str(&self.page("/readyz").await).expect("JSON")
    }

    /// Waits until two workers are ready, and stops them.
    async fn stopped_workers(&self) -> Vec<Pid> {
        until("two workers are ready", async || workers_of(self.daemon.0.id()).len() >= 2).await;
        // A picture, so that the last one started has given up its rights.
        assert_eq!(self.remove(&heic()).await, 200);
        let workers = workers_of(self.daemon.0.id());
        for worker in &workers {
            kill_process(*worker, Signal::STOP).expect("it runs");
        }
        workers
    }

    /// Checks that the picture of `unlucky` is refused for `reason`, and the next one of `good` is not.
    async fn assert_refused(&self, unlucky: JoinHandle<Response>, reason: &str, good: &Path) {
        let response = unlucky.await.expect("no panic");
        assert_eq!(response.status(), 400);
        let error = response.json::<Value>().await.expect("JSON")["error"].take();
        assert_eq!(error["code"], "invalid_image", "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(reason)), "{error}");
        assert_eq!(self.remove(good).await, 200, "the request after it");
    }

    /// Checks that one worker crashed and one took too long.
    async fn assert_one_of_each_ended(&self) {
        let metrics = self.page("/metrics").await;
        for ended in ["crashed", "deadline"] {
            let line = format!("backdrop_decode_workers_ended_total{{reason=\"{ended}\"}} 1");
            assert!(metrics.contains(&line), "{line} is not in {metrics}");
        }
    }

    /// Waits until a stopped worker was sent a picture.
    async fn until_busy(&self) {
        until("a worker is busy", async || self.page("/metrics").await.contains("backdrop_decode_workers_busy 1"))
            .await;
        // The gauge is raised a moment before the picture is sent.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The decode workers of a daemon.
fn workers_of(daemon: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_worker = |id: &i32| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default();
        let stat = read("stat");
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(&daemon.to_string()) && read("cmdline").contains("decode-worker")
    };
    ids.filter(is_worker).filter_map(Pid::from_raw).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_crashes_or_hangs_costs_its_request_only() {
    let folder = tempfile::tempdir().unwrap();
    // A single thread for CPU work: it is not the one that waits for a decoder.
    let running = Running::start(folder.path(), &[("BACKDROP_ENGINE_CPU_WORKERS", "1")]);

    // One that crashes.
    let workers = running.stopped_workers().await;
    let unlucky = running.send(&heic());
    running.until_busy().await;
    assert_eq!(running.remove(&photo("coffee.jpg")).await, 200, "a request beside it");
    for worker in &workers {
        kill_process(*worker, Signal::ABORT).expect("it is stopped");
        kill_process(*worker, Signal::CONT).expect("it is stopped");
    }
    // An idle one that ended only after it was sent the next picture would be a second crash.
    let daemon = running.daemon.0.id();
    let have_ended = async || !workers_of(daemon).iter().any(|worker| workers.contains(worker));
    until("the aborted workers have ended", have_ended).await;
    running.assert_refused(unlucky, "HEIC decoder failed", &heic()).await;

    // One that hangs.
    let workers = running.stopped_workers().await;
    let unlucky = running.send(&heic());
    running.until_busy().await;
    assert_eq!(running.remove(&photo("coffee.jpg")).await, 200, "a request beside it");
    assert!(!unlucky.is_finished(), "it still hangs");
    running.assert_refused(unlucky, "takes more than 20s", &photo("coffee.jpg")).await;
    for worker in workers {
        // The other one; the late one is gone.
        let _gone = kill_process(worker, Signal::CONT);
    }
    assert_eq!(running.remove(&heic()).await, 200, "the next of its format");
    running.assert_one_of_each_ended().await;
}

#[test]
#[ignore = "the daemon of a_decoder_that_crashes_or_loops_costs_its_request_only"]
fn daemon_with_faulty_decoders() {
    let data = child_input();
    let worker = child_command(FAULTY_WORKER);
    // Of two calls the first one counts: the daemon's own has no effect.
    sandbox::install_program(SandboxMode::All, Program::new("/proc/self/exe", worker.get_args()));
    let serve = ["backdrop", "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"];
    let ended = Cli::parse_from(serve.into_iter().chain([data.as_str()])).run();
    panic!("the daemon ended: {ended:?}");
}

#[test]
#[ignore = "a worker of daemon_with_faulty_decoders"]
fn worker_with_faulty_decoders() {
    assert_eq!(sandbox::run_with(fail_by_last_bytes), ExitCode::SUCCESS);
}

fn fail_by_last_bytes(file: &[u8]) {
    if file.ends_with(CRASH) {
        // SAFETY: it is the end of this process, on purpose.
        unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
    }
    if file.ends_with(LOOP) {
        loop {
            black_box(0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decoder_that_crashes_or_loops_costs_its_request_only() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::with_faulty_decoders(folder.path());
    let good = photo("coffee.jpg");
    let faulty = |end: &[u8]| [&fs::read(&good).unwrap()[..], end].concat();

    let unlucky = running.send_bytes(faulty(CRASH));
    assert_eq!(running.remove(&good).await, 200, "a request beside it");
    running.assert_refused(unlucky, "JPEG decoder failed", &good).await;

    let unlucky = running.send_bytes(faulty(LOOP));
    running.until_busy().await;
    assert_eq!(running.remove(&good).await, 200, "a request beside it, of the same format");
    assert!(!unlucky.is_finished(), "it still loops");
    running.assert_refused(unlucky, "takes more than 20s", &good).await;
    running.assert_one_of_each_ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_interface_says_what_is_decoded_by_workers_and_they_end_with_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(folder.path(), &[("BACKDROP_DECODE_SANDBOX", "all")]);
    assert_eq!(running.remove(&photo("coffee.jpg")).await, 200);
    let ready = running.readiness().await;
    let sandbox = ready["decode_sandbox"].as_str().expect("text");
    // What follows the mode is what this machine lacks.
    assert_eq!(sandbox.split(',').next(), Some("all"), "{ready}");
    let workers = workers_of(running.daemon.0.id());
    assert!(!workers.is_empty());
    running.daemon.0.kill().expect("it runs");
    running.daemon.0.wait().expect("it ends");
    // One that has ended has no command line, also where its new parent never waits for it.
    let is_over = |worker: &Pid| {
        fs::read(format!("/proc/{}/cmdline", worker.as_raw_nonzero())).map_or(true, |line| line.is_empty())
    };
    until("the workers end with their daemon", async || workers.iter().all(is_over)).await;

    let running = Running::start(folder.path(), &[("BACKDROP_DECODE_SANDBOX", "off")]);
    assert_eq!(running.remove(&heic()).await, 200);
    assert_eq!(running.readiness().await["decode_sandbox"], "off");
    assert!(workers_of(running.daemon.0.id()).is_empty());
}

/// Has the system lack seccomp and Landlock for a process and those that it starts: their calls fail as in a kernel without them.
fn without_confinement(command: &mut Command) {
    let calls = [libc::SYS_seccomp, libc::SYS_landlock_create_ruleset].map(|call| (call, Vec::new()));
    let (other, unknown) = (SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32));
    let architecture = TargetArch::try_from(std::env::consts::ARCH).expect("seccomp has filters for it");
    let filter = SeccompFilter::new(calls.into_iter().collect(), other, unknown, architecture).expect("a valid filter");
    let program = BpfProgram::try_from(filter).expect("a short filter");
    let before_exec = move || seccompiler::apply_filter(&program).map_err(|_| io::Error::last_os_error());
    // SAFETY: between `fork` and `exec` the closure makes system calls only.
    unsafe { command.pre_exec(before_exec) };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_names_what_the_system_lacks_to_confine_decoders_and_ffmpeg() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = backdrop();
    without_confinement(&mut command);
    let running = Running::of_program(command, folder.path());
    assert_eq!(running.remove(&heic()).await, 200, "a worker runs with the rest");
    let ready = running.readiness().await;
    assert_eq!(ready["decode_sandbox"], "heic, without seccomp and landlock");
    if ready["video"] == "ready" {
        let sandbox = ready["video_sandbox"].as_str().unwrap_or_default();
        assert!(sandbox.starts_with("without landlock"), "{ready}");
    }
}

#[test]
fn the_command_line_decodes_the_same_pixels_in_workers() {
    let folder = tempfile::tempdir().unwrap();
    let results = ["off", "heic", "all"].map(|mode| {
        let out = folder.path().join(mode);
        let mut remove = backdrop();
        remove.arg("remove").args([heic(), photo("chelsea.png")]).args(["--decode-sandbox", mode, "-o"]).arg(&out);
        let output = remove.output().expect("it runs");
        assert!(output.status.success(), "{mode}: {}", stderr(&output));
        ["heic-shoe.png", "chelsea.png"].map(|name| fs::read(out.join(name)).expect("a result"))
    });
    assert!(results.iter().all(|result| *result == results[0]), "the modes differ");
}

#[test]
fn a_worker_that_is_started_by_hand_explains_itself() {
    let output = backdrop().arg("decode-worker").stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("never by hand"), "{}", stderr(&output));
    let help = backdrop().arg("--help").output().expect("it runs");
    assert!(!String::from_utf8_lossy(&help.stdout).contains("decode-worker"));
}

/// The program as another user than root, who reaches it and the data folder in `folder`.
fn unprivileged(folder: &Path) -> Command {
    let mut command = backdrop();
    if rustix::process::geteuid().is_root() {
        const NOBODY: u32 = 65_534;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        let program = folder.join("backdrop");
        fs::copy(command.get_program(), &program).unwrap();
        fs::create_dir(folder.join("data")).unwrap();
        std::os::unix::fs::chown(folder.join("data"), Some(NOBODY), Some(NOBODY)).unwrap();
        command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY).env("BACKDROP_DEVICE", "cpu");
        end_after(&mut command, longest_run());
    }
    command
}

/// The files in `/proc` of a process whose memory others may read belong to its user, those of one whose memory they may not
/// to root. So the daemon runs as another user than root here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_the_daemon_and_its_workers_is_closed_to_other_processes_of_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::of_program(unprivileged(folder.path()), &folder.path().join("data"));
    let daemon = running.daemon.0.id();
    let is_closed = |process: u32| {
        let owner = |name: &str| fs::metadata(format!("/proc/{process}/{name}")).map(|metadata| metadata.uid()).ok();
        [owner("mem"), owner("environ")] == [Some(0); 2]
    };
    assert!(is_closed(daemon));
    // One that has just started gives up its rights a moment later.
    let are_closed = async || {
        let workers = workers_of(daemon);
        workers.len() >= 2 && workers.iter().all(|worker| is_closed(worker.as_raw_nonzero().get().unsigned_abs()))
    };
    until("two workers have closed their memory", are_closed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_has_one_thread_and_can_gain_no_rights() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), &[]);
    assert_eq!(running.remove(&heic()).await, 200);
    let sandbox = running.readiness().await["decode_sandbox"].clone();
    let has_seccomp = !sandbox.as_str().expect("text").contains("seccomp");
    let expected = format!("Threads: 1, NoNewPrivs: 1, Seccomp: {}", if has_seccomp { 2 } else { 0 });
    let are_confined = async || {
        let workers = workers_of(running.daemon.0.id());
        workers.len() >= 2
            && workers.iter().all(|worker| {
                let path = format!("/proc/{}/status", worker.as_raw_nonzero());
                let status = fs::read_to_string(path).unwrap_or_default();
                let lines = ["Threads:", "NoNewPrivs:", "Seccomp:"]
                    .map(|name| status.lines().find(|line| line.starts_with(name)));
                lines.map(|line| line.unwrap_or_default().replace('\t', " ")).join(", ") == expected
            })
    };
    until("two workers have given up their rights", are_confined).await;
}
