//! A disk in memory under the store's file that fails on demand and loses power: for tests and fuzz targets.
//!
//! What was written since the last sync is kept apart, write by write. A loss of power keeps any part of it: of each write any
//! of its sectors, in any order. A sync that fails may have lost it all, while the program still reads it from the page cache
//! until the file is opened again (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).

use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;
use tempfile::NamedTempFile;

use crate::store::database_file::{Opener, create_tables};
use crate::store::{OpenError, RedbStore};

/// Bytes that a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// A file without a row.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let disk = FaultyDisk::holding(Vec::new());
    let database = redb::Builder::new().create_with_backend(disk.file()).expect("a good disk");
    create_tables(&database).expect("a good disk");
    drop(database);
    disk.lock().durable.clone()
});

/// The store opens its file by this path, and ignores what is in it.
static PATH: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().expect("a temporary file"));

/// Which call fails, and how.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Failure {
    /// Calls that succeed before it.
    pub(in crate::store) after: u32,
    /// Whether all later calls fail.
    pub(in crate::store) lasts: bool,
    /// Whether the call that fails first has had its effect.
    pub(in crate::store) has_effect: bool,
}

/// A change of the file.
#[derive(Clone, Debug)]
enum Operation {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

/// The disk. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::store) struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What is on the disk for certain.
    durable: Vec<u8>,
    /// What was changed since.
    unsynced: Vec<Operation>,
    /// What the program reads.
    cached: Vec<u8>,
    failure: Option<Failure>,
    /// What happened, where it is recorded.
    recording: Option<Vec<Event>>,
}

/// An event of a recorded run.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests alone record"))]
enum Event {
    Changed(Operation),
    /// A sync begins.
    Sync,
    /// See [`FaultyDisk::mark`].
    Mark,
}

/// Selects what a loss of power keeps.
pub(in crate::store) trait Keep {
    /// Whether the next sector was written.
    fn keeps(&mut self) -> bool;
}

impl<F: FnMut() -> bool> Keep for F {
    fn keeps(&mut self) -> bool {
        self()
    }
}

impl FaultyDisk {
    /// A disk with the file of a store without a row.
    pub(in crate::store) fn new() -> Self {
        Self::holding(EMPTY.clone())
    }

