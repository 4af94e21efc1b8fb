//! A pool of byte buffers that return to it when they are dropped.
//!
//! A fresh 48 MB allocation costs a page fault every 4 KiB; a reused one costs a memset. Buffers are zeroed when they
//! are taken, so that no pixel of one caller's picture can show up in another's. Work that writes each byte, or drops
//! the buffer, may take them unzeroed. A full pool frees its oldest buffers first, so that it follows the sizes in use.
//!
//! A buffer's bytes may also be memory shared with a decode worker: the worker's pool takes all buffers from such
//! memory, and the daemon receives it. The pool counts the bytes that it lent, so that a test can show that a received
//! picture was not copied.

#[cfg(target_os = "linux")]
use super::shared_memory::{ReceivedMemory, SharedMemory};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A pool of byte buffers for reuse. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

struct Shared {
    max_kept_bytes: usize,
    kept: Mutex<Vec<Vec<u8>>>,
    lent_bytes: AtomicU64,
    /// Whether buffers are memory that can be passed to another process.
    in_shared_memory: bool,
}

impl BufferPool {
    /// A pool that keeps at most `max_kept_bytes` of unused buffers and frees the rest.
    #[must_use]
    pub fn new(max_kept_bytes: usize) -> Self {
        Self::with(max_kept_bytes, false)
    }

    /// A pool of buffers that can be passed to another process ([`Buffer::into_shared`]); it keeps no unused buffer.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn in_shared_memory() -> Self {
        Self::with(0, true)
    }

    fn with(max_kept_bytes: usize, in_shared_memory: bool) -> Self {
        let (kept, lent_bytes) = (Mutex::default(), AtomicU64::new(0));
        Self { shared: Arc::new(Shared { max_kept_bytes, kept, lent_bytes, in_shared_memory }) }
    }

    /// A zeroed buffer of `len` bytes.
    #[must_use]
    pub fn take(&self, len: usize) -> Buffer {
        let mut bytes = self.reused(len).unwrap_or_default();
        bytes.clear();
        self.lent(bytes, len)
    }

    /// A buffer of `len` bytes that may hold an earlier picture: only for work that writes each byte or drops it.
    #[must_use]
    pub fn take_for_overwrite(&self, len: usize) -> Buffer {
        let mut bytes = self.reused(len).unwrap_or_default();
        bytes.truncate(len);
        self.lent(bytes, len)
    }

    /// A buffer of memory filled by another process, neither copied nor kept on drop; [`Buffer::another`] uses this
    /// pool.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn received(&self, memory: ReceivedMemory) -> Buffer {
        Buffer { memory: Memory::Received(memory), pool: Arc::downgrade(&self.shared) }
    }

    /// Bytes of all buffers ever taken from the pool.
    #[must_use]
    pub fn lent_bytes(&self) -> u64 {
        self.shared.lent_bytes.load(Ordering::Relaxed)
    }

    /// `bytes`, extended by zeros to `len`.
    ///
    /// # Panics
    /// In shared memory, when the system has none left. The panic ends the decode worker.
    fn lent(&self, mut bytes: Vec<u8>, len: usize) -> Buffer {
        self.shared.lent_bytes.fetch_add(len as u64, Ordering::Relaxed);
        #[cfg(target_os = "linux")]
        if self.shared.in_shared_memory && len > 0 {
            let memory = SharedMemory::zeroed(len).expect("memory is left below the worker's limit");
            return Buffer { memory: Memory::Shared(memory), pool: Arc::downgrade(&self.shared) };
        }
        if bytes.capacity() == 0 {
            // Fresh pages of the system are already zero.
            bytes = vec![0; len];
        }
        bytes.resize(len, 0);
        Buffer { memory: Memory::Owned(bytes), pool: Arc::downgrade(&self.shared) }
    }

    fn reused(&self, len: usize) -> Option<Vec<u8>> {
        let mut kept = self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that fits, unless it would waste more than half of itself.
        let fitting = kept
            .iter()
            .enumerate()
            .filter(|(_, bytes)| bytes.capacity() >= len && bytes.capacity() / 2 <= len)
            .min_by_key(|(_, bytes)| bytes.capacity())
            .map(|(index, _)| index)?;
        Some(kept.remove(fitting))
    }

    /// Frees every unused buffer.
    pub fn clear(&self) {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Bytes of unused buffers.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Vec::capacity).sum()
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("kept_bytes", &self.kept_bytes()).finish()
    }
}

/// Bytes borrowed from a [`BufferPool`], or plain owned ones ([`Buffer::from`]).
#[derive(Default)]
pub struct Buffer {
    memory: Memory,
    pool: Weak<Shared>,
}

