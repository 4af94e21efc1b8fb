//! The store on a disk that fills up, loses a sync, cannot be read or goes away, and comes back.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};
use tempfile::TempDir;

use crate::store::database_file::Opener;
use crate::store::{
    AccountRecord, AccountV1, Bill, Change, ChangeError, LookupBy, Month, OpenError, Plan, Preset, Record, RedbStore,
    Rows, StateStore, Store, UnixSeconds,
};

const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
/// No wait here is meant to be as long.
const LONG: Duration = Duration::from_secs(60);
/// Bytes at the start of the file that a full disk still takes: they are written in place.
const HEADER: u64 = 4096;

/// What the disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Good,
    /// Writes fail with ENOSPC, in-place writes of the header aside.
    Full,
    /// Nothing works, opening included.
    Gone,
    /// The next sync fails after it has written everything; then the disk is good.
    LosesSync,
    /// The next sync fails after it has written everything; then the disk is gone.
    LosesSyncAndGoes,
    /// The next read fails; then the disk is good.
    LosesRead,
}

const STATES: [State; 6] =
    [State::Good, State::Full, State::Gone, State::LosesSync, State::LosesSyncAndGoes, State::LosesRead];

/// The disk. Clones share it.
#[derive(Clone, Debug)]
struct Disk {
    state: Arc<AtomicU8>,
    openings: Arc<AtomicU64>,
}

#[derive(Debug)]
struct File {
    file: FileBackend,
    disk: Disk,
}

impl Disk {
    fn good() -> Self {
        Self { state: Arc::new(AtomicU8::new(State::Good as u8)), openings: Arc::default() }
    }

    fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::SeqCst);
    }

    fn state(&self) -> State {
        STATES[usize::from(self.state.load(Ordering::SeqCst))]
    }

    fn opener(&self) -> Opener {
        let disk = self.clone();
        Box::new(move |path: &Path| {
            disk.openings.fetch_add(1, Ordering::SeqCst);
            if disk.state() == State::Gone {
                return Err(DatabaseError::Storage(redb::StorageError::Io(gone())));
            }
            let file = OpenOptions::new().read(true).write(true).open(path).expect("it is there");
            // Nothing is cached, so that a read is a read of the file.
            let file = File { file: FileBackend::new(file)?, disk: disk.clone() };
            redb::Builder::new().set_cache_size(0).create_with_backend(file)
        })
    }
}

fn gone() -> io::Error {
    io::Error::other("the disk is gone")
}

