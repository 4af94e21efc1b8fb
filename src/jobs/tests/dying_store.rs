//! A store that simulates a crash at a given change, or a full disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use crate::store::{Change, ChangeError, OnCommit, RedbStore, StateStore};

/// A store whose process dies at its `life`th change: before it is written, or after that and before its answer. While
/// its disk is full it refuses every change.
#[derive(Debug)]
pub(super) struct DyingStore {
    store: RedbStore,
    life: AtomicI64,
    writes_last: bool,
    pub(super) dead: Arc<AtomicBool>,
    full: Arc<FullDisk>,
}

impl DyingStore {
    /// A store whose process dies before or, if it `writes_last`, after its `life`th change is written.
    pub(super) fn with_life(store: RedbStore, life: i64, writes_last: bool) -> Self {
        Self { store, life: life.into(), writes_last, dead: Arc::default(), full: Arc::default() }
    }

    /// A store whose process does not die, on a disk that may be full.
    pub(super) fn on_disk(store: RedbStore, full: &Arc<FullDisk>) -> Self {
        Self { full: Arc::clone(full), ..Self::with_life(store, i64::MAX, false) }
    }
}

/// Whether the disk of the store is full, and the changes that were refused for that.
#[derive(Debug, Default)]
pub(super) struct FullDisk {
    /// Makes the next change, also on a full disk, and reports it as failed.
    pub(super) hides_next: AtomicBool,
    pub(super) is_full: AtomicBool,
    pub(super) refused: AtomicUsize,
}

impl StateStore for DyingStore {
    fn file(&self) -> &RedbStore {
        &self.store
    }

    fn submit(&self, change: Change, done: OnCommit) {
        if self.full.hides_next.swap(false, Ordering::SeqCst) {
            drop(super::support::submit(&self.store, change));
            return done(Err(ChangeError::Storage("the disk failed".into())));
        }
        if self.full.is_full.load(Ordering::SeqCst) {
            self.full.refused.fetch_add(1, Ordering::SeqCst);
            return done(Err(ChangeError::Unavailable("no space left on device".into())));
        }
        match self.life.fetch_sub(1, Ordering::SeqCst) {
            2.. => self.store.submit(change, done),
            left => {
                if left == 1 && self.writes_last {
                    drop(super::support::submit(&self.store, change));
                }
                self.dead.store(true, Ordering::SeqCst);
                drop(done);
            }
        }
    }

    fn fault(&self) -> Option<String> {
        None
    }
}
