//! Input of libheif: a file in memory whose reads fail after a deadline, which ends the decode.
//!
//! libheif reads the data of each coded picture (a tile, a layer, an alpha) right before decoding it, so a failing read
//! stops the decode. Its own cancel callback is called between the tiles of grids only.

use libheif_rs::{Reader, ReaderGrowStatus};
use std::io;

pub(super) struct DeadlineReader<'a> {
    bytes: &'a [u8],
    at: u64,
    expired: &'a dyn Fn() -> bool,
}

impl<'a> DeadlineReader<'a> {
    /// A reader of `bytes` that fails once `expired`.
    pub(super) fn new(bytes: &'a [u8], expired: &'a dyn Fn() -> bool) -> Self {
        Self { bytes, at: 0, expired }
    }
}

impl Reader for DeadlineReader<'_> {
    fn position(&mut self) -> u64 {
        self.at
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_exact(buf)?;
        Ok(buf.len())
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        if (self.expired)() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let start = usize::try_from(self.at).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(self.bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        self.at += buf.len() as u64;
        Ok(())
    }

    fn seek(&mut self, position: u64) -> io::Result<u64> {
        self.at = position;
        Ok(position)
    }

    fn wait_for_file_size(&mut self, target_size: u64) -> ReaderGrowStatus {
        if target_size > self.bytes.len() as u64 {
            ReaderGrowStatus::SizeBeyondEof
        } else {
            ReaderGrowStatus::SizeReached
        }
    }
}