    /// A disk with this file.
    pub(in crate::store) fn holding(file: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { durable: file.clone(), cached: file, ..State::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> File {
        File(self.clone())
    }

    /// Opens the store on it.
    pub(in crate::store) fn open(&self) -> Result<RedbStore, OpenError> {
        let disk = self.clone();
        let opener: Opener = Box::new(move |_| {
            disk.lock().drop_page_cache();
            // Nothing is cached, so that a read is a read of the file.
            redb::Builder::new().set_cache_size(0).create_with_backend(disk.file())
        });
        RedbStore::open_with_opener(opener, PATH.path())
    }

    /// Lets a later call fail; `None` mends the disk.
    pub(in crate::store) fn set_failure(&self, failure: Option<Failure>) {
        self.lock().failure = failure;
    }

    /// The file after a loss of power now.
    pub(in crate::store) fn after_power_loss(&self, keep: &mut dyn Keep) -> Vec<u8> {
        let state = self.lock();
        cut(&state.durable, &state.unsynced, keep)
    }
}

/// Recordings, for the tests of power loss.
#[cfg(test)]
impl FaultyDisk {
    /// Records from now on what happens.
    pub(in crate::store) fn record(&self) {
        self.lock().recording = Some(Vec::new());
    }

    /// Marks in the recording that a change is acknowledged now.
    pub(in crate::store) fn mark(&self) {
        if let Some(recording) = &mut self.lock().recording {
            recording.push(Event::Mark);
        }
    }

    /// Calls `each` with files after a loss of power at each sync of the recorded run, `times` for each, with the number of
    /// marks before it. `from` is the file at the start of the recording.
    pub(in crate::store) fn cut_at_every_sync(
        &self,
        mut from: Vec<u8>,
        times: usize,
        keep: &mut dyn Keep,
        mut each: impl FnMut(Vec<u8>, usize),
    ) {
        let recording = self.lock().recording.take().unwrap_or_default();
        let (mut unsynced, mut marks) = (Vec::new(), 0);
        for event in recording {
            match event {
                Event::Mark => marks += 1,
                Event::Changed(operation) => unsynced.push(operation),
                Event::Sync => {
                    for _ in 0..times {
                        each(cut(&from, &unsynced, keep), marks);
                    }
                    unsynced.drain(..).for_each(|operation| apply(&mut from, &operation, 0, usize::MAX));
                }
            }
        }
    }
}

/// What of `unsynced` changes the disk keeps on top of `durable`.
fn cut(durable: &[u8], unsynced: &[Operation], keep: &mut dyn Keep) -> Vec<u8> {
    let mut file = durable.to_vec();
    for operation in unsynced {
        match operation {
            Operation::SetLen(_) => {
                if keep.keeps() {
                    apply(&mut file, operation, 0, usize::MAX);
                }
            }
            Operation::Write(offset, data) => {
                let mut start = 0;
                while start < data.len() {
                    let at = *offset as usize + start;
                    let end = (start + SECTOR - at % SECTOR).min(data.len());
                    if keep.keeps() {
                        apply(&mut file, operation, start, end);
                    }
                    start = end;
                }
            }
        }
    }
    file
}

/// Applies `operation`, of a write the bytes from `start` to `end`.
fn apply(file: &mut Vec<u8>, operation: &Operation, start: usize, end: usize) {
    match operation {
        Operation::SetLen(len) => file.resize(*len as usize, 0),
        Operation::Write(offset, data) => {
            let (at, data) = (*offset as usize + start, &data[start..end.min(data.len())]);
            if file.len() < at + data.len() {
                file.resize(at + data.len(), 0);
            }
            file[at..at + data.len()].copy_from_slice(data);
        }
    }
}

impl State {
    fn change(&mut self, operation: Operation) {
        apply(&mut self.cached, &operation, 0, usize::MAX);
        if let Some(recording) = &mut self.recording {
            recording.push(Event::Changed(operation.clone()));
        }
        self.unsynced.push(operation);
    }

    fn sync(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.push(Event::Sync);
        }
        let Self { durable, unsynced, .. } = self;
        unsynced.drain(..).for_each(|operation| apply(durable, &operation, 0, usize::MAX));
    }

    /// Forgets what a failed sync has lost.
    fn drop_page_cache(&mut self) {
        self.cached.clone_from(&self.durable);
        for operation in &self.unsynced {
            apply(&mut self.cached, operation, 0, usize::MAX);
        }
    }

    /// Whether the next call fails, and whether it has its effect all the same.
    fn fails(&mut self) -> Option<bool> {
        let failure = self.failure.as_mut()?;
        if failure.after > 0 {
            failure.after -= 1;
            return None;
        }
        let has_effect = std::mem::take(&mut failure.has_effect);
        if !failure.lasts {
            self.failure = None;
        }
        Some(has_effect)
    }
}

/// The file on the disk.
#[derive(Debug)]
struct File(FaultyDisk);

impl File {
    /// Runs `effect`, unless it fails without one; `loss` is what a failed one does instead.
    fn call(&self, effect: impl FnOnce(&mut State), loss: impl FnOnce(&mut State)) -> io::Result<()> {
        let mut state = self.0.lock();
        match state.fails() {
            None => {
                effect(&mut state);
                Ok(())
            }
            Some(has_effect) => {
                if has_effect {
                    effect(&mut state)
                } else {
                    loss(&mut state)
                }
                Err(io::Error::other("the disk fails"))
            }
        }
    }
}

impl StorageBackend for File {
    fn len(&self) -> io::Result<u64> {
        let mut len = 0;
        self.call(|state| len = state.cached.len() as u64, |_| {})?;
        Ok(len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut found = false;
        self.call(
            |state| {
                if let Some(data) = state.cached.get(offset as usize..).and_then(|rest| rest.get(..out.len())) {
                    out.copy_from_slice(data);
                    found = true;
                }
            },
            |_| {},
        )?;
        if found { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(|state| state.change(Operation::SetLen(len)), |_| {})
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(State::sync, |state| state.unsynced.clear())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(|state| state.change(Operation::Write(offset, data.to_vec())), |_| {})
    }
}
