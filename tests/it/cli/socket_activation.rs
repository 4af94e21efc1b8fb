//! Socket activation: a daemon with a listening socket as descriptor 3, as systemd starts it, and its end when it is idle.

use crate::cli::serve::{Daemon, KEY, serve};
use crate::support::command::{backdrop, end_after, longest_run, photo, stderr, with_variables};
use crate::support::hang_guard::within_a_minute;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The daemon's command as a service manager starts it: `descriptor`, in the shell's words, is descriptor 3, and LISTEN_PID
/// is the process.
pub(crate) fn activated(descriptor: &str, data_dir: &Path) -> Command {
    let program = backdrop();
    let mut command = Command::new("sh");
    // The shell gives the descriptor its number and becomes the daemon, with its own process id.
    command
        .args(["-c", &format!("exec 3<{descriptor}; export LISTEN_PID=$$; exec \"$0\" \"$@\"")])
        .arg(program.get_program());
    command.args(["serve", "--admin-listen", "127.0.0.1:0", "--device", "cpu", "--data-dir"]).arg(data_dir);
    let mut command = with_variables(command, &program);
    command
        .env("LISTEN_FDS", "1")
        .env("BACKDROP_LOG_FORMAT", "json")
        .env("BACKDROP_BOOTSTRAP_KEY", KEY)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    end_after(&mut command, longest_run());
    command
}

/// Sends a photo to be cut out, whether or not anything accepts the connection yet.
fn send(address: SocketAddr) -> TcpStream {
    let photo = fs::read(photo("coffee.jpg")).unwrap();
    let connection = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /remove?max_dim=64 HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {KEY}\r\n\
         content-type: image/jpeg\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        photo.len()
    );
    // On a thread, because the system's buffers may be smaller.
    let mut writer = connection.try_clone().unwrap();
    std::thread::spawn(move || writer.write_all(&[head.as_bytes(), &photo].concat()).unwrap());
    connection.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    connection
}

/// The status line of the reply.
fn status(mut connection: TcpStream) -> String {
    let mut reply = Vec::new();
    connection.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_daemon_takes_over_the_socket_and_ends_when_idle_without_losing_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let notified = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    notified.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let data = folder.path().join("data");
    // The request comes before the daemon: it waits in the socket's backlog.
    let request = send(address);
    let daemon = || {
        let mut command = activated("&0", &data);
        // Standard input is the one that a child can be given.
        command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())));
        command.env("BACKDROP_SERVER_IDLE_EXIT", "200ms").env("NOTIFY_SOCKET", folder.path().join("notify"));
        Daemon::spawn(&mut command)
    };
    let mut first = daemon();
    assert_eq!(first.address(), address.to_string());
    assert_eq!(status(request), "HTTP/1.1 200 OK");
    let mut message = [0; 64];
    let length = notified.recv(&mut message).unwrap();
    assert!(message[..length].starts_with(b"READY=1"));
    // Without a connection it ends by itself.
    let code = within_a_minute("an idle daemon", move || first.0.wait().unwrap().code());
    assert_eq!(code, Some(0));

    // The socket is still open here, as it is in the service manager: the next request starts the next daemon.
    let request = send(address);
    let mut second = daemon();
    second.address();
    assert_eq!(status(request), "HTTP/1.1 200 OK");
    let code = within_a_minute("an idle daemon", move || second.0.wait().unwrap().code());
    assert_eq!(code, Some(0));
}

#[test]
fn a_route_without_keys_is_refused_on_an_inherited_socket_of_the_network() {
    let folder = tempfile::tempdir().unwrap();
    for (listen, starts) in [("0.0.0.0:0", false), ("127.0.0.1:0", true)] {
        let socket = TcpListener::bind(listen).unwrap();
        let mut daemon = Daemon::spawn(
            activated("&0", folder.path())
                .stdin(Stdio::from(OwnedFd::from(socket)))
                .envs([("BACKDROP_COMPAT_REMBG", "true"), ("BACKDROP_SERVER_IDLE_EXIT", "200ms")]),
        );
        let code = within_a_minute("a daemon", move || daemon.0.wait().unwrap().code());
        assert_eq!(code, Some(if starts { 0 } else { 2 }), "{listen}");
    }
}

#[test]
fn sockets_for_another_process_are_ignored_and_idle_exit_needs_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(backdrop(), folder.path());
    command.envs([("LISTEN_FDS", "1"), ("LISTEN_PID", "1")]);
    let mut daemon = Daemon::spawn(&mut command);
    assert!(daemon.address().starts_with("127.0.0.1:"));
    drop(daemon);
    let output = command.env("BACKDROP_SERVER_IDLE_EXIT", "10m").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("server.idle_exit"), "{}", stderr(&output));
}

#[test]
fn a_file_in_place_of_a_socket_is_an_error_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = activated("/dev/null", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("from the service manager"), "{}", stderr(&output));
}
