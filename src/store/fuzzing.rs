//! Fuzz targets of the store: stored records of all versions, and changes on a disk that fails and loses power.

use super::faulty_disk::{Failure, FaultyDisk};
use super::{
    Account, AccountModel, AccountRecord, Bill, Change, ChangeError, Day, JobRecord, Key, KeyDayRecord, KeyHash,
    KeyRecord, KeyUse, Month, Plan, Preset, PresetRecord, Record, RedbStore, Request, RequestRecord, Rows, StateStore,
    UnixSeconds, UsageRecord,
};
use arbitrary::{Result, Unstructured};
use std::fmt::Debug;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// 2026-01-01T00:00:00Z.
const NOW: UnixSeconds = UnixSeconds(1_767_225_600);
/// No answer takes as long.
const LONG: Duration = Duration::from_secs(60);
/// A store takes changes again within this time after its disk is mended: its attempts are at most 10 s apart.
const RECOVERY: Duration = Duration::from_secs(30);
/// Steps of one case.
const STEPS: usize = 24;

/// Reads the bytes after the first as a record of the kind that this one selects. What is read is written as it was read,
/// and its newest form survives being stored.
///
/// # Panics
/// When that is not so.
pub fn record(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    match kind % 7 {
        0 => read::<AccountRecord>(bytes),
        1 => read::<KeyRecord>(bytes),
        2 => read::<PresetRecord>(bytes),
        3 => read::<UsageRecord>(bytes),
        4 => read::<KeyDayRecord>(bytes),
        5 => read::<RequestRecord>(bytes),
        _ => read::<JobRecord>(bytes),
    }
}

fn read<R: Record<Latest: Clone + Debug + PartialEq>>(bytes: &[u8]) {
    let Ok(record) = R::decode(bytes) else { return };
    // Numbers of variable length may be stored longer than needed.
    let written = record.encode();
    assert!(written.len() <= bytes.len());
    let latest = record.latest();
    assert_eq!(R::decode(&written).expect("it was just written").latest(), latest);
    let upgraded = R::from_latest(latest.clone()).encode();
    assert_eq!(R::decode(&upgraded).expect("it was just written").latest(), latest);
}

/// Makes changes on a disk that fails, is opened again and loses power, and the acknowledged ones on a good disk: both
/// stores answer the same and hold the same rows, and the open store takes changes again once its disk is mended.
///
/// # Panics
/// When they do not: an acknowledged change is lost, one that was refused is there, or changes are refused for ever.
pub fn changes(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let mut case = Case::new();
    for _ in 0..STEPS {
        if input.is_empty() || case.step(&mut input).is_err() {
            break;
        }
    }
    case.reopen(None);
}

/// A store on a failing disk, and one on a good one.
struct Case {
    disk: FaultyDisk,
    store: Option<RedbStore>,
    reference: RedbStore,
}

