//! A file in memory that libheif reads from, for as long as there is time.
//!
//! libheif reads the data of each coded picture (a tile, a layer, an alpha) right before it decodes it, so a read that
//! fails is where a decode can be stopped. Its own cancel callback is called between the tiles of grids only.

use libheif_rs::{Reader, ReaderGrowStatus};
use std::io;

pub(super) struct Source<'a> {
    bytes: &'a [u8],
    at: u64,
    late: &'a dyn Fn() -> bool,
}

impl<'a> Source<'a> {
    /// The file `bytes`; no more of it is read when it is `late`.
    pub(super) fn new(bytes: &'a [u8], late: &'a dyn Fn() -> bool) -> Self {
        Self { bytes, at: 0, late }
    }
}

impl Reader for Source<'_> {
    fn position(&mut self) -> u64 {
        self.at
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_exact(buf)?;
        Ok(buf.len())
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        if (self.late)() {
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
