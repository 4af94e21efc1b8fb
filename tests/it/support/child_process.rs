//! Tests that run in a child process: to be killed, or with another environment.
//!
//! Such a test is `#[ignore]`d, so that a usual run does not count it. The test that needs it starts it.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// The command that runs one ignored test, named `concat!(module_path!(), "::name")`, with piped streams.
pub(crate) fn child_command(test: &str) -> Command {
    let (_crate, path) = test.split_once("::").expect("a path that begins with the crate");
    let mut command = Command::new(std::env::current_exe().expect("this test binary"));
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", path]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    super::command::end_after(&mut command, super::command::longest_run());
    command
}

/// Starts `command` and writes `input` to its standard input.
pub(crate) fn spawn(command: &mut Command, input: &str) -> Child {
    let mut child = command.spawn().expect("a second process starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("the child reads its input");
    child
}

/// Runs one ignored test in a child process, which reads `input` with [`child_input`].
pub(crate) fn child(test: &str, input: &str) -> Child {
    spawn(&mut child_command(test), input)
}

/// The text that the parent wrote, read in the child. Panics when the ignored test was started without a parent.
pub(crate) fn child_input() -> String {
    let input = std::io::read_to_string(std::io::stdin()).expect("the parent writes text");
    assert!(!input.is_empty(), "this test runs in a child process of the test that its #[ignore] names");
    input
}
