//! Memory that a process fills and passes to another process as a descriptor (memfd), without a copy.
//!
//! The receiver does not trust the sender. Before it maps the memory it seals size and content (`F_SEAL_SHRINK |
//! F_SEAL_GROW | F_SEAL_WRITE`), which fails while the sender still has a writable mapping. From then on no process can
//! change what the receiver reads. Sealed memory is mapped privately, so that the receiver can change its view: the
//! system copies the pages that it writes and shares the others.

use memmap2::{Mmap, MmapMut, MmapOptions};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Size, content and the set of seals are final.
const SEALED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE).union(SealFlags::SEAL);

/// Memory that this process may write and has not yet passed on.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapMut,
    descriptor: OwnedFd,
}

impl SharedMemory {
    /// `len` zeros.
    ///
    /// # Errors
    /// When the system has no memory or descriptor left.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        let descriptor = memfd_create("backdrop-picture", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&descriptor, len as u64)?;
        // Populated at once: one page fault each costs more than clearing the page.
        // SAFETY: the memory was just created, and no other process has it before it is unmapped in `into_descriptor`.
        let map = unsafe { MmapOptions::new().len(len).populate().map_mut(&descriptor)? };
        Ok(Self { map, descriptor })
    }

    /// Unmaps the memory and returns its descriptor.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }

    /// The memory's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The memory's bytes, to change in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// A sealed copy of `bytes`, to be passed to another process.
///
/// # Errors
/// When the system has no memory or descriptor left.
pub fn sealed_copy(bytes: &[u8]) -> io::Result<OwnedFd> {
    // Written, not mapped: the system then need not clear the pages first.
    let mut file = File::from(memfd_create("backdrop-file", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(bytes)?;
    let descriptor = OwnedFd::from(file);
    fcntl_add_seals(&descriptor, SEALED)?;
    Ok(descriptor)
}

/// Maps `len` bytes of memory that the parent process sealed, read-only.
///
/// # Errors
/// When the system has no address space left.
pub fn map_trusted(descriptor: &OwnedFd, len: usize) -> io::Result<Mmap> {
    // Private: older kernels refuse shared mappings of sealed memory, even for reading.
    // SAFETY: the parent sealed size and content before it sent the descriptor.
    unsafe { MmapOptions::new().len(len).map_copy_read_only(descriptor) }
}

/// Memory filled by another process: sealed, and mapped privately.
#[derive(Debug)]
pub struct ReceivedMemory {
    map: MmapMut,
}

impl ReceivedMemory {
    /// Seals and maps the memory behind `descriptor`.
    ///
    /// # Errors
    /// When it is not a memfd of exactly `len` bytes, or another process still has it mapped for writing.
    pub fn seal(descriptor: &OwnedFd, len: usize) -> io::Result<Self> {
        // Fails with EINVAL for a descriptor other than a memfd, and with EBUSY if a mapping could still change it.
        fcntl_add_seals(descriptor.as_fd(), SEALED)?;
        let size = fstat(descriptor)?.st_size;
        if usize::try_from(size).ok() != Some(len) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{size} bytes of memory, expected {len}")));
        }
        // SAFETY: size and content are sealed, so no process can change or truncate what is mapped here.
        let map = unsafe { MmapOptions::new().len(len).map_copy(descriptor)? };
        Ok(Self { map })
    }

    /// The memory's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The memory's bytes, to change in place; written pages become private copies.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fcntl_get_seals;

    #[test]
    fn memory_that_is_passed_on_has_its_bytes_and_the_receiver_may_change_its_view() {
        let mut memory = SharedMemory::zeroed(10_000).unwrap();
        assert!(memory.bytes().iter().all(|&byte| byte == 0));
        memory.bytes_mut()[9_999] = 7;
        let descriptor = memory.into_descriptor();
        let mut received = ReceivedMemory::seal(&descriptor, 10_000).unwrap();
        assert_eq!((received.bytes()[0], received.bytes()[9_999]), (0, 7));
        received.bytes_mut()[0] = 3;
        let original = map_trusted(&descriptor, 10_000).unwrap();
        assert_eq!((received.bytes()[0], original[0]), (3, 0), "the sealed memory itself did not change");
    }

    #[test]
    fn memory_that_its_sender_could_still_change_is_refused() {
        let memory = SharedMemory::zeroed(4096).unwrap();
        let duplicate = memory.descriptor.try_clone().unwrap();
        let refused = ReceivedMemory::seal(&duplicate, 4096).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::BUSY.raw_os_error()));
    }

    #[test]
    fn received_memory_can_be_neither_truncated_nor_mapped_for_writing() {
        let descriptor = SharedMemory::zeroed(8192).unwrap().into_descriptor();
        let received = ReceivedMemory::seal(&descriptor, 8192).unwrap();
        assert!(ftruncate(&descriptor, 0).is_err());
        // SAFETY: it fails, so nothing is mapped.
        assert!(unsafe { MmapOptions::new().len(8192).map_mut(&descriptor) }.is_err());
        assert_eq!(received.bytes().len(), 8192);
    }

    #[test]
    fn memory_of_another_size_and_other_files_are_refused() {
        let descriptor = SharedMemory::zeroed(8192).unwrap().into_descriptor();
        assert!(ReceivedMemory::seal(&descriptor, 8191).is_err());
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        assert!(ReceivedMemory::seal(&file.into(), 8192).is_err(), "a file has no seals");
    }

    #[test]
    fn a_sealed_copy_has_the_bytes_and_no_process_can_change_it() {
        let descriptor = sealed_copy(b"a picture").unwrap();
        assert_eq!(&map_trusted(&descriptor, 9).unwrap()[..], b"a picture");
        assert_eq!(fcntl_get_seals(&descriptor).unwrap(), SEALED);
        assert!(ftruncate(&descriptor, 0).is_err() && ftruncate(&descriptor, 10).is_err());
        assert!(rustix::io::pwrite(&descriptor, b"other", 0).is_err());
        // SAFETY: it fails, so nothing is mapped.
        assert!(unsafe { MmapOptions::new().len(9).map_mut(&descriptor) }.is_err());
    }
}
