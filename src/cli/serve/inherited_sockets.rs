//! Takes over listening sockets from a service manager: systemd's socket activation, `sd_listen_fds(3)`.
//!
//! A socket named `admin` (`FileDescriptorName=admin`) is that of the admin interface, any other one that of the API. An
//! interface without a socket binds its configured address.

use crate::cli::exit_code::Failure;
use tokio::net::TcpListener;

/// The listeners that were passed to this process.
#[derive(Debug, Default)]
pub(super) struct InheritedSockets {
    pub(super) api: Option<TcpListener>,
    pub(super) admin: Option<TcpListener>,
}

impl InheritedSockets {
    /// Takes them; call it once.
    ///
    /// # Errors
    /// When one is not a listening TCP socket, or there are two for one interface.
    #[cfg(unix)]
    pub(super) fn take() -> Result<Self, Failure> {
        use rustix::fd::{FromRawFd, OwnedFd};
        let mut taken = Self::default();
        for (descriptor, name) in sd_notify::listen_fds_with_names()? {
            // SAFETY: the service manager opened it for this process (`LISTEN_PID` is checked), and this runs once.
            let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
            let listener = tcp_listener(socket.into())
                .map_err(|error| format!("socket {descriptor} ({name}) from the service manager: {error}"))?;
            let (place, interface) = match name.as_str() {
                "admin" => (&mut taken.admin, "the admin interface"),
                _ => (&mut taken.api, "the API"),
            };
            if place.replace(listener).is_some() {
                return Err(format!(
                    "the service manager passed several sockets for {interface}; name one of them with FileDescriptorName=admin"
                )
                .into());
            }
        }
        Ok(taken)
    }

    /// None on this system.
    #[cfg(not(unix))]
    pub(super) fn take() -> Result<Self, Failure> {
        Ok(Self::default())
    }
}

#[cfg(unix)]
fn tcp_listener(listener: std::net::TcpListener) -> Result<TcpListener, Failure> {
    let socket = socket2::SockRef::from(&listener);
    let is_ip = socket.local_addr()?.as_socket().is_some();
    #[cfg(target_os = "linux")]
    let is_listener = socket.is_listener()?;
    #[cfg(not(target_os = "linux"))]
    let is_listener = true;
    if !is_ip || !is_listener || socket.r#type()? != socket2::Type::STREAM {
        return Err("not a listening TCP socket".into());
    }
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

/// Reports to the service manager that requests are accepted. Without one this does nothing.
pub(super) fn notify_ready() {
    #[cfg(unix)]
    notify(sd_notify::NotifyState::Ready);
}

/// Reports to the service manager that the daemon is ending.
pub(super) fn notify_stopping() {
    #[cfg(unix)]
    notify(sd_notify::NotifyState::Stopping);
}

#[cfg(unix)]
fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "could not notify the service manager");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net;

    #[tokio::test]
    async fn a_listening_socket_is_accepted_and_any_other_descriptor_is_not() {
        let listening = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        let connected = net::TcpStream::connect(address).unwrap();
        assert_eq!(tcp_listener(listening).unwrap().local_addr().unwrap(), address);
        let folder = tempfile::tempdir().unwrap();
        let local = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for other in [rustix::fd::OwnedFd::from(connected), local.into()] {
            let refused = tcp_listener(other.into()).unwrap_err();
            assert_eq!(refused.to_string(), "not a listening TCP socket");
        }
        let file = rustix::fd::OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(tcp_listener(file.into()).is_err());
    }
}
