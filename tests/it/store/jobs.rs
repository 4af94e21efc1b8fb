//! Jobs in the store: every state transition, allowed or refused, and a property test of any sequence of them.

use std::collections::{BTreeMap, BTreeSet};

use backdrop::store::{
    self, Change, ChangeError, Job, JobChange, JobEnd, JobError, JobResult, JobState, Month, RedbStore, UnixSeconds,
    Usage, Webhook,
};
use proptest::prelude::*;
use redb::{Database, TableDefinition};
use tempfile::TempDir;

use crate::store::backend::{Backend, ContractStore, FileStore, Redb, Submit};
use crate::store::support::{account, apply, apply_all, new_store, with_account};

/// 2026-01-01T00:00:00Z.
const NOW: i64 = 1_767_225_600;
const MONTH: Month = Month(202_601);

pub(crate) fn id(number: u8) -> String {
    format!("job_{number:024}")
}

pub(crate) fn job(number: u8) -> Job {
    Job {
        id: id(number),
        key_id: "key_1".into(),
        account: "acme".into(),
        test: false,
        state: JobState::Queued,
        progress: 0,
        fields: vec![("format".into(), "webm".into())],
        format: "webm".into(),
        name: None,
        fingerprint: [number; 32],
        unit_price: 5,
        month: MONTH,
        reserved: 3,
        created_at: UnixSeconds(NOW),
        place: i64::from(number),
        updated_at: UnixSeconds(NOW),
        expires_at: UnixSeconds(NOW + 10),
        result: None,
        warnings: Vec::new(),
        error: None,
        webhook: None,
    }
}

fn hook() -> Webhook {
    Webhook { url: "https://example.com".into(), base: "https://b".into(), attempts: 0, next_at: None }
}

fn create(job: Job) -> Change {
    Change::CreateJob { job: Box::new(job), at_most: 10 }
}

fn result() -> JobResult {
    JobResult {
        object: Some("object".into()),
        bytes: 7,
        frames: 75,
        rate_frames: 30,
        rate_seconds: 1,
        expires_at: UnixSeconds(NOW + 5),
    }
}

fn done() -> JobEnd {
    JobEnd::Done { result: result(), warnings: vec!["w".into()], bill: Some(Usage { images: 3, microdollars: 13 }) }
}

fn failed() -> JobEnd {
    JobEnd::Failed { error: JobError { code: "cancelled".into(), message: "m".into() }, progress: 30 }
}

fn of_job(number: u8, change: JobChange) -> Change {
    Change::Job { id: id(number), attempt: None, change }
}

fn finish(number: u8, at: i64, end: JobEnd) -> Change {
    of_job(number, JobChange::Finish { at: UnixSeconds(at), expires_at: UnixSeconds(at + 9), end })
}

fn requeue(number: u8, at: i64) -> Change {
    of_job(number, JobChange::Requeue { progress: 0, at: UnixSeconds(at) })
}

fn start(number: u8, at: i64) -> Change {
    of_job(number, JobChange::Start { at: UnixSeconds(at) })
}

/// A store with job 1 in a state.
fn with_job(state: JobState) -> (TempDir, FileStore) {
    let (folder, store) = with_account();
    let store = FileStore::new(store);
    apply(&store, create(Job { webhook: Some(hook()), ..job(1) })).expect("it is new");
    let changes = match state {
        JobState::Queued => vec![],
        JobState::Processing => vec![start(1, NOW + 1)],
        JobState::Done => vec![start(1, NOW + 1), finish(1, NOW + 2, done())],
        JobState::Failed => vec![finish(1, NOW + 2, failed())],
    };
    for change in changes {
        apply(&store, change).expect("an allowed transition");
    }
    assert_eq!(the_job(&store).state, state);
    (folder, store)
}

fn the_job(store: &FileStore) -> Job {
    store.wait(store.store().job(&id(1))).expect("the store reads").expect("it is there")
}

fn used(store: &impl ContractStore) -> Usage {
    let rows = ContractStore::load_at(store, UnixSeconds(NOW));
    rows.usage.first().map(|(_, _, usage)| *usage).unwrap_or_default()
}

