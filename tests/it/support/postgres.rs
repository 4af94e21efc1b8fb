//! A PostgreSQL server of a test, in a temporary folder, from the programs that `make cluster-test` installs.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use postgres::{Client, NoTls};
use tempfile::TempDir;

/// The folders of Debian's and Fedora's packages.
const FOLDERS: [&str; 2] = ["/usr/lib/postgresql", "/usr"];

/// A running server. Stopped when it is dropped.
pub(crate) struct Server {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    databases: AtomicU32,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        if is_root() {
            // The server refuses to run as root.
            run(Command::new("chown").arg("postgres:postgres").arg(folder.path()));
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let server = Self { folder, programs: programs(), port, databases: AtomicU32::new(0) };
        run(server.program("initdb").args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8"]));
        server.resume();
        server
    }

    /// Starts the server again after [`Self::stop`].
    pub(crate) fn resume(&self) {
        let options = format!("-c port={} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''", self.port);
        run(self
            .program("pg_ctl")
            .args(["start", "--wait", "--silent", "--log"])
            .arg(self.data().with_extension("log"))
            .arg("--options")
            .arg(options));
    }

    /// Stops the server at once, as a crash does.
    pub(crate) fn stop(&self) {
        run(self.program("pg_ctl").args(["stop", "--wait", "--silent", "--mode=immediate"]));
    }

    /// The URL of a new, empty database.
    pub(crate) fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        // Not on the caller's thread: the driver has a runtime of its own, which cannot run inside that of an async test.
        std::thread::scope(|scope| {
            let create = || self.client("postgres").batch_execute(&format!("CREATE DATABASE {name}"));
            scope.spawn(create).join().expect("no panic").expect("a new name");
        });
        self.url(&name)
    }

    /// A connection beside those of the tested store.
    pub(crate) fn client(&self, database: &str) -> Client {
        Client::connect(&self.url(database), NoTls).expect("the server runs")
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program of the server, as its user.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.arg("--pgdata").arg(self.data()).current_dir("/");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stopped = self.program("pg_ctl").args(["stop", "--silent", "--mode=immediate"]).status();
        drop(stopped);
    }
}

fn is_root() -> bool {
    #[cfg(unix)]
    return rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    return false;
}

/// The newest version's programs.
fn programs() -> PathBuf {
    let versions = FOLDERS.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    found.push("/usr/bin".into());
    found.retain(|bin| bin.join("initdb").exists());
    found.sort();
    found.pop().expect("PostgreSQL is not installed: run `make cluster-test`, which installs it")
}

fn run(command: &mut Command) {
    // The server keeps its log open: not the pipes of the test.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{command:?}: {status:?}");
}

/// The name of the database in a URL.
pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// The URL of a new folder for the results of all daemons.
pub(crate) fn results_in(folder: &Path) -> String {
    let results = folder.join("results");
    fs::create_dir_all(&results).expect("a folder");
    format!("file://{}", results.display())
}
