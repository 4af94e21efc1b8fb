//! Running the `backdrop` binary the way its users do.

use super::tier::rounds;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

/// The binary, without any setting of the surrounding environment.
pub(crate) fn backdrop() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BACKDROP_")) {
        command.env_remove(name);
    }
    // These tests are about the command line; `model` tests the device.
    command.env("BACKDROP_DEVICE", "cpu");
    #[cfg(unix)]
    end_after(&mut command, longest_run());
    command
}

/// `command` with the variables of `program`.
#[cfg(target_os = "linux")]
pub(crate) fn with_variables(mut command: Command, program: &Command) -> Command {
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// The binary of this build. Cargo builds binaries only for the tests of their package, so `make build` must precede the tests.
fn binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("the path of the tests");
        let folder = test.ancestors().nth(2).expect("the tests lie in `deps` of the folder of the binary");
        let changed = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let (binary, sources) = (folder.join("backdrop"), std::fs::read_to_string(folder.join("backdrop.d")));
        let built = changed(&binary).zip(sources.ok()).is_some_and(|(built, sources)| {
            sources.split_whitespace().skip(1).all(|source| changed(Path::new(source)) <= Some(built))
        });
        assert!(built, "{} is older than its sources; run: make build", binary.display());
        binary
    });
    &BINARY
}

/// Longer than the limits of the tests.
#[cfg(unix)]
pub(crate) fn longest_run() -> Duration {
    Duration::from_secs(rounds(600, 24 * 3600) as u64)
}

/// Ends the process with a signal after `limit`, so that a program that hangs fails its test. Commands that are built from the
/// program and environment of another command need a separate call.
#[cfg(unix)]
pub(crate) fn end_after(command: &mut Command, limit: Duration) {
    use std::os::unix::process::CommandExt;
    let seconds = u32::try_from(limit.as_secs()).expect("a day at most");
    let before_exec = move || {
        // SAFETY: sets a timer of this process, which `exec` keeps and `fork` does not pass on.
        unsafe { libc::alarm(seconds) };
        Ok(())
    };
    // SAFETY: between `fork` and `exec` the closure makes a system call only.
    unsafe { command.pre_exec(before_exec) };
}

/// Runs a command with `input` as its standard input, of which it may read a part.
pub(crate) fn fed(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    drop(child.stdin.take().expect("piped").write_all(input));
    child.wait_with_output().expect("it ends")
}

/// A bundled photo.
pub(crate) fn photo(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/photos").join(name)
}

/// A picture of the golden set.
#[cfg(target_os = "linux")]
pub(crate) fn golden_picture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/golden/pictures").join(name)
}

/// Standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("standard output is text")
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output as JSON.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", stdout(output), stderr(output)))
}

/// An HTTP client, with a time limit beyond the daemon's deadline of a request.
pub(crate) fn http_client() -> reqwest::ClientBuilder {
    // The enabled features choose no provider. An error means that one is installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(Duration::from_secs(240))
}