impl Case {
    fn new() -> Self {
        let disk = FaultyDisk::new();
        let store = Some(disk.open().expect("a good disk"));
        let reference = FaultyDisk::new().open().expect("a good disk");
        let mut case = Self { disk, store, reference };
        for name in ["a", "a-"] {
            let (plan, model) = (Plan::Free, AccountModel::default());
            let account = Account { name: name.into(), plan, created_at: NOW, generates: false, model };
            case.change(Change::CreateAccount { account, first_key: None });
        }
        case
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=11_u8)? {
            0..=6 => {
                let change = change(input)?;
                self.change(change);
            }
            7 | 8 => {
                let failure = Failure {
                    after: input.int_in_range(0..=40)?,
                    lasts: input.ratio(1, 16)?,
                    has_effect: input.arbitrary()?,
                };
                self.disk.set_failure(Some(failure));
            }
            9 => {
                // The result of a failed read does not matter; the store has to live on.
                let store = self.store.as_ref().expect("it is open");
                let _ = (store.presets("a", None, 10), store.load_at(NOW));
            }
            10 => self.reopen(None),
            _ => {
                let kept: u64 = input.arbitrary()?;
                self.reopen(Some(kept));
            }
        }
        Ok(())
    }

    /// Makes one change and waits for its outcome.
    fn change(&mut self, change: Change) {
        let store = self.store.as_ref().expect("it is open");
        let (done, outcome) = mpsc::channel();
        store.submit(change.clone(), Box::new(move |result| drop(done.send(result))));
        let started = Instant::now();
        let result = loop {
            match outcome.recv_timeout(Duration::from_micros(200)) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Timeout) => {
                    assert!(started.elapsed() < LONG, "no answer to {change:?}");
                    // The outcome is not known before the disk works again.
                    if store.fault().is_some() {
                        self.disk.set_failure(None);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the answer to {change:?} was dropped"),
            }
        };
        match result {
            Err(ChangeError::Unavailable(_)) => {}
            Err(ChangeError::Storage(_)) => self.settle(change),
            answer => assert_eq!(answer, submit(&self.reference, change.clone()), "{change:?}"),
        }
    }

    /// Mends the disk and waits until the store, which stays open, takes changes again.
    fn mend(&self) {
        self.disk.set_failure(None);
        let store = self.store.as_ref().expect("it is open");
        let missing = Change::DeletePreset { account: "a".into(), id: "missing".into() };
        let started = Instant::now();
        loop {
            let result = submit(store, missing.clone());
            if let Err(ChangeError::NoSuchPreset(_)) = result {
                return;
            }
            assert!(started.elapsed() < RECOVERY, "the disk works, and the store does not: {result:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Finds out whether a change of unknown outcome was made.
    fn settle(&mut self, change: Change) {
        self.mend();
        self.store = None;
        let store = self.disk.open().expect("a mended disk");
        if rows(&store) != rows(&self.reference) {
            let _ = submit(&self.reference, change);
        }
        self.store = Some(store);
        self.compare();
    }

    /// Mends the disk and opens the store again, after a loss of power that keeps of the sectors not synced those in `kept`.
    fn reopen(&mut self, kept: Option<u64>) {
        // The bits in turn.
        let mut at = 0_u32;
        let file = kept.map(|kept| {
            self.disk.after_power_loss(&mut || {
                at += 1;
                kept >> (at % 64) & 1 == 1
            })
        });
        // What the store still writes does not count after a loss of power.
        self.mend();
        self.store = None;
        if let Some(file) = file {
            self.disk = FaultyDisk::holding(file);
        }
        self.store = Some(self.disk.open().expect("a mended disk"));
        self.compare();
    }

    fn compare(&self) {
        let store = self.store.as_ref().expect("it is open");
        assert_eq!(rows(store), rows(&self.reference));
        let report = store.check().expect("the store reads");
        assert!(report.is_sound(), "{:?}", report.findings);
    }
}

fn submit(store: &RedbStore, change: Change) -> std::result::Result<Rows, ChangeError> {
    let (done, outcome) = mpsc::channel();
    store.submit(change, Box::new(move |result| drop(done.send(result))));
    outcome.recv_timeout(LONG).expect("a good disk")
}

/// All rows of a store.
pub(super) fn rows(store: &RedbStore) -> Rows {
    let mut rows = store.load_at(NOW).expect("the store reads");
    for account in ["a", "a-"] {
        rows.presets.extend(store.presets(account, None, 1000).expect("the store reads"));
    }
    rows
}

/// A change of a few accounts, keys and presets.
pub(super) fn change(input: &mut Unstructured<'_>) -> Result<Change> {
    let account = (*input.choose(&["a", "a-", "missing"])?).to_owned();
    let number = input.int_in_range(0..=3_u8)?;
    let at = UnixSeconds(NOW.0 + i64::from(number));
    let id = format!("key_{number}");
    Ok(match input.int_in_range(0..=9_u8)? {
        0..=3 => Change::Bill(Bill {
            account,
            month: Month(202_601),
            images: u64::from(number),
            microdollars: 5,
            request: input.arbitrary::<Option<u8>>()?.map(|name| {
                let (fingerprint, pictures) = ([name; 32], vec![None]);
                (format!("request {}", name % 8), Request { fingerprint, images: 1, at, pictures })
            }),
            by: Some(KeyUse { key_id: id, day: Day::of(NOW), milliseconds: 7 }),
            check: None,
        }),
        4 | 5 => {
            // Long values take several pages.
            let params = format!("{{\"text\":\"{}\"}}", "x".repeat(input.int_in_range(0..=3000)?));
            let (id, name) = (format!("preset_{number}"), input.int_in_range(0..=3_u8)?.to_string());
            let preset = Preset { id, account, name, endpoint: None, params, created_at: at, updated_at: at };
            if input.arbitrary()? { Change::PutPreset { preset } } else { Change::ReplacePreset { preset } }
        }
        6 => Change::DeletePreset { account, id: format!("preset_{number}") },
        7 => Change::CreateKey { hash: KeyHash([number; 32]), key: key(id, account) },
        8 => {
            let (from, to) = (input.int_in_range(0..=7_u8)?, input.int_in_range(0..=7_u8)?);
            Change::RotateKey { id, from: KeyHash([from; 32]), to: KeyHash([to; 32]), keep_until: Some(at) }
        }
        _ => match input.int_in_range(0..=3_u8)? {
            0 => Change::RevokeKey { id, at },
            1 => Change::ForgetRequests { before: at, at_most: 3 },
            2 => Change::CountGenerated { day: Day(u32::from(number)) },
            _ => Change::SetAccount { account, plan: Some(Plan::Paid), generates: Some(number > 1), model: None },
        },
    })
}

fn key(id: String, account: String) -> Key {
    Key {
        id,
        account,
        label: "label".into(),
        test: false,
        created_at: NOW,
        revoked_at: None,
        last_used_at: None,
        expires_at: None,
        images_per_month: Some(7),
        scopes: vec!["remove".into()],
        previous: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::replay;

    #[test]
    #[should_panic(expected = "left == right")]
    fn a_lost_change_is_found() {
        let case = Case::new();
        submit(&case.reference, Change::CountGenerated { day: Day(1) }).expect("a good disk");
        case.compare();
    }

    #[test]
    fn seeds_of_records_pass() {
        replay("record", record);
    }

    #[test]
    fn seeds_of_changes_pass() {
        replay("store", changes);
    }
}
