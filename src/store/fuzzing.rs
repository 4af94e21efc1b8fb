//! Fuzz targets of the store: stored records of all versions, and changes on a disk that fails and loses power.

use super::tests::faulty_disk::{Failure, FaultyDisk};
use super::{
    Account, AccountModel, AccountRecord, Bill, Change, ChangeError, Day, Job, JobChange, JobEnd, JobError, JobRecord,
    JobResult, JobState, Key, KeyChange, KeyDayRecord, KeyHash, KeyRecord, KeyUpdate, KeyUse, Month, Plan, Preset,
    PresetRecord, Record, RedbStore, Request, RequestRecord, Rows, StateStore, UnixSeconds, Usage, UsageRecord,
    Webhook,
};
use arbitrary::{Result, Unstructured};
use std::fmt::Debug;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// 2026-01-01T00:00:00Z.
const NOW: UnixSeconds = UnixSeconds(1_767_225_600);
const MONTH: Month = Month(202_601);
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
                let change = change(input, &self.reference)?;
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
                let _ = (store.read(|tables| tables.presets.page("a", None, 10)), store.load_at(NOW));
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
        if !matches!(result, Err(ChangeError::Unavailable(_))) {
            assert_eq!(result, submit(&self.reference, change.clone()), "{change:?}");
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

/// Rows, and the billed requests with account and `Idempotency-Key`.
pub(super) type AllRows = (Rows, Vec<(String, String, Request)>);

/// All rows of a store.
pub(super) fn rows(store: &RedbStore) -> AllRows {
    let mut rows = store.load_at(NOW).expect("the store reads");
    let more = store.read(|tables| {
        for account in ["a", "a-"] {
            rows.presets.extend(tables.presets.page(account, None, 1000)?);
        }
        for key_id in ["key_0", "key_1"] {
            rows.jobs.extend(tables.jobs.page(key_id, None, 1000)?);
        }
        // It depends on the account whose job was started last, which is in no other row.
        rows.jobs.extend(tables.jobs.next(tables.meta.last_turn()?, &[])?);
        let mut requests = Vec::new();
        for row in tables.requests.rows.all()? {
            let (names, request) = row?;
            let (account, key) = names.value();
            requests.push((account.to_owned(), key.to_owned(), request?));
        }
        Ok((rows, requests))
    });
    more.expect("the store reads")
}

/// A change of a few accounts, keys, presets and jobs, to be made in `store`.
pub(super) fn change(input: &mut Unstructured<'_>, store: &RedbStore) -> Result<Change> {
    let account = (*input.choose(&["a", "a-", "missing"])?).to_owned();
    let number = input.int_in_range(0..=3_u8)?;
    let at = UnixSeconds(NOW.0 + i64::from(number));
    let day = Day(Day::of(NOW).0 + u32::from(number));
    let id = format!("key_{number}");
    Ok(match input.int_in_range(0..=19_u8)? {
        0..=3 => Change::Bill(Bill {
            account,
            month: MONTH,
            images: u64::from(number),
            microdollars: 5,
            request: input.arbitrary::<Option<u8>>()?.map(|name| {
                let (fingerprint, pictures) = ([name; 32], vec![None]);
                (format!("request {}", name % 8), Request { fingerprint, images: 1, at, pictures })
            }),
            by: Some(KeyUse { key_id: id, day, milliseconds: 7 }),
        }),
        4 | 5 => {
            // Long values take several pages.
            let params = format!("{{\"text\":\"{}\"}}", "x".repeat(input.int_in_range(0..=3000)?));
            let (id, name) = (format!("preset_{number}"), input.int_in_range(0..=3_u8)?.to_string());
            let preset = Preset { id, account, name, endpoint: None, params, created_at: at, updated_at: at };
            Change::PutPreset { preset, replaces: !input.arbitrary::<bool>()? }
        }
        6 => Change::DeletePreset { account, id: format!("preset_{number}") },
        7 => Change::CreateKey { hash: KeyHash([number; 32]), key: key(id, account) },
        8 => {
            let (from, to) = (input.int_in_range(0..=7_u8)?, input.int_in_range(0..=7_u8)?);
            Change::Key {
                id,
                change: KeyChange::Rotate { from: KeyHash([from; 32]), to: KeyHash([to; 32]), keep_until: Some(at) },
            }
        }
        9 => match input.int_in_range(0..=3_u8)? {
            0 => Change::Key { id, change: KeyChange::Revoke { at } },
            1 => Change::ForgetRequests { before: at, at_most: 3 },
            2 => {
                let (day, at_most) = (Day(u32::from(number)), 2);
                if input.arbitrary()? {
                    Change::CountGenerated { day, at_most }
                } else {
                    Change::ReturnGenerated { day }
                }
            }
            _ => Change::SetAccount { account, plan: Some(Plan::Paid), generates: Some(number > 1), model: None },
        },
        10..=17 => job_change(input, number, at, store)?,
        18 => Change::Key {
            id,
            change: KeyChange::Set(KeyUpdate {
                expires_at: Some(input.arbitrary::<bool>()?.then_some(at)),
                images_per_month: Some(Some(u64::from(number))),
                scopes: None,
            }),
        },
        _ => {
            let used = vec![(id, at), ("key_0".into(), at)];
            if input.arbitrary()? { Change::TouchKeys { used } } else { Change::ForgetKeyDays { before: day } }
        }
    })
}

/// A change of one of four jobs: mostly one that its state in `store` allows, as most random ones would be refused.
fn job_change(input: &mut Unstructured<'_>, number: u8, at: UnixSeconds, store: &RedbStore) -> Result<Change> {
    let id = format!("job_{number:024}");
    let allowed = match store.read(|tables| tables.jobs.rows.get(&id)).expect("the store reads").map(|job| job.state) {
        None => 0,
        Some(JobState::Queued) => 1,
        Some(JobState::Processing) => 2,
        Some(JobState::Done | JobState::Failed) => input.int_in_range(3..=5_u8)?,
    };
    let kind = if input.ratio(3, 4)? { allowed } else { input.int_in_range(0..=6_u8)? };
    let change = match kind {
        0 => {
            let job = Box::new(job(input, id, number, at)?);
            return Ok(Change::CreateJob { job, at_most: input.int_in_range(1..=3)? });
        }
        1 => JobChange::Start { at },
        2 => JobChange::Finish { at, expires_at: UnixSeconds(at.0 + 3600), end: job_end(input, &id, at)? },
        3 => JobChange::ForgetResult,
        4 => JobChange::NoteWebhook { next_at: input.arbitrary::<bool>()?.then_some(at) },
        5 => JobChange::Remove,
        _ => JobChange::Requeue { progress: number, at },
    };
    Ok(Change::Job { id, attempt: None, change })
}

/// A new job of one of two keys, which have different accounts.
fn job(input: &mut Unstructured<'_>, id: String, number: u8, at: UnixSeconds) -> Result<Job> {
    let (key_id, account) = if number < 2 { ("key_0", "a") } else { ("key_1", "a-") };
    Ok(Job {
        id,
        key_id: key_id.into(),
        account: account.into(),
        test: false,
        state: JobState::Queued,
        progress: 0,
        // Long values take several pages.
        fields: vec![("text".into(), "x".repeat(input.int_in_range(0..=3000)?))],
        format: "mp4".into(),
        name: input.arbitrary::<Option<bool>>()?.map(|name| name.to_string()),
        fingerprint: [number; 32],
        unit_price: 5,
        month: MONTH,
        reserved: 2,
        created_at: at,
        place: i64::from(input.arbitrary::<u8>()?),
        updated_at: at,
        expires_at: UnixSeconds(at.0 + 3600),
        result: None,
        warnings: Vec::new(),
        error: None,
        webhook: input.arbitrary::<bool>()?.then(|| Webhook {
            url: "https://example.com/".into(),
            base: "https://example.org".into(),
            attempts: 0,
            next_at: None,
        }),
    })
}

fn job_end(input: &mut Unstructured<'_>, id: &str, at: UnixSeconds) -> Result<JobEnd> {
    let error = JobError { code: "code".into(), message: "message".into() };
    Ok(match input.int_in_range(0..=5_u8)? {
        0..=3 => {
            let (object, rate_frames, rate_seconds) = (Some(id.to_owned()), 30, 1);
            let result = JobResult { object, bytes: 9, frames: 45, rate_frames, rate_seconds, expires_at: at };
            let bill = input.arbitrary::<bool>()?.then_some(Usage { images: 2, microdollars: 5 });
            JobEnd::Done { result, warnings: vec!["warning".into()], bill }
        }
        _ => JobEnd::Failed { error, progress: 40 },
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
        let change = Change::SetAccount { account: "a".into(), plan: Some(Plan::Paid), generates: None, model: None };
        submit(&case.reference, change).expect("a good disk");
        case.compare();
    }

    #[test]
    fn a_lost_change_of_a_job_is_found() {
        let case = Case::new();
        let store = case.store.as_ref().expect("it is open");
        // Created, started, finished, its result forgotten, removed.
        let inputs: [&[u8]; 5] = [&[], &[], &[], &[], &[2]];
        for bytes in inputs {
            let change = job_change(&mut Unstructured::new(bytes), 0, NOW, &case.reference).expect("a change");
            submit(&case.reference, change.clone()).expect("a good disk");
            assert_ne!(rows(store), rows(&case.reference), "{change:?}");
            submit(store, change).expect("a good disk");
            case.compare();
        }
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
