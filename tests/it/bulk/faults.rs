//! `backdrop bulk` against a faulty S3: retries, reported failures, unusual keys, lost reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bulk::s3::{Fault, S3};
use crate::bulk::support::{assert_exit, picture, rows};
use crate::support::command::{json, stderr};

struct Run {
    s3: S3,
    folder: tempfile::TempDir,
}

impl Run {
    fn new() -> Self {
        Self { s3: S3::start(), folder: tempfile::tempdir().unwrap() }
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report.jsonl")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.s3.bulk();
        command.args(["s3://shop/in", "s3://shop/out", "--json", "--report"]).arg(self.report());
        command.args(arguments).output().unwrap()
    }

    fn rows(&self) -> BTreeMap<String, Value> {
        rows(&self.report(), "s3://shop/in/")
    }

    /// Keys of the results, without their folder.
    fn results(&self) -> Vec<String> {
        self.s3.objects().into_keys().filter_map(|key| key.strip_prefix("out/").map(str::to_owned)).collect()
    }
}

#[test]
fn transient_failures_are_retried() {
    use Fault::{Reset, Short, Slow, Status, Truncated};
    let run = Run::new();
    let faults: &[(&str, &str, &[Fault])] = &[
        ("busy", "GET", &[Status(503), Status(503)]),
        ("often", "GET", &[Status(429)]),
        ("broken", "GET", &[Status(500), Reset]),
        ("reset", "GET", &[Reset, Reset]),
        ("cut", "GET", &[Truncated]),
        ("cut often", "GET", &[Truncated, Truncated, Truncated]),
        ("short", "GET", &[Short]),
        ("slow", "GET", &[Slow(Duration::from_millis(300)), Short, Status(503)]),
        ("unread", "PUT", &[Status(503)]),
        ("unwritten", "PUT", &[Reset]),
        ("late", "PUT", &[Slow(Duration::from_millis(300)), Status(500)]),
    ];
    for (seed, (name, method, faults)) in faults.iter().enumerate() {
        run.s3.put(&format!("in/{name}.png"), picture(seed as u32));
        let side = if *method == "PUT" { "out" } else { "in" };
        run.s3.fail(method, &format!("{side}/{name}.png"), faults.iter().copied());
    }
    // The listing too, which has several pages.
    run.s3.fail("GET", "", [Status(503), Reset]);
    let output = run.run(&[]);
    assert_exit(&output, 0);
    assert_eq!(json(&output)["done"], json!(faults.len()));
    assert_eq!(run.results().len(), faults.len());
    let first = &run.s3.objects()["out/busy.png"];
    assert_eq!(first.headers["content-type"], "image/png");
    let meta = |name: &str| first.headers[&format!("x-amz-meta-backdrop_{name}")].clone();
    assert_eq!(meta("source"), "s3://shop/in/busy.png");
    let row = run.rows()["busy.png"].clone();
    assert_eq!(meta("source_etag"), row["source_etag"].as_str().unwrap());
    assert_eq!(meta("parameters"), row["parameters"].as_str().unwrap());
    assert_eq!(meta("model"), row["model"].as_str().unwrap());
}

#[test]
fn permanent_failures_are_reported_and_other_pictures_continue() {
    use Fault::{Short, Status, Truncated};
    let run = Run::new();
    for (seed, name) in ["a", "b", "cut", "forbidden", "gone", "huge", "kept", "short", "z"].iter().enumerate() {
        run.s3.put(&format!("in/{name}.png"), picture(seed as u32));
    }
    run.s3.set_listed_size("in/huge.png", 201 << 20);
    run.s3.fail("GET", "in/forbidden.png", [Status(403)]);
    run.s3.fail("GET", "in/gone.png", [Status(404)]);
    run.s3.fail("GET", "in/short.png", [Short; 4]);
    // Every retry is truncated too.
    run.s3.fail("GET", "in/cut.png", [Truncated; 60]);
    run.s3.fail("PUT", "out/kept.png", [Status(403)]);
    let output = run.run(&[]);
    assert_exit(&output, 1);
    let rows = run.rows();
    let code = |name: &str| rows[&format!("{name}.png")]["code"].as_str().unwrap_or("none").to_owned();
    for (name, expected) in [
        ("a", "none"),
        ("b", "none"),
        ("forbidden", "forbidden"),
        ("gone", "not_found"),
        ("huge", "payload_too_large"),
        ("kept", "forbidden"),
        ("short", "fetch_failed"),
        ("z", "none"),
    ] {
        assert_eq!(code(name), expected, "{name}: {rows:#?}");
    }
    assert!(rows["short.png"]["message"].as_str().unwrap().contains("only"), "{}", rows["short.png"]);
    assert!(["none", "fetch_failed"].contains(&code("cut").as_str()));
    let requests = run.s3.take_requests();
    assert!(!requests.contains(&("GET".into(), "in/huge.png".into())), "it was read although its size was listed");
}

