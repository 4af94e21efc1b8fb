//! A PostgreSQL server of a test, in a temporary folder, in memory if there is room. `make test-packages` installs its programs.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The programs of a server.
const PROGRAMS: [&str; 5] = ["initdb", "pg_basebackup", "pg_isready", "postgres", "psql"];

/// The folders of Debian's and Fedora's packages.
const FOLDERS: [&str; 2] = ["/usr/lib/postgresql", "/usr"];

/// The password in every URL. The server trusts this machine and does not read it.
pub(crate) const PASSWORD: &str = "not-to-be-shown";

/// A running server. Stopped when it is dropped.
pub(crate) struct Server {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    databases: AtomicU32,
    /// `None` after a crash.
    main: Mutex<Option<Child>>,
}

impl Server {
    /// Starts a server; `None`, with a notice, when PostgreSQL is missing and `BACKDROP_TEST_POSTGRES=skip` is set.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with further settings; `None` as with [`Self::start`].
    pub(super) fn start_with(settings: &[&str]) -> Option<Self> {
        Some(Self::without_data()?.started(settings))
    }

    /// Starts a server whose data are on the disk, for measurements; `None` as with [`Self::start`].
    #[allow(dead_code, reason = "the benches use it")]
    pub(crate) fn start_on_disk() -> Option<Self> {
        Some(Self::in_folder(folder_on_disk)?.started(&[]))
    }

    /// A server that is not started, for [`Self::follow`]; `None` as with [`Self::start`].
    pub(super) fn without_data() -> Option<Self> {
        Self::in_folder(folder_in_memory)
    }

    /// Creates its data and starts it.
    fn started(self, settings: &[&str]) -> Self {
        run(self.on_data("initdb").args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8"]));
        self.resume(settings);
        self
    }

    fn in_folder(new_folder: fn() -> TempDir) -> Option<Self> {
        let Some(programs) = programs() else {
            #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
            let may_skip = std::env::var("BACKDROP_TEST_POSTGRES").is_ok_and(|value| value == "skip");
            assert!(may_skip, "PostgreSQL is missing; BACKDROP_TEST_POSTGRES=skip skips these tests");
            super::skipped::notice("no PostgreSQL, the store in a database was NOT tested");
            return None;
        };
        let folder = new_folder();
        if is_root() {
            // The server refuses to run as root.
            run(Command::new("chown").arg("postgres:postgres").arg(folder.path()));
        }
        let (databases, main) = (AtomicU32::new(0), Mutex::new(None));
        Some(Self { folder, programs, port: stable_port(), databases, main })
    }

    /// Starts this server as a standby of `primary`, which knows it by `name`, with a new copy of its data.
    pub(super) fn follow(&self, primary: &Self, name: &str, settings: &[&str]) {
        let start = Instant::now();
        // Processes of a killed server may live on for a moment and write into the folder.
        while self.data().exists() && fs::remove_dir_all(self.data()).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "the old data cannot be removed");
            std::thread::sleep(Duration::from_millis(20));
        }
        let source = format!("--dbname=host=127.0.0.1 port={} user=postgres application_name={name}", primary.port);
        run(self
            .on_data("pg_basebackup")
            .args(["--checkpoint=fast", "--write-recovery-conf", "--no-sync"])
            .arg(source));
        self.resume(settings);
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Starts the server again after [`Self::crash`], with further settings; returns when it takes connections.
    pub(crate) fn resume(&self, settings: &[&str]) {
        let log = || File::options().create(true).append(true).open(self.log()).expect("a log");
        let port = format!("port={}", self.port);
        let start = Instant::now();
        loop {
            let mut command = self.on_data("postgres");
            // After a crash the server syncs its folder, which takes many seconds a file on a loaded machine.
            let own = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "recovery_init_sync_method=syncfs"];
            for setting in [port.as_str()].iter().chain(&own).chain(settings) {
                command.args(["-c", setting]);
            }
            let mut main = command.stdin(Stdio::null()).stdout(log()).stderr(log()).spawn().expect("it starts");
            while main.try_wait().expect("its state is known").is_none() {
                if self.is_ready() {
                    *self.main() = Some(main);
                    return;
                }
                assert!(start.elapsed() < Duration::from_secs(60), "it takes no connections: {}", self.printed());
                std::thread::sleep(Duration::from_millis(20));
            }
            // The sessions of a killed server may live on for a moment.
            assert!(start.elapsed() < Duration::from_secs(60), "it does not start: {}", self.printed());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_ready(&self) -> bool {
        let mut command = Command::new(self.programs.join("pg_isready"));
        let asked = command.args(["--quiet", "--host=127.0.0.1"]).arg(format!("--port={}", self.port)).status();
        asked.is_ok_and(|status| status.success())
    }

    fn main(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.main.lock().expect("no panic")
    }

    /// Ends the server and all its sessions with SIGKILL.
    pub(crate) fn crash(&self) {
        self.signal("KILL");
        let ended = self.main().take().expect("it runs").wait();
        ended.expect("it ends");
    }

    /// Sends a signal to the server and all its sessions: `STOP` lets them take no step until `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let main = self.main().as_ref().expect("it runs").id();
        let send = |process: u32| {
            let arguments = [format!("-{signal}"), process.to_string()];
            let sent = Command::new("kill").args(arguments).stderr(Stdio::null()).status();
            sent.expect("kill is there");
        };
        // The server first, so that it adds no sessions before they are listed. A session may end meanwhile.
        send(main);
        children(main).into_iter().for_each(send);
    }

