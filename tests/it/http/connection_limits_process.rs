//! The binary with a low limit of open files and more connections than that.

#![cfg(target_os = "linux")]

use crate::cli::serve::{Daemon, serve};
use crate::support::command::{backdrop, end_after, longest_run, with_variables};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// The first line of the answer to a request for `path`.
fn status(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("a connection");
    connection.set_read_timeout(Some(LONG)).expect("a socket");
    write!(connection, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut reply = String::new();
    connection.read_to_string(&mut reply).expect("an answer in time");
    reply.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn requests_are_answered_despite_more_idle_connections_than_descriptors() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let program = backdrop();
    // The daemon inherits the shell's soft and hard limits.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\""]).arg(program.get_program());
    let mut command = serve(with_variables(command, &program), folder.path());
    command.env("BACKDROP_SERVER_MAX_CONNECTIONS_PER_ADDRESS", "100000").stdout(Stdio::null()).process_group(0);
    end_after(&mut command, longest_run());
    let mut daemon = Daemon::spawn(&mut command);
    let log = BufReader::new(daemon.0.stderr.take().expect("piped"));
    let mut lines = log.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("\"listening\"")).expect("the daemon listens");
    let event: serde_json::Value = serde_json::from_str(&line).expect("a JSON line");
    let field = |name: &str| event["fields"][name].as_str().expect("an address").to_owned();
    let (address, admin) = (field("address"), field("admin"));
    let line = lines.find(|line| line.contains("server.max_connections")).expect("the smaller limit is in the log");
    let event: serde_json::Value = serde_json::from_str(&line).expect("a JSON line");
    assert_eq!((&event["fields"]["open_files"], &event["fields"]["connections"]), (&256.into(), &128.into()), "{line}");
    std::thread::spawn(move || lines.for_each(drop));

    let idle: Vec<_> = (0..400).map(|_| TcpStream::connect(&address).expect("a connection")).collect();
    assert_eq!(status(&admin, "/livez"), "HTTP/1.1 200 OK");
    assert_eq!(status(&address, "/docs"), "HTTP/1.1 200 OK");
    assert_eq!(status(&admin, "/livez"), "HTTP/1.1 200 OK");
    drop(idle);
}
