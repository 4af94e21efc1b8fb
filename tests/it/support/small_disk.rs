//! Tests on a small file system: a tmpfs in a new mount namespace, for which Linux needs user namespaces.
//!
//! Without user namespaces the tests fail unless `BACKDROP_TEST_SMALL_DISK=skip` is set.

use crate::support::child_process::{child_command, spawn};
use crate::support::skipped;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs an ignored test in a child process with a file system of `megabytes` in `folder`. The child reads the folder's name
/// with `child_input`. `None` when the file system cannot be mounted and the test may be skipped.
pub(crate) fn run(test: &str, megabytes: u32, folder: &Path) -> Option<Output> {
    let script = r#"mount -t tmpfs -o size="$1" tmpfs "$2" || exit 77; shift 2; exec "$@""#;
    let test = child_command(test);
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", &format!("{megabytes}m")]);
    unshare.arg(folder).arg(test.get_program()).args(test.get_args());
    unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawn(&mut unshare, folder.to_str().expect("a plain path")).wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || error.contains("unshare:") {
        #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
        let may_skip = std::env::var("BACKDROP_TEST_SMALL_DISK").is_ok_and(|value| value == "skip");
        assert!(may_skip, "no file system can be mounted; BACKDROP_TEST_SMALL_DISK=skip skips this test: {error}");
        skipped::notice("no file system can be mounted, the full disk was NOT tested");
        return None;
    }
    Some(output)
}

/// Fills a file system with one file.
pub(crate) fn fill(path: &Path) {
    let mut file = File::create(path).expect("a writable folder");
    loop {
        match file.write_all(&[1; 4096]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return,
            Err(error) => panic!("{error}"),
        }
    }
}