#[test]
fn unusual_keys_are_processed_and_unaddressable_ones_refused() {
    let run = Run::new();
    let long = format!("{}.png", "ü/n".repeat(254));
    assert_eq!(long.len() + "in/".len(), 1023);
    let good = [
        "a b.png",
        "ü.png",
        "a..b.png",
        "%2E%2E.png",
        "a+b&c=d;e.png",
        "a#1?.png",
        "<x>\"'.png",
        "~{}[]^`|\\.png",
        &long,
    ];
    let unaddressable = ["../up.png", "a//b.png", "./here.png", "a\nb.png", "in/../x.png"];
    for (seed, key) in good.iter().chain(&unaddressable).enumerate() {
        run.s3.put(&format!("in/{key}"), picture(seed as u32));
    }
    let output = run.run(&[]);
    assert_exit(&output, 1);
    let rows = run.rows();
    assert_eq!(rows.len(), good.len() + unaddressable.len(), "{:#?}", rows.keys());
    for key in good {
        assert_eq!(rows[key]["status"], "done", "{:#}", rows[key]);
    }
    for key in unaddressable {
        assert_eq!(rows[key]["code"], "invalid_parameter", "{:#}", rows[key]);
    }
    let mut expected: Vec<_> = good.iter().map(|key| (*key).to_owned()).collect();
    expected.sort();
    assert_eq!(run.results(), expected);
}

#[test]
fn a_lost_report_is_rebuilt_from_the_metadata_of_the_results() {
    let run = Run::new();
    for seed in 0..20 {
        run.s3.put(&format!("in/{seed} ü.png"), picture(seed));
    }
    assert_exit(&run.run(&[]), 0);
    let before = run.rows();
    fs::remove_file(run.report()).unwrap();
    run.s3.put("in/3 ü.png", picture(33));
    run.s3.take_requests();
    let output = run.run(&[]);
    assert_exit(&output, 0);
    assert_eq!((&json(&output)["done"], &json(&output)["skipped"]), (&json!(1), &json!(19)));
    let transferred: Vec<_> = run
        .s3
        .take_requests()
        .into_iter()
        .filter(|(method, key)| method == "PUT" || (method == "GET" && !key.is_empty()))
        .collect();
    assert_eq!(
        transferred,
        [("GET".to_owned(), "in/3 ü.png".to_owned()), ("PUT".to_owned(), "out/3 ü.png".to_owned())]
    );
    let after = run.rows();
    for (name, row) in &before {
        for member in ["status", "output", "output_bytes", "width", "height", "uncertainty", "parameters", "model"] {
            // The replaced picture may take another number of bytes.
            if (name.as_str(), member) != ("3 ü.png", "output_bytes") {
                assert_eq!(row[member], after[name][member], "{name} {member}");
            }
        }
    }
}

#[test]
fn google_cloud_storage_works_like_s3() {
    let run = Run::new();
    for (seed, key) in ["a b.png", "ü/c.png", "a//b.png"].iter().enumerate() {
        run.s3.put(&format!("in/{key}"), picture(seed as u32));
    }
    run.s3.fail("GET", "in/a b.png", [Fault::Status(503), Fault::Truncated]);
    let bulk = || {
        let mut command = run.s3.bulk();
        command.args(["gs://shop/in", "gs://shop/out", "--json", "--report"]).arg(run.report());
        command.output().unwrap()
    };
    let first = bulk();
    assert_exit(&first, 1);
    assert_eq!((&json(&first)["done"], &json(&first)["failures"]), (&json!(2), &json!({"invalid_parameter": 1})));
    assert_eq!(run.results(), ["a b.png", "ü/c.png"]);
    let headers = &run.s3.objects()["out/ü/c.png"].headers;
    assert_eq!(headers["content-type"], "image/png");
    assert_eq!(headers["x-goog-meta-backdrop_source"], "gs://shop/in/%C3%BC/c.png");
    fs::remove_file(run.report()).unwrap();
    assert_eq!(json(&bulk())["skipped"], json!(2));
}

#[test]
fn a_report_may_be_an_object_of_the_store() {
    let run = Run::new();
    for seed in 0..9 {
        run.s3.put(&format!("in/{seed}.png"), picture(seed));
    }
    let bulk = |k: u32| {
        let mut command = run.s3.bulk();
        command.args(["s3://shop/in", "s3://shop/out", "--json", "--report", "s3://shop/reports/today.jsonl"]);
        command.args(["--shard", &format!("{k}/2")]).current_dir(run.folder.path()).output().unwrap()
    };
    let made: Vec<_> = (0..2).map(|k| json(&bulk(k))["done"].as_u64().unwrap()).collect();
    assert_eq!(made.iter().sum::<u64>(), 9);
    assert_eq!(json(&bulk(0))["skipped"].as_u64(), Some(made[0]));
    let objects = run.s3.objects();
    for k in 0..2 {
        assert!(objects.contains_key(&format!("reports/today.{k}-of-2.jsonl")));
        assert!(objects.contains_key(&format!("reports/today.{k}-of-2.csv")));
    }
    let merged =
        run.s3.bulk().args(["report", "s3://shop/reports/", "--json", "-o"]).arg(run.report()).output().unwrap();
    assert_exit(&merged, 0);
    assert_eq!(run.rows().len(), 9);
}

#[test]
fn a_refused_listing_ends_the_run_and_it_can_be_resumed() {
    let run = Run::new();
    for seed in 0..9 {
        run.s3.put(&format!("in/{seed}.png"), picture(seed));
    }
    run.s3.fail("GET", "", [Fault::Status(403); 2]);
    let output = run.run(&[]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("cannot list s3://shop/in/"), "{}", stderr(&output));
    // The first refusal may have ended the run before the listing for the total had the second.
    run.s3.recover();
    assert_exit(&run.run(&[]), 0);
    assert_eq!(run.rows().len(), 9);
}
