//! A daemon under mixed load from 16 clients, to which everything happens that may, and a checker beside it (`make soak`).
//!
//! Clients send pictures to every endpoint, files and URLs in batches, clips, hostile pictures, presets and questions; origins
//! misbehave; clients disconnect, send and read slowly, and repeat what was not answered under the same `Idempotency-Key`. The
//! daemon is killed, its key is replaced, its disk is full for a while, its clock is set. The checker counts: every
//! acknowledged picture and clip is billed once, every acknowledged preset is stored, replaced keys are refused, every clip has
//! the same bytes, no answer is unplanned, and the last daemon's memory and descriptors do not grow.

#![cfg(target_os = "linux")]

mod disturbances;
mod traffic;

use crate::daemon::memory::KEY;
use crate::nightly::deadline;
use crate::soak::disturbances::Machine;
use crate::soak::traffic::Traffic;
use crate::support::child_process::child_input;
use crate::support::postgres::stable_port;
use crate::support::small_disk;
use backdrop::store::{Day, UnixSeconds};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

const CLIENTS: usize = 16;
/// In the first half of the time a daemon lives for as long. The last one is not killed.
const LIFE: Duration = Duration::from_secs(20);
/// Between two disturbances of the last one.
const CALM: Duration = Duration::from_secs(30);
/// Requests before memory is compared: they create threads and scratch memory, which are kept.
const WARM_UP: u64 = 1000;
/// Bytes by which memory may grow with each request, and beside that: the allocator's noise between two moments.
const GROWTH: f64 = 1000.0;
const NOISE: f64 = 48e6;
/// Milliseconds in which 99 of 100 pictures are answered after the last kill.
const P99: u64 = 20_000;
/// Megabytes of the disk.
const DISK: u32 = 512;

const CHILD: &str = concat!(module_path!(), "::on_a_small_disk");
/// What the child prints at its end.
const PASSED: &str = "nothing was lost and nothing leaks";

/// A moment of the last daemon: requests before, bytes of memory, descriptors.
type Sample = (f64, f64, usize);

/// The slope of the line of least squares through memory over requests.
fn slope(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let x = samples.iter().map(|sample| sample.0).sum::<f64>() / count;
    let y = samples.iter().map(|sample| sample.1).sum::<f64>() / count;
    let above: f64 = samples.iter().map(|sample| (sample.0 - x) * (sample.1 - y)).sum();
    let below: f64 = samples.iter().map(|sample| (sample.0 - x).powi(2)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

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
    // Of the last daemon alone.
    traffic.answered().latencies.clear();
    let (mut samples, mut calm) = (Vec::new(), Instant::now());
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let requests = traffic.answered().requests() - first;
        if requests >= WARM_UP {
            let (memory, descriptors) = machine.resources();
            samples.push((requests as f64, memory, descriptors));
        }
        if calm.elapsed() > CALM && Instant::now() + CALM < end {
            machine.disturb(number, traffic).await;
            number += 1;
            calm = Instant::now();
        }
    }
    samples
}

/// The names of all stored presets.
async fn stored_presets(traffic: &Traffic) -> BTreeSet<String> {
    let (mut stored, mut path) = (BTreeSet::new(), "/presets".to_owned());
    loop {
        let page = traffic.get(&path).await.expect("an answer");
        let names = page["presets"].as_array().expect("a list").iter();
        stored.extend(names.map(|preset| preset["name"].as_str().expect("a name").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { return stored };
        path = format!("/presets?cursor={cursor}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "run by a_daemon_under_mixed_load_to_which_everything_happens_loses_and_leaks_nothing"]
async fn on_a_small_disk() {
    let (data, beside) = (child_input(), tempfile::tempdir().expect("a folder"));
    let port = stable_port();
    let traffic = Traffic::new(format!("http://127.0.0.1:{port}"), KEY, beside.path());
    let (authority, authorities) = (traffic.origin().authority(), traffic.origin().authorities_file());
    let mut machine = Machine::start(
        port,
        Path::new(&data),
        beside.path(),
        &[
            ("BACKDROP_BOOTSTRAP_KEY", KEY),
            ("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000"),
            ("BACKDROP_FETCH_PRIVATE_ORIGINS", &authority),
            ("BACKDROP_FETCH_EXTRA_CA", authorities.to_str().expect("text")),
            ("BACKDROP_FETCH_TIMEOUT", "2s"),
            ("BACKDROP_JOBS_MIN_FREE_MEGABYTES", "64"),
        ],
    );
    let account = traffic.get("/account").await.expect("an answer");
    machine.key_id = Some(account["key_id"].as_str().unwrap_or_else(|| panic!("{account}")).to_owned());

    let (began, end) = (Instant::now(), deadline());
    let clients = join_all((0..CLIENTS).map(|number| traffic.client(number, end)));
    let (samples, _) = tokio::join!(disturb(&mut machine, &traffic, began, end), clients);

    // What is stored and billed, after one more start.
    machine.set_clock(&traffic, 0).await;
    machine.kill();
    let stored = stored_presets(&traffic).await;
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
    let (growth, descriptors) = (slope(&samples), samples.iter().map(|sample| sample.2).max().unwrap_or(0));
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
        "{} pictures and {} seconds of clips acknowledged, {used} billed, by day {total}; {} clips compared, {} failed on a full disk",
        answered.pictures, answered.seconds, answered.clips, answered.failed_clips
    );
    println!("{} presets acknowledged, {} stored", answered.presets.len(), stored.len());
    println!("milliseconds of pictures without kills: {} median, {} p99", percentile(50), percentile(99));
    println!("{growth:.0} bytes more per request, {} samples; {descriptors} descriptors at most", samples.len());
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        println!("memory from {:.0} to {:.0} MB in {} requests", first.1 / 1e6, last.1 / 1e6, last.0 - first.0);
    }
    let unplanned = &answered.unplanned;
    assert!(unplanned.is_empty(), "{} unplanned: {:#?}", unplanned.len(), &unplanned[..unplanned.len().min(20)]);
    assert_eq!(used, answered.pictures + answered.seconds, "bills and what was acknowledged");
    assert!(answered.presets.is_subset(&stored), "{:?} are lost", answered.presets.difference(&stored));
    assert!(answered.pictures > 0 && percentile(99) < P99);
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        assert!(last.1 - first.1 <= GROWTH * (last.0 - first.0) + NOISE, "memory grows");
        // A connection of each client, one more that it opens after a lost one, and the slow ones.
        assert!(descriptors <= first.2 + 3 * CLIENTS, "descriptors: {descriptors} at most, {} at first", first.2);
    }
    println!("{PASSED}");
}