impl StorageBackend for File {
    fn len(&self) -> io::Result<u64> {
        if self.disk.state() == State::Gone { Err(gone()) } else { self.file.len() }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.disk.state() {
            State::Gone => Err(gone()),
            State::LosesRead => {
                self.disk.set(State::Good);
                Err(io::Error::other("a bad sector"))
            }
            State::Good | State::Full | State::LosesSync | State::LosesSyncAndGoes => self.file.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        // As with the real one: a file can be longer than the disk has room for.
        if self.disk.state() == State::Gone { Err(gone()) } else { self.file.set_len(len) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let state = self.disk.state();
        if state == State::Gone {
            return Err(gone());
        }
        self.file.sync_data()?;
        match state {
            State::LosesSync => self.disk.set(State::Good),
            State::LosesSyncAndGoes => self.disk.set(State::Gone),
            State::Good | State::Full | State::LosesRead | State::Gone => return Ok(()),
        }
        Err(io::Error::other("a lost sync"))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.disk.state() {
            State::Gone => Err(gone()),
            State::Full if offset >= HEADER => Err(io::ErrorKind::StorageFull.into()),
            State::Good | State::Full | State::LosesSync | State::LosesSyncAndGoes | State::LosesRead => {
                self.file.write(offset, data)
            }
        }
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

fn opened() -> (TempDir, Disk, RedbStore) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (disk, path) = (Disk::good(), folder.path().join("store"));
    let store = RedbStore::open_with_opener(disk.opener(), &path).expect("a new store");
    let account = AccountV1 { name: "a".into(), plan: Plan::Free, created_at: UnixSeconds(0) };
    let account = Change::CreateAccount { account: AccountRecord::V1(account).latest(), first_key: None };
    apply(&store, account).expect("a good disk");
    (folder, disk, store)
}

type Answer = mpsc::Receiver<Result<Rows, ChangeError>>;

fn submit(store: &RedbStore, change: Change) -> Answer {
    let (done, outcome) = mpsc::channel();
    store.submit(change, Box::new(move |result| drop(done.send(result))));
    outcome
}

fn apply(store: &RedbStore, change: Change) -> Result<Rows, ChangeError> {
    submit(store, change).recv_timeout(LONG).expect("the store answers")
}

fn bill() -> Change {
    Change::Bill(Bill {
        account: "a".into(),
        month: Month::of(NOW),
        images: 1,
        microdollars: 5,
        request: None,
        by: None,
    })
}

fn billed(store: &RedbStore) -> u64 {
    store.load_at(NOW).expect("the store reads").usage.first().map_or(0, |(_, _, usage)| usage.images)
}

fn preset() -> Preset {
    let (id, params) = ("preset_1".to_owned(), "{}".to_owned());
    Preset { name: id.clone(), id, account: "a".into(), endpoint: None, params, created_at: NOW, updated_at: NOW }
}

fn stored_preset(store: &RedbStore) -> Result<Option<Preset>, OpenError> {
    store.read(|tables| tables.presets.find("a", "preset_1", LookupBy::Id))
}

/// Waits until the store has a fault, or has none.
fn until_faulty(store: &RedbStore, is_faulty: bool) {
    until(|| store.fault().is_some() == is_faulty);
}

fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn assert_sound(store: &RedbStore) {
    let report = store.check().expect("the store reads");
    assert!(report.is_sound(), "{:?}", report.findings);
}

#[test]
fn a_full_disk_makes_the_store_unready_and_room_brings_it_back() {
    let (_folder, disk, store) = opened();
    apply(&store, bill()).expect("a good disk");
    disk.set(State::Full);
    let refused = apply(&store, bill());
    assert!(matches!(refused, Err(ChangeError::Unavailable(_))), "{refused:?}");
    until_faulty(&store, true);
    // Changes are refused at once, and what is there can be read.
    assert!(matches!(apply(&store, bill()), Err(ChangeError::Unavailable(_))));
    assert!(store.fault().is_some_and(|reason| !reason.is_empty()));
    assert_eq!(billed(&store), 1);
    disk.set(State::Good);
    until_faulty(&store, false);
    apply(&store, bill()).expect("there is room again");
    assert_eq!(billed(&store), 2);
    assert_sound(&store);
}

#[test]
fn a_change_that_was_written_before_its_sync_failed_is_acknowledged_and_made_once() {
    let (_folder, disk, store) = opened();
    for bills in 1..=5 {
        disk.set(State::LosesSync);
        let rows = apply(&store, bill()).expect("it was written");
        assert_eq!((rows.usage[0].2.images, billed(&store)), (bills, bills));
        assert_eq!(store.fault(), None, "the store works");
    }
    assert_sound(&store);
}

#[test]
fn a_change_whose_outcome_is_unknown_waits_for_the_disk_and_others_are_refused() {
    let (_folder, disk, store) = opened();
    disk.set(State::LosesSyncAndGoes);
    let unknown = submit(&store, bill());
    until_faulty(&store, true);
    assert!(matches!(apply(&store, bill()), Err(ChangeError::Unavailable(_))));
    assert!(stored_preset(&store).is_err(), "there is no disk");
    assert!(matches!(unknown.try_recv(), Err(mpsc::TryRecvError::Empty)), "its outcome is not known");
    disk.set(State::Good);
    assert_eq!(unknown.recv_timeout(LONG).expect("an answer").expect("it was written").usage[0].2.images, 1);
    until_faulty(&store, false);
    assert_eq!(billed(&store), 1);
    assert_sound(&store);
}

#[tokio::test]
async fn a_change_whose_caller_left_before_its_outcome_was_known_is_copied_to_memory() {
    let (_folder, disk, file) = opened();
    let store = Store::file(file, 50).expect("it loads");
    disk.set(State::LosesSyncAndGoes);
    assert!(store.change(bill()).now_or_never().is_none(), "its outcome is not known");
    let used = async || store.usage("a", Plan::Free, NOW).await.expect("in memory").used;
    until(|| store.fault().is_some());
    assert_eq!(used().await, 0);
    disk.set(State::Good);
    until(|| store.fault().is_none());
    assert_eq!(used().await, 1);
}

#[test]
fn a_failed_read_does_not_end_the_store() {
    let (_folder, disk, store) = opened();
    apply(&store, Change::PutPreset { preset: preset(), replaces: false }).expect("a good disk");
    let openings = disk.openings.load(Ordering::SeqCst);
    disk.set(State::LosesRead);
    assert!(stored_preset(&store).is_err());
    until(|| stored_preset(&store).is_ok());
    until_faulty(&store, false);
    assert!(disk.openings.load(Ordering::SeqCst) > openings);
    apply(&store, bill()).expect("a good disk");
    assert_sound(&store);
}

#[test]
fn over_any_faults_what_is_billed_is_what_was_acknowledged() {
    let (_folder, disk, store) = opened();
    let mut acknowledged = 0;
    for turn in 0..4 {
        for state in STATES {
            disk.set(state);
            let answers: Vec<Answer> = (0..=turn).map(|_| submit(&store, bill())).collect();
            if matches!(state, State::Full | State::Gone | State::LosesSyncAndGoes) {
                until_faulty(&store, true);
            }
            disk.set(State::Good);
            for answer in answers {
                match answer.recv_timeout(LONG).expect("an answer") {
                    Ok(_) => acknowledged += 1,
                    Err(error) => assert!(matches!(error, ChangeError::Unavailable(_)), "{error}"),
                }
            }
            until_faulty(&store, false);
            assert_eq!(billed(&store), acknowledged, "{state:?}");
        }
    }
    assert!(acknowledged > 0);
    assert_sound(&store);
}
