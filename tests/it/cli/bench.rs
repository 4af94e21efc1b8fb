//! `backdrop bench`: scenarios in this process and against a daemon, records, comparison.

use crate::support::command::{backdrop, json, photo, stderr, stdout};
use std::process::Output;

fn bench(arguments: &[&str]) -> Output {
    backdrop().arg("bench").arg(photo("coffee.jpg")).args(["--warm-up", "0"]).args(arguments).output().unwrap()
}

#[test]
fn a_closed_loop_reports_rate_latency_stages_and_conditions() {
    let output = bench(&["--seconds", "1", "--jobs", "2", "--set", "matting=none", "--json"]);
    let record = json(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = &record["runs"][0];
    assert!(run["images"].as_u64() >= Some(1), "{record:#}");
    assert_eq!(run["outcomes"]["done"], run["images"]);
    assert!(run["latency_ms"]["mean"].as_f64() > Some(0.0) && run["latency_ms"]["p99.9"].is_null(), "{record:#}");
    let stages: Vec<_> = run["stages"].as_array().unwrap().iter().map(|stage| &stage["name"]).collect();
    assert!(stages.contains(&&"segment".into()) && stages.contains(&&"encode".into()), "{record:#}");
    assert_eq!(record["result"]["value"], run["images_per_second"]);
    assert_eq!(
        (&record["parameters"]["scenario"], &record["parameters"]["clients"]),
        (&"closed-loop".into(), &2.into())
    );
    assert_eq!((&record["photos"][0]["name"], &record["service"]["device"]), (&"coffee.jpg".into(), &"CPU".into()));
    assert!(record["machine"]["cores"].as_u64() >= Some(1) && record["service"]["model"].is_string(), "{record:#}");
}

#[test]
fn a_query_of_multi_stream_has_all_its_pictures_and_an_offline_run_no_latency() {
    let record = json(&bench(&["--scenario", "multi-stream", "--samples-per-query", "3", "--seconds", "1", "--json"]));
    let run = &record["runs"][0];
    assert_eq!(run["images"].as_u64(), run["generator"]["queries"].as_u64().map(|queries| queries * 3), "{record:#}");
    assert!(record["result"]["value"].is_null(), "p99 needs 662 queries: {record:#}");

    let record = json(&bench(&["--scenario", "offline", "--jobs", "3", "--seconds", "1", "--json"]));
    assert!(record["runs"][0]["latency_ms"].is_null() && record["result"]["value"].as_f64() > Some(0.0), "{record:#}");
}

#[test]
fn a_result_whose_record_cannot_be_written_is_printed() {
    let output = bench(&["--seconds", "1", "--jobs", "1", "--json", "--out", "/nowhere/record.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(json(&output)["result"]["value"].as_f64() > Some(0.0));
    assert!(stderr(&output).contains("cannot write /nowhere/record.json"), "{}", stderr(&output));
}

#[test]
fn options_that_the_scenario_does_not_have_are_refused() {
    for (arguments, reason) in [
        (&["--rate", "3"][..], "--rate is an option of server"),
        (&["--scenario", "server"], "the server scenario needs --latency-bound MS"),
        (&["--scenario", "server", "--rate", "3", "--jobs", "2"], "--jobs is an option of closed-loop and offline"),
        (&["--set", "edge=soft_as_butter"], "edge"),
        (&["--url", "http://127.0.0.1:1/mask", "--key", "k", "--endpoint", "mask"], "given twice"),
    ] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(reason), "{arguments:?}: {}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn an_open_loop_against_a_daemon_is_recorded_reported_and_compared() {
    use crate::cli::serve::{KEY, Running};
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), &[]);
    let files = ["a.json", "a.html"].map(|name| folder.path().join(name).display().to_string());
    let run = |more: &[&str]| bench(&[&["--url", &running.url, "--seconds", "2"], more].concat());

    let output = run(&["--key", KEY, "--scenario", "server", "--rate", "6", "--out", &files[0], "--html", &files[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("throughput  ") && stdout(&output).contains("matte"), "{}", stdout(&output));
    let html = std::fs::read_to_string(&files[1]).unwrap();
    assert!(html.contains("<svg") && html.contains("backdrop bench: server"));

    let output = backdrop().args(["bench", "compare", &files[0], &files[0]]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("no change shown") && !stdout(&output).contains("worse"), "{}", stdout(&output));

    let output = run(&["--key", "bd_live_wrong"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no picture was finished in the warm-up: 401"), "{}", stderr(&output));
}