#[test]
fn every_state_transition_is_allowed_or_refused_as_specified() {
    use JobState::{Done, Failed, Processing, Queued};
    let change = |name: &str| match name {
        "start" => start(1, NOW + 4),
        "requeue" => requeue(1, NOW + 4),
        "done" => finish(1, NOW + 4, done()),
        "failed" => finish(1, NOW + 4, failed()),
        "forget" => of_job(1, JobChange::ForgetResult),
        "note" => of_job(1, JobChange::NoteWebhook { next_at: Some(UnixSeconds(NOW + 8)) }),
        "remove" => of_job(1, JobChange::Remove),
        other => unreachable!("{other}"),
    };
    // The state afterwards; `None` where it is refused.
    let transitions = [
        ("start", [(Queued, Some(Processing)), (Processing, None), (Done, None), (Failed, None)]),
        ("requeue", [(Queued, Some(Queued)), (Processing, Some(Queued)), (Done, None), (Failed, None)]),
        ("done", [(Queued, None), (Processing, Some(Done)), (Done, None), (Failed, None)]),
        ("failed", [(Queued, Some(Failed)), (Processing, Some(Failed)), (Done, None), (Failed, None)]),
        ("forget", [(Queued, None), (Processing, None), (Done, Some(Done)), (Failed, Some(Failed))]),
        ("note", [(Queued, None), (Processing, None), (Done, Some(Done)), (Failed, Some(Failed))]),
    ];
    for (name, transitions) in transitions {
        for (from, to) in transitions {
            let (_folder, store) = with_job(from);
            let (before, billed) = (the_job(&store), used(&store));
            let outcome = apply(&store, change(name));
            let after = the_job(&store);
            if let Some(to) = to {
                let rows = outcome.expect("an allowed transition");
                assert_eq!(after.state, to, "{name} from {from:?}");
                // The outcome has the written rows.
                assert!(rows.jobs.iter().all(|job| *job == after), "{name} from {from:?}");
                assert_eq!(rows.jobs.len(), 1, "{name} from {from:?}");
            } else {
                assert_eq!(outcome, Err(ChangeError::JobState { id: id(1), state: from }), "{name} from {from:?}");
                assert_eq!(after, before, "{name} from {from:?} wrote something");
            }
            let more = if name == "done" && to.is_some() { 3 } else { 0 };
            assert_eq!(used(&store).images, billed.images + more, "{name} from {from:?}");
            store.assert_sound();
        }
    }
    for from in JobState::ALL {
        let (_folder, store) = with_job(from);
        let removed = apply(&store, change("remove"));
        assert_eq!(removed.is_ok(), from.is_final(), "{from:?}");
        assert_eq!(store.wait(store.store().job(&id(1))).expect("the store reads").is_none(), from.is_final());
        store.assert_sound();
    }
    // A job that does not exist.
    let (_folder, store) = with_account();
    for name in ["start", "requeue", "done", "failed", "forget", "note", "remove"] {
        assert_eq!(apply(&store, change(name)), Err(ChangeError::NoSuchJob(id(1))), "{name}");
    }
}

#[test]
fn a_result_expires_no_later_than_its_job() {
    let (_folder, store) = with_job(JobState::Processing);
    let late = JobResult { expires_at: UnixSeconds(NOW + 999), ..result() };
    apply(&store, finish(1, NOW, JobEnd::Done { result: late, warnings: vec![], bill: None })).expect("it was started");
    assert_eq!(the_job(&store).due_at(), Some(UnixSeconds(NOW + 9)));
    assert_eq!(used(&store), Usage::default());
}

/// The numbers of those jobs of [`create_pairs`] whose records a test damages.
pub(crate) const UNREADABLE: [u8; 3] = [1, 3, 5];

/// Creates two queued, two running and two finished jobs of one key.
pub(crate) fn create_pairs(store: &dyn Submit) {
    for number in 1..=6 {
        apply(store, create(Job { webhook: Some(hook()), ..job(number) })).expect("it is new");
    }
    for change in [start(3, NOW), start(4, NOW), finish(5, NOW, failed()), finish(6, NOW, failed())] {
        apply(store, change).expect("an allowed transition");
    }
}

