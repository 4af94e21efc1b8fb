//! `backdrop eval` and `backdrop bench`: figures of this machine and these weights.

use crate::command::{backdrop, json, photo, stderr, stdout};
use std::fs;

#[test]
fn a_matte_compared_with_itself_is_perfect() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("cups");
    fs::create_dir_all(set.join("image")).unwrap();
    fs::copy(photo("coffee.jpg"), set.join("image/cup.jpg")).unwrap();
    let mask = set.join("mask/cup.png");
    let made = backdrop().args(["remove", "--endpoint", "mask"]).arg(photo("coffee.jpg")).arg("-o").arg(&mask).output();
    assert!(made.unwrap().status.success());

    let details = folder.path().join("details.csv");
    let output =
        backdrop().arg("eval").arg(folder.path()).arg("--json").arg("--details").arg(&details).output().unwrap();
    let result = json(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = result["sets"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{result:#}");
    assert_eq!((&rows[0]["of"], &rows[1]["of"]), (&"mask".into(), &"matte".into()));
    assert_eq!((&rows[1]["set"], &rows[1]["n"]), (&"cups".into(), &1.into()));
    assert_eq!((rows[1]["mae"].as_f64(), rows[1]["iou"].as_f64()), (Some(0.0), Some(1.0)));
    assert!(rows[0]["mae"].as_f64() > Some(0.0), "the mask is not the matte: {result:#}");
    assert_eq!(fs::read_to_string(&details).unwrap().lines().count(), 3);

    let table = stdout(&backdrop().arg("eval").arg(&set).output().unwrap());
    assert!(table.starts_with("set ") && table.contains("cups  matte"), "{table}");
}

#[test]
fn a_folder_without_sets_cannot_be_measured() {
    let folder = tempfile::tempdir().unwrap();
    let output = backdrop().arg("eval").arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("image/ and mask/"), "{}", stderr(&output));
}

#[test]
fn a_bench_tells_rate_latency_and_stages() {
    let output =
        backdrop().arg("bench").arg(photo("coffee.jpg")).args(["--seconds", "1", "--jobs", "2", "--json"]).output();
    let output = output.unwrap();
    let summary = json(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(summary["images"].as_u64() >= Some(1), "{summary:#}");
    assert!(summary["latency_ms"]["p50"].as_f64() > Some(0.0), "{summary:#}");
    assert!(summary["stages_ms"]["segment"].as_f64() > Some(0.0), "{summary:#}");
    assert_eq!(summary["outcomes"]["200"], summary["images"]);
}