/// Owner of a buffer's bytes.
enum Memory {
    Owned(Vec<u8>),
    /// Can be passed to another process.
    #[cfg(target_os = "linux")]
    Shared(SharedMemory),
    /// Received from another process.
    #[cfg(target_os = "linux")]
    Received(ReceivedMemory),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl Buffer {
    /// Another zeroed buffer of `len` bytes, from this buffer's pool if it has one.
    #[must_use]
    pub fn another(&self, len: usize) -> Self {
        match self.pool.upgrade() {
            Some(shared) => BufferPool { shared }.take(len),
            None => Self::from(vec![0; len]),
        }
    }

    /// Another buffer from this buffer's pool that may hold an earlier picture: only for work that writes each byte.
    #[must_use]
    pub fn another_for_overwrite(&self, len: usize) -> Self {
        match self.pool.upgrade() {
            Some(shared) => BufferPool { shared }.take_for_overwrite(len),
            None => Self::from(vec![0; len]),
        }
    }

    /// Takes the bytes out; they do not return to the pool. Bytes of another process are copied.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        self.pool = Weak::new();
        match std::mem::take(&mut self.memory) {
            Memory::Owned(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Memory::Shared(memory) => memory.bytes().to_vec(),
            #[cfg(target_os = "linux")]
            Memory::Received(memory) => memory.bytes().to_vec(),
        }
    }

    /// The memory of a buffer from [`BufferPool::in_shared_memory`]; `None` for others.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn into_shared(mut self) -> Option<SharedMemory> {
        match std::mem::take(&mut self.memory) {
            Memory::Shared(memory) => Some(memory),
            Memory::Owned(_) | Memory::Received(_) => None,
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { memory: Memory::Owned(bytes), pool: Weak::new() }
    }
}

impl Clone for Buffer {
    /// A copy from the same pool.
    fn clone(&self) -> Self {
        let mut copy = self.another_for_overwrite(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = match std::mem::take(&mut self.memory) {
            Memory::Owned(bytes) => bytes,
            // Unmapped by this drop.
            #[cfg(target_os = "linux")]
            Memory::Shared(_) | Memory::Received(_) => return,
        };
        let capacity = bytes.capacity();
        let Some(pool) = self.pool.upgrade().filter(|pool| (1..=pool.max_kept_bytes).contains(&capacity)) else {
            return;
        };
        let mut freed = Vec::new();
        let mut kept = pool.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept_bytes: usize = kept.iter().map(Vec::capacity).sum();
        while kept_bytes + capacity > pool.max_kept_bytes {
            let oldest = kept.remove(0);
            kept_bytes -= oldest.capacity();
            freed.push(oldest);
        }
        kept.push(bytes);
        drop(kept); // before `freed`: 48 MB are not unmapped under the lock
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Owned(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Memory::Shared(memory) => memory.bytes(),
            #[cfg(target_os = "linux")]
            Memory::Received(memory) => memory.bytes(),
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Owned(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Memory::Shared(memory) => memory.bytes_mut(),
            #[cfg(target_os = "linux")]
            Memory::Received(memory) => memory.bytes_mut(),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_buffer_is_zeroed() {
        let pool = BufferPool::new(1 << 20);
        let mut first = pool.take(1000);
        first.fill(77);
        drop(first);
        assert!(pool.kept_bytes() >= 1000);
        let second = pool.take(900);
        assert_eq!(pool.kept_bytes(), 0, "the buffer was not reused");
        assert!(second.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_buffer_for_overwriting_keeps_its_bytes_and_has_its_length() {
        let pool = BufferPool::new(1 << 20);
        pool.take(1000).fill(77);
        let longer = pool.take_for_overwrite(900);
        assert_eq!((pool.kept_bytes(), longer.len()), (0, 900));
        assert!(longer.iter().all(|&byte| byte == 77));
        drop(longer);
        let extended = pool.take_for_overwrite(1000);
        assert_eq!((extended[899], extended[900], extended.len()), (77, 0, 1000));
        assert_eq!(BufferPool::new(0).take_for_overwrite(10)[..], [0; 10]);
    }

    #[test]
    fn a_full_pool_frees_its_oldest_buffer_and_keeps_none_above_its_bound() {
        let pool = BufferPool::new(1500);
        let (old, new) = (pool.take(1000), pool.take(1200));
        drop(old);
        drop(new);
        assert_eq!(pool.kept_bytes(), 1200);
        drop(pool.take(2000));
        assert!(pool.kept_bytes() <= 1500, "a buffer larger than the pool was kept");
    }

    #[test]
    fn another_buffer_comes_from_the_pool_of_the_first() {
        let pool = BufferPool::new(1 << 20);
        let first = pool.take(100);
        drop(first.another(5000));
        assert!(pool.kept_bytes() >= 5000);
        let loose = Buffer::from(vec![1; 10]);
        assert_eq!(loose.another(3)[..], [0; 3]);
        assert_eq!(loose.another_for_overwrite(3)[..], [0; 3]);
        let copy = first.clone();
        assert_eq!(copy, first);
        drop(copy);
        assert!(pool.kept_bytes() >= 5100, "a copy does not return to the pool");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn received_memory_is_a_buffer_without_a_copy() {
        let (worker, daemon) = (BufferPool::in_shared_memory(), BufferPool::new(1 << 20));
        let mut filled = worker.take(1000);
        filled.fill(5);
        let descriptor = filled.into_shared().expect("shared").into_descriptor();
        let mut received = daemon.received(ReceivedMemory::seal(&descriptor, 1000).unwrap());
        received[999] = 6;
        assert_eq!((received[0], received[999], received.len()), (5, 6, 1000));
        assert_eq!((worker.lent_bytes(), daemon.lent_bytes()), (1000, 0));
        assert!(daemon.take(10).into_shared().is_none());
        let copy = received.clone();
        assert_eq!((copy == received, daemon.lent_bytes()), (true, 1010), "a copy is counted");
        drop(received);
        assert!(daemon.kept_bytes() <= 10, "received memory is not kept");
    }

    #[test]
    fn bytes_taken_out_do_not_return_to_the_pool() {
        let pool = BufferPool::new(1 << 20);
        assert_eq!(pool.take(100).into_vec().len(), 100);
        assert_eq!(pool.kept_bytes(), 0);
    }
}
