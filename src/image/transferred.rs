//! Bytes of one picture transferred between host and GPU.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes transferred for one picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// From host to device.
    pub up: u64,
    /// From device to host.
    pub down: u64,
}

/// Sums transfers, shared by threads.
#[derive(Debug, Default)]
pub struct TransferCounter {
    up: AtomicU64,
    down: AtomicU64,
}

impl TransferCounter {
    /// Adds transfers.
    pub fn add(&self, more: Transferred) {
        self.up.fetch_add(more.up, Ordering::Relaxed);
        self.down.fetch_add(more.down, Ordering::Relaxed);
    }

    /// The sum so far.
    #[must_use]
    pub fn total(&self) -> Transferred {
        Transferred { up: self.up.load(Ordering::Relaxed), down: self.down.load(Ordering::Relaxed) }
    }
}