/// Lists leave the jobs of [`UNREADABLE`] out and are as long all the same, and changes that read many jobs are made.
pub(crate) fn assert_left_out(store: &impl ContractStore) {
    let numbers = |jobs: Vec<Job>| jobs.into_iter().map(|job| job.place).collect::<Vec<_>>();
    let timed = |jobs: Vec<(UnixSeconds, Job)>| numbers(jobs.into_iter().map(|(_, job)| job).collect());
    assert_eq!(numbers(store.wait(store.store().jobs("key_1", None, 2)).expect("it reads")), [6, 4]);
    assert_eq!(numbers(store.wait(store.store().jobs("key_1", Some((4, &id(4))), 9)).expect("it reads")), [2]);
    assert_eq!(numbers(store.wait(store.store().waiting_jobs(1)).expect("it reads")), [2]);
    assert_eq!(numbers(store.wait(store.store().waiting_jobs(9)).expect("it reads")), [2, 4]);
    assert_eq!(timed(store.wait(store.store().expiring_jobs(1)).expect("it reads")), [6]);
    assert_eq!(timed(store.webhook_jobs(1).expect("it reads")), [6]);
    let next = store.wait(store.store().claim_job(UnixSeconds(NOW), &[])).expect("it reads");
    assert_eq!(next.map(|claimed| claimed.job.place), Some(2));
    for number in UNREADABLE {
        let error = store.wait(store.store().job(&id(number))).expect_err("its record is damaged").to_string();
        assert!(error.contains(&id(number)), "{error}");
    }
    let requeued = apply(store, requeue(4, NOW)).expect("it writes");
    assert_eq!(numbers(requeued.jobs), [4]);
    // Two of the three places are taken: damaged jobs take none.
    apply(store, Change::CreateJob { job: Box::new(job(7)), at_most: 3 }).expect("there is room");
}

