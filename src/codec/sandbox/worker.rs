//! Main function of a worker: gives up its rights, then answers requests until its socket, standard input, ends.

use super::channel;
use super::lockdown::lock_down;
use super::protocol::{Answer, REQUEST_BYTES, Request};
use crate::codec::decoders::Probed;
use crate::codec::error::{DecodeError, corrupt};
#[cfg(feature = "heic")]
use crate::codec::heic;
use crate::codec::{Header, decoders};
use crate::image::shared_memory::map_trusted;
use crate::image::{BufferPool, Frame};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

/// Result of a decoder: the probed size and flaw, and the pixels if they were requested.
pub(super) type Decoded = (Probed, Option<Frame>);

/// Decodes files that the daemon sends, in this process, which must have one thread and no other open descriptor.
///
/// Fails when standard input is no socket of a daemon.
#[must_use]
pub fn run() -> ExitCode {
    run_with(|_| ())
}

/// As [`run`], but calls `before` on each file first, equally confined. A test makes it fail as a faulty decoder would.
#[must_use]
pub fn run_with(before: impl Fn(&[u8])) -> ExitCode {
    // Registers the decoder now, so that the filter need not allow its system calls.
    #[cfg(feature = "heic")]
    let _: bool = heic::decoder_available();
    let decode = |request: &Request, bytes: &[u8], pool: &BufferPool| {
        before(bytes);
        decoded(request, bytes, pool)
    };
    match serve(decode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("a decode worker is started by other commands, never by hand: {error}");
            ExitCode::from(2)
        }
    }
}

/// Answers requests with `decode` until the other end of standard input is closed.
pub(super) fn serve(decode: impl Fn(&Request, &[u8], &BufferPool) -> Result<Decoded, DecodeError>) -> io::Result<()> {
    // Parallel parts of decoders run on this thread: threads of rayon would need rights.
    let _: Result<(), _> = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
    let stdin = io::stdin();
    let protections = lock_down()?;
    channel::send(stdin.as_fd(), &[protections.to_byte()], None)?;
    let pool = BufferPool::in_shared_memory();
    while let Some(message) = channel::receive::<REQUEST_BYTES>(stdin.as_fd(), None)? {
        let request = Request::from_bytes(&message.bytes).ok_or(io::ErrorKind::InvalidData)?;
        let file = message.descriptor.ok_or(io::ErrorKind::InvalidData)?;
        let (answer, pixels) = answered(&request, &file, &pool, &decode)?;
        channel::send(stdin.as_fd(), &answer.to_bytes(), pixels.as_ref().map(OwnedFd::as_fd))?;
    }
    Ok(())
}

fn answered(
    request: &Request,
    file: &OwnedFd,
    pool: &BufferPool,
    decode: impl Fn(&Request, &[u8], &BufferPool) -> Result<Decoded, DecodeError>,
) -> io::Result<(Answer, Option<OwnedFd>)> {
    let bytes = map_trusted(file, request.len)?;
    Ok(match decode(request, &bytes, pool) {
        Ok((probed, frame)) => {
            // Unmapped here, so that the daemon can seal it.
            let pixels = frame.and_then(|frame| frame.into_pixels().into_shared());
            (Answer::Done(probed), pixels.map(|memory| memory.into_descriptor()))
        }
        Err(error) => (Answer::of(Err(&error)), None),
    })
}

pub(super) fn decoded(request: &Request, bytes: &[u8], pool: &BufferPool) -> Result<Decoded, DecodeError> {
    let &Request { container, limits, decode, applies_profile, .. } = request;
    let Some(size) = decode else {
        return Ok((decoders::probe(container, bytes, &limits)?, None));
    };
    let frame = decoders::decode(bytes, &Header { container, size, flaw: None, limits, applies_profile }, pool)?;
    if frame.size().area() == 0 {
        return Err(corrupt("no pixels"));
    }
    Ok(((frame.size(), None), Some(frame)))
}
