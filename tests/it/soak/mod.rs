//! A daemon under mixed load from 16 clients and all disturbances, and a checker of its promises (`make soak`).
//!
//! Clients send pictures to every endpoint and drop-in route, files and URLs in batches, clips, hostile pictures, presets and
//! queries; origins misbehave; clients disconnect, cancel and delete jobs, and repeat unanswered requests
//! under their `Idempotency-Key`. The daemon is killed, its key is replaced, its disk is full for a while, its clock is set. The
//! checker counts: every acknowledged picture and clip is billed once, presets are stored with the acknowledged parameters,
//! replaced keys are refused, all clips have equal bytes, no answer is unplanned, and the last daemon's memory and descriptors
//! do not grow.

#![cfg(target_os = "linux")]

mod batches;
mod clips;
mod coverage;
mod disturbances;
mod growth;
mod inputs;
mod pictures;
mod presets;
mod traffic;

use crate::daemon::memory::KEY;
use crate::nightly::deadline;
use crate::soak::disturbances::Machine;
use crate::soak::growth::{Sample, WARM_UP};
use crate::soak::traffic::Traffic;
use crate::support::child_process::child_input;
use crate::support::postgres::stable_port;
use crate::support::small_disk;
use backdrop::store::{Day, UnixSeconds};
use futures_util::future::join_all;
use std::path::Path;
use std::time::{Duration, Instant};

const CLIENTS: usize = 16;
/// Lifetime of a daemon in the first half of the run. The last daemon is not killed.
const LIFE: Duration = Duration::from_secs(20);
/// Time between two disturbances of the last daemon.
const CALM: Duration = Duration::from_secs(30);
/// A run of this length or more must have requests of every path and samples of memory after the last kill.
const LONG: Duration = Duration::from_secs(300);
/// Descriptors in addition to the first sample's: for each client a connection, its replacement, and one that was dropped.
const MORE_DESCRIPTORS: usize = 3 * CLIENTS;
/// Milliseconds in which 99 of 100 pictures are answered after the last kill, including a full disk of five seconds.
const P99: u64 = 10_000;
/// Megabytes of the disk.
const DISK: u32 = 512;

const CHILD: &str = concat!(module_path!(), "::on_a_small_disk");
/// The last line of the child.
const PASSED: &str = "nothing was lost and nothing leaks";

#[test]
#[ignore = "for minutes: make soak"]
fn a_daemon_under_mixed_load_to_which_everything_happens_loses_and_leaks_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(output) = small_disk::run(CHILD, DISK, folder.path()) else { return };
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}");
    assert!(output.status.success() && out.contains(PASSED), "{error}");
}

