//! The store after a loss of power at any sync: what was acknowledged is there, and nothing in part.

use std::sync::mpsc;
use std::time::Duration;

use arbitrary::Unstructured;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::faulty_disk::FaultyDisk;
use crate::store::fuzzing::{AllRows, change, rows};
use crate::store::{
    Account, AccountModel, Change, ChangeError, Job, JobState, Plan, RedbStore, Rows, StateStore, UnixSeconds,
};

const LONG: Duration = Duration::from_secs(60);
/// Of the run of every change.
const SEED: u64 = 20_261_125;
const BURSTS: usize = 40;
/// Cuts at each sync, of the runs of every change and of every night.
const CUTS: usize = 6;
const CUTS_AT_NIGHT: usize = 60;
/// Of how many cuts the opening afterwards is cut once more.
const AGAIN: usize = 8;

/// A run of changes in bursts that share commits.
struct Run {
    disk: FaultyDisk,
    /// The file before it.
    from: Vec<u8>,
    /// The rows after each number of changes.
    states: Vec<AllRows>,
    /// For each number of marks, the changes that were submitted and acknowledged.
    marks: Vec<[usize; 2]>,
}

impl Run {
    fn new(dice: &mut ChaCha8Rng, bursts: usize) -> Self {
        let disk = FaultyDisk::new();
        let from = disk.after_power_loss(&mut || true);
        disk.record();
        let store = disk.open().expect("a good disk");
        let reference = FaultyDisk::new().open().expect("a good disk");
        let (mut states, mut marks) = (vec![rows(&reference)], vec![[0; 2]]);
        let (mut submitted, mut acknowledged) = (0, 0);
        for _ in 0..bursts {
            let mut changes = Vec::new();
            for _ in 0..dice.random_range(1..6) {
                let change = any_change(dice, submitted, &reference);
                let _ = reply(&submit(&reference, change.clone()));
                states.push(rows(&reference));
                changes.push(change);
                submitted += 1;
            }
            // From here on the disk may hold some of them.
            marks.push([submitted, acknowledged]);
            disk.mark();
            let replies: Vec<_> = changes.into_iter().map(|change| submit(&store, change)).collect();
            replies.iter().for_each(|outcome| drop(reply(outcome)));
            acknowledged = submitted;
            marks.push([submitted, acknowledged]);
            disk.mark();
        }
        assert_eq!(rows(&store), states[submitted]);
        Self { disk, from, states, marks }
    }

    /// Whether `found` is the state after a number of changes that is possible after `marks` marks.
    fn allows(&self, found: &AllRows, marks: usize) -> bool {
        let [submitted, acknowledged] = self.marks[marks];
        self.states[acknowledged..=submitted].contains(found)
    }
}

fn any_change(dice: &mut ChaCha8Rng, number: usize, reference: &RedbStore) -> Change {
    // The accounts come first: without them every change is refused.
    if let Some(name) = ["a", "a-"].get(number) {
        let (plan, model, created_at) = (Plan::Free, AccountModel::default(), UnixSeconds(0));
        let account = Account { name: (*name).into(), plan, created_at, generates: false, model };
        return Change::CreateAccount { account, first_key: None };
    }
    let mut bytes = [0; 64];
    dice.fill_bytes(&mut bytes);
    change(&mut Unstructured::new(&bytes), reference).expect("enough bytes")
}

type Reply = mpsc::Receiver<Result<Rows, ChangeError>>;

fn submit(store: &RedbStore, change: Change) -> Reply {
    let (done, outcome) = mpsc::channel();
    store.submit(change, Box::new(move |result| drop(done.send(result))));
    outcome
}

fn reply(outcome: &Reply) -> Result<Rows, ChangeError> {
    outcome.recv_timeout(LONG).expect("the store answers")
}

/// Cuts a run of `bursts` at every sync, `times` each; returns the number of cuts.
fn cut(seed: u64, bursts: usize, times: usize) -> usize {
    println!("seed {seed}");
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let run = Run::new(&mut dice, bursts);
    let mut sectors = dice.clone();
    let mut cuts = 0;
    // From none to all of the sectors.
    let mut share = 0.5;
    let mut at = 0;
    let keep = &mut || {
        at += 1;
        if at % 64 == 1 {
            share = [0.0, 0.1, 0.5, 0.9, 1.0][sectors.random_range(0..5)];
        }
        sectors.random_bool(share)
    };
    run.disk.cut_at_every_sync(run.from.clone(), times, keep, |file, marks| {
        cuts += 1;
        let check = |disk: &FaultyDisk| {
            let store = disk.open().unwrap_or_else(|error| panic!("cut {cuts}: {error}"));
            assert!(run.allows(&rows(&store), marks), "cut {cuts}, after {:?} changes", run.marks[marks]);
            let report = store.check().expect("the store reads");
            assert!(report.is_sound(), "cut {cuts}: {:?}", report.findings);
        };
        let disk = FaultyDisk::holding(file.clone());
        disk.record();
        check(&disk);
        if cuts % AGAIN == 0 {
            // The opening repairs the file, and may be interrupted as well.
            disk.cut_at_every_sync(file, 1, &mut || dice.random(), |file, _| {
                check(&FaultyDisk::holding(file));
            });
        }
    });
    cuts
}

#[test]
fn after_a_loss_of_power_at_any_sync_every_acknowledged_change_is_there() {
    let cuts = cut(SEED, BURSTS, CUTS);
    println!("{cuts} cuts");
    // At least one sync for almost every burst; how many changes share one depends on the threads.
    assert!(cuts > 200, "{cuts}");
}

#[test]
#[ignore = "for minutes: make power-loss"]
fn after_ten_thousand_losses_of_power_every_acknowledged_change_is_there() {
    let mut cuts = 0;
    while cuts < 10_000 {
        cuts += cut(rand::random(), 80, CUTS_AT_NIGHT);
        println!("{cuts} cuts");
    }
}

#[test]
fn a_store_that_lost_what_it_acknowledged_is_found() {
    let run = Run::new(&mut ChaCha8Rng::seed_from_u64(1), 10);
    let last = run.marks.len() - 1;
    assert!(run.allows(run.states.last().expect("a state"), last));
    // As if no sync had had an effect.
    let store = FaultyDisk::holding(run.from.clone()).open().expect("a good disk");
    assert!(!run.allows(&rows(&store), last));
}

#[test]
fn a_store_that_lost_a_finished_job_is_found() {
    let run = Run::new(&mut ChaCha8Rng::seed_from_u64(SEED), BURSTS);
    let is_done = |job: &Job| job.state == JobState::Done;
    let mut found = 0;
    for (marks, &[submitted, acknowledged]) in run.marks.iter().enumerate() {
        if run.states[acknowledged..=submitted].iter().all(|(rows, _)| rows.jobs.iter().any(is_done)) {
            let mut rows = run.states[acknowledged].clone();
            rows.0.jobs.retain(|job| !is_done(job));
            assert!(!run.allows(&rows, marks), "after {acknowledged} changes");
            found += 1;
        }
    }
    assert!(found > 0, "no job is finished");
}