#[test]
fn jobs_whose_records_cannot_be_read_are_left_out_of_lists() {
    const JOBS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("jobs");
    let (folder, store) = with_account();
    create_pairs(&store);
    drop(store);
    let file = store::file_in(folder.path());
    {
        let database = Database::open(&file).expect("a redb file");
        let transaction = database.begin_write().expect("it is ours");
        // Of an unknown version, empty, and cut off.
        let records: [&[u8]; 3] = [&[99], &[], &[0]];
        for (number, record) in UNREADABLE.into_iter().zip(records) {
            let mut jobs = transaction.open_table(JOBS).expect("a table");
            jobs.insert(id(number).as_str(), record).expect("the disk writes");
        }
        transaction.commit().expect("the disk writes");
    }
    assert_left_out(&FileStore::new(RedbStore::open(&file).expect("the store opens")));
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Create { number: u8, key: u8, name: Option<u8>, hook: bool, place: i64, account: bool },
    Start(u8),
    Requeue(u8),
    Finish { number: u8, done: bool, bill: bool, at: i64 },
    Forget(u8),
    Note(u8, Option<i64>),
    Remove(u8),
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Burst(Vec<Op>),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let number = 0..6_u8;
    let create = (number.clone(), 0..2_u8, prop::option::of(0..3_u8), any::<bool>(), -2..6_i64, 0..9_u8);
    prop_oneof![
        5 => create.prop_map(|(number, key, name, hook, place, account)| {
            Op::Create { number, key, name, hook, place, account: account > 0 }
        }),
        4 => number.clone().prop_map(Op::Start),
        1 => number.clone().prop_map(Op::Requeue),
        5 => (number.clone(), any::<bool>(), any::<bool>(), NOW..NOW + 5)
            .prop_map(|(number, done, bill, at)| Op::Finish { number, done, bill, at }),
        2 => number.clone().prop_map(Op::Forget),
        2 => (number.clone(), prop::option::of(NOW..NOW + 5)).prop_map(|(number, at)| Op::Note(number, at)),
        2 => number.prop_map(Op::Remove),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![6 => prop::collection::vec(op(), 1..8).prop_map(Step::Burst), 1 => Just(Step::Reopen)]
}

const AT_MOST: usize = 2;
/// The first is a prefix of the second, its neighbour in every table.
const KEYS: [&str; 2] = ["key_1", "key_10"];

fn change(op: &Op) -> Change {
    match *op {
        Op::Create { number, key, name, hook: hooked, place, account } => Change::CreateJob {
            job: Box::new(Job {
                key_id: KEYS[usize::from(key)].into(),
                name: name.map(|name| name.to_string()),
                webhook: hooked.then(hook),
                place,
                account: if account { "acme".into() } else { "missing".into() },
                ..job(number)
            }),
            at_most: AT_MOST,
        },
        Op::Start(number) => start(number, NOW + 1),
        Op::Requeue(number) => requeue(number, NOW + 2),
        Op::Finish { number, done: is_done, bill, at } => {
            let end = match (is_done, done()) {
                (true, JobEnd::Done { result, warnings, bill: full }) => {
                    JobEnd::Done { result, warnings, bill: full.filter(|_| bill) }
                }
                (true, other @ JobEnd::Failed { .. }) => other,
                (false, _) => failed(),
            };
            finish(number, at, end)
        }
        Op::Forget(number) => of_job(number, JobChange::ForgetResult),
        Op::Note(number, at) => of_job(number, JobChange::NoteWebhook { next_at: at.map(UnixSeconds) }),
        Op::Remove(number) => of_job(number, JobChange::Remove),
    }
}

#[derive(Debug, Default)]
struct Model {
    jobs: BTreeMap<String, Job>,
    usage: Usage,
}

impl Model {
    fn apply(&mut self, op: &Op) -> Result<(), ChangeError> {
        let known = |number: u8, jobs: &BTreeMap<String, Job>| {
            jobs.get(&id(number)).cloned().ok_or_else(|| ChangeError::NoSuchJob(id(number)))
        };
        let allow = |job: &Job, allowed: bool| {
            if allowed { Ok(()) } else { Err(ChangeError::JobState { id: job.id.clone(), state: job.state }) }
        };
        match *op {
            Op::Create { account, .. } => {
                let Change::CreateJob { job, .. } = change(op) else { unreachable!("it creates") };
                if !account {
                    return Err(ChangeError::NoSuchAccount("missing".into()));
                }
                if self.jobs.contains_key(&job.id) {
                    return Err(ChangeError::JobExists(job.id));
                }
                let of_key = || self.jobs.values().filter(|other| other.key_id == job.key_id);
                if let Some(other) = of_key().find(|other| job.name.is_some() && other.name == job.name) {
                    return Err(ChangeError::JobNameTaken(other.id.clone()));
                }
                if of_key().filter(|other| !other.state.is_final()).count() >= AT_MOST {
                    return Err(ChangeError::TooManyJobs);
                }
                self.jobs.insert(job.id.clone(), *job);
            }
            Op::Start(number) => {
                let job = known(number, &self.jobs)?;
                allow(&job, job.state == JobState::Queued)?;
                self.jobs.insert(
                    job.id.clone(),
                    Job { state: JobState::Processing, updated_at: UnixSeconds(NOW + 1), ..job },
                );
            }
            Op::Requeue(number) => {
                let job = known(number, &self.jobs)?;
                allow(&job, !job.state.is_final())?;
                let job = Job { state: JobState::Queued, updated_at: UnixSeconds(NOW + 2), ..job };
                self.jobs.insert(job.id.clone(), job);
            }
            Op::Finish { number, done: is_done, bill, at } => {
                let mut job = known(number, &self.jobs)?;
                let allowed = if is_done { job.state == JobState::Processing } else { !job.state.is_final() };
                allow(&job, allowed)?;
                (job.updated_at, job.expires_at) = (UnixSeconds(at), UnixSeconds(at + 9));
                if let Some(hook) = &mut job.webhook {
                    hook.next_at = Some(UnixSeconds(at));
                }
                if is_done {
                    (job.state, job.progress) = (JobState::Done, 100);
                    (job.result, job.warnings) = (Some(result()), vec!["w".into()]);
                    if bill {
                        self.usage.images += 3;
                        self.usage.microdollars += 13;
                    }
                } else {
                    (job.state, job.progress) = (JobState::Failed, 30);
                    job.error = Some(JobError { code: "cancelled".into(), message: "m".into() });
                }
                self.jobs.insert(job.id.clone(), job);
            }
            Op::Forget(number) => {
                let mut job = known(number, &self.jobs)?;
                allow(&job, job.state.is_final())?;
                if let Some(result) = &mut job.result {
                    result.object = None;
                }
                self.jobs.insert(job.id.clone(), job);
            }
            Op::Note(number, at) => {
                let mut job = known(number, &self.jobs)?;
                allow(&job, job.state.is_final())?;
                if let Some(hook) = &mut job.webhook {
                    hook.attempts += 1;
                    hook.next_at = at.map(UnixSeconds);
                }
                self.jobs.insert(job.id.clone(), job);
            }
            Op::Remove(number) => {
                let job = known(number, &self.jobs)?;
                allow(&job, job.state.is_final())?;
                self.jobs.remove(&job.id);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_jobs_of_the_store_agree_with_the_model(steps in steps()) {
        run(&Redb::new(), steps)?;
    }
}

/// Any sequence of bursts and restarts.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..30)
}

/// Runs the steps on an empty store and on the model.
pub(crate) fn run<B: Backend>(backend: &B, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut store = backend.open();
    apply(&store, account("acme")).expect("a new name");
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Burst(ops) => {
                let results = apply_all(&store, ops.iter().map(change));
                for (op, result) in ops.iter().zip(results) {
                    prop_assert_eq!(result.map(drop), model.apply(op), "{:?}", op);
                }
            }
            Step::Reopen => {
                drop(store);
                store = backend.open();
            }
        }
        compare(&store, &model)?;
    }
    store.assert_sound();

    // An export has all of it.
    let (exported, rows) = store.exported();
    prop_assert_eq!(rows.jobs, model.jobs.len() as u64);
    let other = backend.another();
    prop_assert_eq!(other.import(&exported), rows);
    let imported = other.open();
    compare(&imported, &model)?;
    imported.assert_sound();
    Ok(())
}

fn compare(store: &impl ContractStore, model: &Model) -> Result<(), TestCaseError> {
    let mut jobs: Vec<Job> = model.jobs.values().cloned().collect();
    jobs.sort_by_key(|job| (job.place, job.id.clone()));
    let waiting: Vec<Job> = jobs.iter().filter(|job| !job.state.is_final()).cloned().collect();
    prop_assert_eq!(store.wait(store.store().waiting_jobs(usize::MAX)).expect("it reads"), waiting);
    prop_assert_eq!(used(store), model.usage);
    for number in 0..6 {
        let found = store.wait(store.store().job(&id(number))).expect("it reads");
        prop_assert_eq!(found.as_ref(), model.jobs.get(&id(number)));
    }
    for key in KEYS.into_iter().chain(["key_"]) {
        let own: Vec<Job> = jobs.iter().rev().filter(|job| job.key_id == key).cloned().collect();
        prop_assert_eq!(&store.wait(store.store().jobs(key, None, usize::MAX)).expect("it reads"), &own);
        // After each one, in pages of one.
        for (turn, job) in own.iter().enumerate() {
            let page = store.wait(store.store().jobs(key, Some((job.place, &job.id)), 1)).expect("it reads");
            prop_assert_eq!(page, own.iter().skip(turn + 1).take(1).cloned().collect::<Vec<_>>());
        }
        for name in ["0", "1", "2"] {
            let expected = own.iter().find(|job| job.name.as_deref() == Some(name));
            let found = store.wait(store.store().job_named(key, name)).expect("it reads");
            prop_assert_eq!(found.as_ref(), expected);
        }
    }
    let timed = |at: fn(&Job) -> Option<UnixSeconds>| {
        let mut timed: Vec<(UnixSeconds, Job)> =
            model.jobs.values().filter_map(|job| Some((at(job)?, job.clone()))).collect();
        timed.sort_by_key(|(at, job)| (*at, job.id.clone()));
        timed
    };
    prop_assert_eq!(store.wait(store.store().expiring_jobs(usize::MAX)).expect("it reads"), timed(Job::due_at));
    prop_assert_eq!(store.webhook_jobs(usize::MAX).expect("it reads"), timed(Job::webhook_at));
    Ok(())
}

#[test]
fn a_job_id_with_a_path_is_not_imported() {
    let (_folder, store) = with_job(JobState::Queued);
    let mut exported = Vec::new();
    store.export(&mut exported, &BTreeSet::new()).expect("the store reads");
    let text = String::from_utf8(exported).expect("text").replace(&id(1), "../../../../../../../../etc");
    let (_other, empty) = new_store();
    let error = empty.import(text.as_bytes()).expect_err("no such id").to_string();
    assert!(error.contains("no job can be called"), "{error}");
}
