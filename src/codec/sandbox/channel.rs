//! Messages of a few bytes with at most one descriptor, over a socket that keeps their boundaries (`SOCK_SEQPACKET`).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// A received message of `N` bytes, and its descriptor.
#[derive(Debug)]
pub(super) struct Message<const N: usize> {
    pub(super) bytes: [u8; N],
    pub(super) descriptor: Option<OwnedFd>,
}

/// Two connected sockets, which `exec` closes.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message. Fails with `BrokenPipe` when the other end is closed.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one message of exactly `N` bytes; `None` when the other end is closed. Fails with `TimedOut` after
/// `deadline`, `InvalidData` for a message of another length or with more than one descriptor.
pub(super) fn receive<const N: usize>(socket: impl AsFd, deadline: Option<Instant>) -> io::Result<Option<Message<N>>> {
    if let Some(deadline) = deadline {
        wait(&socket, deadline)?;
    }
    let mut bytes = [0; N];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            // The other end was closed with our message unread.
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    let descriptors = control.drain().filter_map(|message| {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message { Some(descriptors) } else { None }
    });
    let mut descriptors = descriptors.flatten();
    // Because of padding, more than one descriptor may fit.
    let (descriptor, more) = (descriptors.next(), descriptors.next());
    if received.bytes == 0 {
        return Ok(None);
    }
    let truncated = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if received.bytes != N || truncated || more.is_some() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of another form"));
    }
    Ok(Some(Message { bytes, descriptor }))
}

fn wait(socket: impl AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn messages_of_another_length_or_with_more_descriptors_are_refused() {
        let (here, there) = pair().unwrap();
        for bytes in [&[1][..], &[1, 2, 3]] {
            send(&here, bytes, None).unwrap();
            assert_eq!(receive::<2>(&there, None).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let file = tempfile::tempfile().unwrap();
        for number in [2, 20] {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = vec![file.as_fd(); number];
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
            sendmsg(&here, &[IoSlice::new(&[1, 2])], &mut control, SendFlags::empty()).unwrap();
            assert_eq!(receive::<2>(&there, None).unwrap_err().kind(), io::ErrorKind::InvalidData, "{number}");
        }
    }

    #[test]
    fn silence_times_out_and_a_closed_end_is_the_end() {
        let (here, there) = pair().unwrap();
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(receive::<2>(&there, Some(soon)).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(here);
        assert!(receive::<2>(&there, Some(Instant::now() + Duration::from_secs(60))).unwrap().is_none());
        assert_eq!(send(&there, &[1], None).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