    /// The URL of a new, empty database.
    pub(crate) fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs statements in a new session; returns their rows, a line each.
    pub(crate) fn sql(&self, database: &str, text: &str) -> String {
        let output = self.session(database, text).output().expect("psql runs");
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The program that runs statements in a session.
    pub(crate) fn session(&self, database: &str, text: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args([
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--username=postgres",
            "--host=127.0.0.1",
        ]);
        command.arg(format!("--port={}", self.port)).arg(format!("--dbname={database}")).arg("--command").arg(text);
        command.stdin(Stdio::null());
        command
    }

    /// Ends the sessions of daemons and stores, and with them their locks.
    pub(crate) fn cut_connections(&self) {
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'backdrop'";
        self.sql("postgres", cut);
    }

    /// Writes a file into the server's data folder, readable by the server only.
    pub(crate) fn install(&self, name: &str, content: &str) {
        let file = self.data().join(name);
        fs::write(&file, content).expect("the file is written");
        run(Command::new("chmod").arg("600").arg(&file));
        if is_root() {
            run(Command::new("chown").arg("postgres:postgres").arg(&file));
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The server's log.
    fn printed(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().with_extension("log")
    }

    /// A program that works on the server's data, as the server's user.
    fn on_data(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.arg("-D").arg(self.data()).current_dir("/");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.main().is_some() {
            self.crash();
        }
        drop(fs::remove_file(self.log()));
    }
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let is_child = |number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == of.to_string()))
    };
    numbers.filter(is_child).collect()
}

/// A free port outside of the range that the system gives to connections, so that it stays free.
pub(crate) fn stable_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| rand::random_range(20_000..32_000)).find(is_free).expect("a free port")
}

/// A folder in memory; on the disk if memory is short. On a shared disk each commit may wait for seconds.
fn folder_in_memory() -> TempDir {
    #[cfg(target_os = "linux")]
    {
        const MEMORY: &str = "/dev/shm";
        // Several servers run at once, and each may write some hundred megabytes of its log.
        if rustix::fs::statvfs(MEMORY).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= 4 << 30)
            && let Ok(folder) = tempfile::tempdir_in(MEMORY)
        {
            return folder;
        }
    }
    folder_on_disk()
}

fn folder_on_disk() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn is_root() -> bool {
    #[cfg(unix)]
    return rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    return false;
}

/// The newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = FOLDERS.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    found.push("/usr/bin".into());
    found.retain(|bin| PROGRAMS.iter().all(|program| bin.join(program).exists()));
    found.sort();
    found.pop()
}

fn run(command: &mut Command) {
    // Into a file, because the server keeps its output open and a pipe would not end.
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    let output = || File::options().append(true).open(log.path()).expect("it was just created");
    let status = command.stdin(Stdio::null()).stdout(output()).stderr(output()).status();
    let succeeded = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    assert!(succeeded, "{command:?}: {status:?}: {}", fs::read_to_string(log.path()).unwrap_or_default());
}

/// The name of the database in a URL.
pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().and_then(|name| name.split('?').next()).unwrap_or_default()
}

/// The URL of a new folder for the results of all daemons.
pub(crate) fn results_in(folder: &Path) -> String {
    let results = folder.join("results");
    fs::create_dir_all(&results).expect("a folder");
    format!("file://{}", results.display())
}
