//! A pool of byte buffers that are returned to it when they are dropped.
//!
//! A fresh 48 MB allocation costs a page fault every 4 KiB; a reused one only a memset. Buffers are zeroed when
//! they are taken, so that no pixel of one caller's picture can ever show up in another's; work of ours that writes each
//! byte, or drops the buffer, may take them as they are. A full pool frees its oldest buffers first, so that it follows the
//! sizes in use.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A pool of byte buffers for reuse. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

struct Shared {
    max_kept_bytes: usize,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl BufferPool {
    /// A pool that keeps at most `max_kept_bytes` of unused buffers; what does not fit is freed.
    #[must_use]
    pub fn new(max_kept_bytes: usize) -> Self {
        Self { shared: Arc::new(Shared { max_kept_bytes, kept: Mutex::default() }) }
    }

    /// A zeroed buffer of `len` bytes.
    #[must_use]
    pub fn take(&self, len: usize) -> Buffer {
        let mut bytes = self.reused(len).unwrap_or_default();
        bytes.clear();
        self.lent(bytes, len)
    }

    /// A buffer of `len` bytes that may hold an earlier picture: only for work that writes each byte, or drops it.
    #[must_use]
    pub fn take_for_overwrite(&self, len: usize) -> Buffer {
        let mut bytes = self.reused(len).unwrap_or_default();
        bytes.truncate(len);
        self.lent(bytes, len)
    }

    /// `bytes`, extended by zeros to `len`.
    fn lent(&self, mut bytes: Vec<u8>, len: usize) -> Buffer {
        if bytes.capacity() == 0 {
            // From the system, fresh pages are zero already.
            bytes = vec![0; len];
        }
        bytes.resize(len, 0);
        Buffer { bytes, pool: Arc::downgrade(&self.shared) }
    }

    fn reused(&self, len: usize) -> Option<Vec<u8>> {
        let mut kept = self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that fits, but not one that would waste more than half of itself.
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
    bytes: Vec<u8>,
    pool: Weak<Shared>,
}

impl Buffer {
    /// Another zeroed buffer, from the same pool where this one has one.
    #[must_use]
    pub fn another(&self, len: usize) -> Self {
        match self.pool.upgrade() {
            Some(shared) => BufferPool { shared }.take(len),
            None => Self::from(vec![0; len]),
        }
    }

    /// Another buffer, from the same pool, that may hold an earlier picture: only for work that writes each byte.
    #[must_use]
    pub fn another_for_overwrite(&self, len: usize) -> Self {
        match self.pool.upgrade() {
            Some(shared) => BufferPool { shared }.take_for_overwrite(len),
            None => Self::from(vec![0; len]),
        }
    }

    /// Takes the bytes out; they do not return to the pool.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        self.pool = Weak::new();
        std::mem::take(&mut self.bytes)
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, pool: Weak::new() }
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
        self.bytes == other.bytes
    }
}

impl Eq for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        let capacity = self.bytes.capacity();
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
        kept.push(std::mem::take(&mut self.bytes));
        drop(kept); // before `freed`: 48 MB are not unmapped under the lock
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes.len())
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
    fn the_pool_never_holds_more_than_its_bound() {
        let pool = BufferPool::new(1500);
        let (a, b) = (pool.take(1000), pool.take(1000));
        drop(a);
        drop(b);
        assert!((1000..=1500).contains(&pool.kept_bytes()));
        drop(pool.take(2000));
        assert!(pool.kept_bytes() <= 1500, "a buffer larger than the pool was kept");
    }

    #[test]
    fn a_full_pool_frees_its_oldest_buffer() {
        let pool = BufferPool::new(1500);
        let (old, new) = (pool.take(1000), pool.take(1200));
        drop(old);
        drop(new);
        assert_eq!(pool.kept_bytes(), 1200);
    }

    #[test]
    fn another_buffer_comes_from_the_same_pool() {
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

    #[test]
    fn bytes_taken_out_do_not_return_to_the_pool() {
        let pool = BufferPool::new(1 << 20);
        assert_eq!(pool.take(100).into_vec().len(), 100);
        assert_eq!(pool.kept_bytes(), 0);
    }
}