/// Disturbs the machine until the end; returns samples of the last daemon.
async fn disturb(machine: &mut Machine, traffic: &Traffic, began: Instant, end: Instant) -> Vec<Sample> {
    let half = began + (end - began) / 2;
    let mut number = 0;
    while Instant::now() + LIFE < half {
        tokio::time::sleep(LIFE / 2).await;
        machine.disturb(number, traffic).await;
        tokio::time::sleep(LIFE / 2).await;
        machine.kill();
        number += 1;
    }
    let first = traffic.answered().requests();
    // Latencies of the last daemon alone.
    traffic.answered().latencies.clear();
    let (mut samples, mut calm) = (Vec::new(), Instant::now());
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let requests = traffic.answered().requests() - first;
        if requests >= WARM_UP {
            let (memory, descriptors) = machine.resources();
            samples.push(Sample { requests: requests as f64, memory, descriptors });
        }
        if calm.elapsed() > CALM && Instant::now() + CALM < end {
            machine.disturb(number, traffic).await;
            number += 1;
            calm = Instant::now();
        }
    }
    samples
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "run by a_daemon_under_mixed_load_to_which_everything_happens_loses_and_leaks_nothing"]
async fn on_a_small_disk() {
    let (data, beside) = (child_input(), tempfile::tempdir().expect("a folder"));
    let port = stable_port();
    let traffic = Traffic::new(format!("http://127.0.0.1:{port}"), KEY, beside.path());
    let (authority, authorities) = (traffic.inputs.origin.authority(), traffic.inputs.origin.authorities_file());
    let mut machine = Machine::start(
        port,
        Path::new(&data),
        beside.path(),
        &[
            ("BACKDROP_BOOTSTRAP_KEY", KEY),
            ("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000"),
            ("BACKDROP_LIMITS_BACKDROP_AI_PER_DAY", "1000000"),
            ("BACKDROP_COMPAT_REMBG", "true"),
            ("BACKDROP_FETCH_PRIVATE_ORIGINS", &authority),
            ("BACKDROP_FETCH_EXTRA_CA", authorities.to_str().expect("text")),
            ("BACKDROP_FETCH_TIMEOUT", "2s"),
            ("BACKDROP_JOBS_MIN_FREE_MEGABYTES", "64"),
        ],
    );
    let account = traffic.get("/account").await.expect("an answer");
    machine.key_id = Some(account["key_id"].as_str().unwrap_or_else(|| panic!("{account}")).to_owned());
    machine.allow_backdrops(account["account"].as_str().expect("a name"));

    let (began, end) = (Instant::now(), deadline());
    let clients = join_all((0..CLIENTS).map(|number| traffic.client(number, end)));
    let (samples, _) = tokio::join!(disturb(&mut machine, &traffic, began, end), clients);

    // Stored and billed values, after one more start.
    machine.set_clock(&traffic, 0).await;
    let metrics = machine.metrics(&traffic).await;
    machine.kill();
    let stored = traffic.stored_presets().await;
    let used = traffic.get("/account").await.expect("an answer")["used"].as_u64().expect("a number");
    let today = Day::of(UnixSeconds::now());
    let days = format!("/usage?from={}&to={}", today.before(2).date(), Day::of(today.ends()).date());
    let total = traffic.get(&days).await.expect("an answer")["total"].clone();
    for secret in &machine.revoked {
        assert_eq!(traffic.status_of(secret).await, 401, "a replaced key is valid again");
    }

    let mut answered = traffic.answered();
    answered.latencies.sort_unstable();
    let percentile = |share: usize| {
        let latencies = &answered.latencies;
        latencies.get(latencies.len() * share / 100).copied().unwrap_or(0)
    };
    println!(
        "{} s, {} kills, {} replaced keys without overlap, {} full disks, the clock set {} times",
        began.elapsed().as_secs(),
        machine.kills,
        machine.revoked.len(),
        machine.full_disks,
        machine.set_clocks
    );
    println!("answers by status: {:?}; {} connections lost", answered.statuses, answered.lost_connections);
    println!(
        "{} pictures and {} seconds of clips acknowledged, {} seconds of uncertain ones, {used} billed, by day {total}; {} backdrops",
        answered.pictures, answered.seconds, answered.uncertain_seconds, answered.backdrops
    );
    println!(
        "{} clips compared, {} failed on a full disk, {} cancelled",
        answered.clips, answered.failed_clips, answered.cancelled_clips
    );
    println!("{} presets acknowledged, {} stored", answered.presets.len(), stored.len());
    println!("milliseconds of pictures without kills: {} median, {} p99", percentile(50), percentile(99));
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        let (from, to, requests) = (first.memory / 1e6, last.memory / 1e6, last.requests - first.requests);
        println!(
            "memory from {from:.0} to {to:.0} MB in {requests} requests, {:.0} bytes for each",
            growth::slope(&samples)
        );
        let settled = growth::settled_slope(&samples);
        println!("after it has settled: {settled:.0?} bytes for each; {} descriptors", last.descriptors);
    }
    let unplanned = &answered.unplanned;
    assert!(unplanned.is_empty(), "{} unplanned: {:#?}", unplanned.len(), &unplanned[..unplanned.len().min(20)]);
    let faults = coverage::faults(&metrics);
    assert!(faults.is_empty(), "{faults:?}");
    let acknowledged = answered.pictures + answered.seconds;
    let bills = acknowledged..=acknowledged + answered.uncertain_seconds;
    assert!(bills.contains(&used), "{used} billed, {bills:?} acknowledged");
    let differ = answered.presets.iter().filter(|(name, params)| stored.get(*name) != Some(*params));
    let undeleted = stored.keys().filter(|name| !answered.presets.contains_key(*name));
    let (differ, undeleted) = (differ.collect::<Vec<_>>(), undeleted.collect::<Vec<_>>());
    assert!(differ.is_empty() && undeleted.is_empty(), "{differ:?} are stored otherwise, {undeleted:?} were deleted");
    assert!(answered.pictures > 0 && percentile(99) < P99);
    let length = end - began;
    let missing = coverage::missing_paths(&metrics);
    assert!(missing.is_empty() || length < LONG, "nothing was sent to {missing:?}");
    growth::check(&samples, MORE_DESCRIPTORS, length).unwrap_or_else(|reason| panic!("{reason}"));
    println!("{PASSED}");
}
