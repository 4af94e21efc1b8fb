//! `backdrop bulk` over folders: what it does with each object, what it tells, and how it goes on.

use std::collections::BTreeSet;
use std::fs;

use backdrop::codec::Limits;
use backdrop::source::StorageLocation;
use serde_json::{Value, json};

use crate::bulk::support::{bulk, ended, fill, picture, rows, tree, url, without_times};
use crate::support::command::{backdrop, json, photo, stderr};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(pictures: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fill(&folder.path().join("in"), pictures);
        Self { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        bulk(&self.path("in"), &self.path("out"), &self.path("report.jsonl"), arguments)
    }

    fn rows(&self) -> std::collections::BTreeMap<String, Value> {
        rows(
            &self.path("report.jsonl"),
            &StorageLocation::open(&url(&self.path("in")), false).unwrap().address_prefix(),
        )
    }

    fn outputs(&self) -> Vec<String> {
        tree(&self.path("out")).into_keys().collect()
    }
}

/// A file of more bytes than a picture may have; the disk holds none of them.
fn huge(place: &Place) {
    let file = fs::File::create(place.path("in/huge.jpg")).unwrap();
    file.set_len(Limits::LOCAL.max_bytes as u64 + 1).unwrap();
}

#[test]
fn everything_is_made_told_and_not_made_again() {
    let place = Place::new(5);
    let input = |name: &str, bytes: &[u8]| fs::write(place.path("in").join(name), bytes).unwrap();
    input("broken.jpg", b"\xff\xd8\xff\xe0 not a picture");
    input("empty.png", b"");
    input("film.png", b"GIF89a........");
    input("notes.txt", b"no picture");
    huge(&place);
    fs::copy(photo("coffee.jpg"), place.path("in/cup ü.jpg")).unwrap();
    let first = place.run(&["--json"]);
    ended(&first, 1);
    let summary = json(&first);
    assert_eq!((&summary["done"], &summary["failed"], &summary["passed_over"]), (&json!(6), &json!(4), &json!(1)));
    assert_eq!(
        summary["failures"],
        json!({"invalid_image": 2, "payload_too_large": 1, "unsupported_media_type": 1}),
        "{summary:#}"
    );
    assert!(summary["report"]["path"].as_str().unwrap().ends_with("report.jsonl"));
    assert_eq!(place.outputs().len(), 6);
    let rows = place.rows();
    assert_eq!(rows.len(), 10);
    let cup = &rows["cup ü.jpg"];
    assert_eq!((&cup["status"], &cup["width"], &cup["height"]), (&json!("done"), &json!(600), &json!(400)), "{cup:#}");
    assert!(cup["uncertainty"].as_f64().unwrap() < 1.0 && cup["milliseconds"]["segment"].as_f64().unwrap() > 0.0);
    assert_eq!(cup["output_bytes"], json!(fs::metadata(place.path("out/cup ü.png")).unwrap().len()));
    assert!(rows["huge.jpg"]["message"].as_str().unwrap().contains("more than 209715200 bytes"));
    let table = fs::read_to_string(place.path("report.csv")).unwrap();
    assert_eq!(table.lines().count(), 11);

    // What failed is tried again; what is done is not.
    fs::write(place.path("in/empty.png"), picture(99)).unwrap();
    let second = json(&place.run(&["--json"]));
    assert_eq!((&second["done"], &second["skipped"], &second["failed"]), (&json!(1), &json!(6), &json!(3)));
    assert_eq!(place.rows().len(), 10);

    // A changed source and changed parameters are done again.
    fs::write(place.path("in/cup ü.jpg"), fs::read(photo("astronaut.jpg")).unwrap()).unwrap();
    let third = json(&place.run(&["--json"]));
    assert_eq!((&third["done"], &third["skipped"]), (&json!(1), &json!(6)), "{third:#}");
    let fourth = json(&place.run(&["--json", "--set", "edge=hard"]));
    assert_eq!((&fourth["done"], &fourth["skipped"]), (&json!(7), &json!(0)), "{fourth:#}");
    assert_eq!(place.rows().len(), 10);
}

#[test]
fn results_are_those_of_remove() {
    let place = Place::new(3);
    fs::copy(photo("chelsea.png"), place.path("in/cat.png")).unwrap();
    let set = ["--endpoint", "studio-shot", "--set", "padding=10%", "--set", "format=webp"];
    ended(&place.run(&set), 0);
    let remove =
        backdrop().arg("remove").arg(place.path("in")).arg("-o").arg(place.path("there")).args(set).output().unwrap();
    ended(&remove, 0);
    assert_eq!(tree(&place.path("out")), tree(&place.path("there")));
    assert_eq!(place.outputs()[0], "cat.webp");
}

#[test]
fn a_preset_says_endpoint_and_parameters_and_set_wins() {
    let place = Place::new(1);
    let preset = place.path("preset.json");
    let record = json!({"id": "preset_1", "name": "shop", "endpoint": "/replace-bg",
        "params": {"bg_color": "#ff0000", "format": "jpg"}});
    fs::write(&preset, record.to_string()).unwrap();
    ended(&place.run(&["--preset", preset.to_str().unwrap()]), 0);
    assert_eq!(place.outputs(), ["set 0/0000.jpg"]);
    ended(&place.run(&["--preset", preset.to_str().unwrap(), "--set", "format=webp"]), 0);
    assert_eq!(place.outputs(), ["set 0/0000.jpg", "set 0/0000.webp"]);
    fs::write(&preset, r#"{"egde":"hard"}"#).unwrap();
    let wrong = place.run(&["--preset", preset.to_str().unwrap()]);
    ended(&wrong, 2);
    assert!(stderr(&wrong).contains("unknown field `egde`"), "{}", stderr(&wrong));
}

#[test]
fn two_pictures_never_share_a_result() {
    let place = Place::new(0);
    for name in ["a.png", "a.webp", "a.jpg"] {
        fs::write(place.path("in").join(name), picture(1)).unwrap();
    }
    for _ in 0..2 {
        ended(&place.run(&[]), 1);
        let rows = place.rows();
        assert_eq!(rows["a.jpg"]["status"], "done", "the first in order has it");
        for name in ["a.png", "a.webp"] {
            assert_eq!(rows[name]["code"], "conflict");
        }
    }
    ended(&place.run(&["--output", "{dir}/{name}.{ext}"]), 0);
    assert_eq!(place.outputs(), ["a.jpg.png", "a.png", "a.png.png", "a.webp.png"]);
}

#[test]
fn keys_are_chosen_by_globs_and_results_named_by_a_template() {
    let place = Place::new(9);
    let output = place.run(&[
        "--include",
        "set 1/*",
        "--include",
        "0000*",
        "--exclude",
        "*4.png",
        "--output",
        "x/{stem}-{dir}.{ext}",
    ]);
    ended(&output, 0);
    assert_eq!(place.outputs(), ["x/0000-set 0.png", "x/0001-set 1.png", "x/0007-set 1.png"]);
    for (arguments, why) in [
        (&["--output", "{base}.{ext}"][..], "no placeholder `{base}`"),
        (&["--output", "all.png"], "same name"),
        (&["--include", "["], "glob"),
        (&["--shard", "8/8"], "K from 0 to N-1"),
        (&["--set", "egde=hard"], "unknown field"),
        (&["--set", "preset=shop"], "--preset"),
        (&["--endpoint", "remover"], "remover"),
    ] {
        let wrong = place.run(arguments);
        ended(&wrong, 2);
        assert!(stderr(&wrong).contains(why), "{}", stderr(&wrong));
    }
}

#[test]
fn results_may_lie_below_the_sources_but_not_among_them() {
    let place = Place::new(2);
    let (all, inside, report) = (place.path("in"), place.path("in/cut"), place.path("report.jsonl"));
    for done in ["done", "skipped"] {
        let output = bulk(&all, &inside, &report, &["--json"]);
        ended(&output, 0);
        assert_eq!(json(&output)[done], json!(2));
    }
    assert_eq!(tree(&inside).len(), 2);
    ended(&bulk(&all, &all, &report, &[]), 2);
    let among = bulk(&place.path("in/set 0"), &all, &report, &["--output", "set 0/{stem}.{ext}", "--json"]);
    ended(&among, 1);
    assert_eq!(json(&among)["failures"], json!({"conflict": 1}));
    assert_eq!(fs::read(place.path("in/set 0/0000.png")).unwrap(), picture(0));
}

#[test]
fn shards_share_the_work_and_their_reports_are_merged() {
    let place = Place::new(40);
    fs::write(place.path("in/broken.jpg"), b"\xff\xd8\xff").unwrap();
    ended(&bulk(&place.path("in"), &place.path("alone"), &place.path("alone.jsonl"), &[]), 1);
    let mut made = BTreeSet::new();
    let mut failed = 0;
    for k in 0..3 {
        let mut command = backdrop();
        command.arg("bulk").args([url(&place.path("in")), url(&place.path("out"))]).arg("--report");
        command.arg(place.path("shard.jsonl")).arg("--json");
        // The last one is told by Kubernetes.
        let output = if k == 2 {
            command.env("JOB_COMPLETION_INDEX", "2").env("JOB_COMPLETIONS", "3").output().unwrap()
        } else {
            command.args(["--shard", &format!("{k}/3")]).output().unwrap()
        };
        let summary = json(&output);
        assert!(summary["done"].as_u64().unwrap() > 4, "{summary:#}");
        failed += summary["failed"].as_u64().unwrap();
        let rows = fs::read_to_string(place.path(&format!("shard.{k}-of-3.jsonl"))).unwrap();
        for line in rows.lines() {
            assert!(made.insert(serde_json::from_str::<Value>(line).unwrap()["source"].to_string()), "{line}");
        }
    }
    assert_eq!((made.len(), failed), (41, 1));
    assert_eq!(tree(&place.path("out")), tree(&place.path("alone")));
    let reports = (0..3).map(|k| place.path(&format!("shard.{k}-of-3.jsonl")));
    let merged = backdrop()
        .args(["bulk", "report"])
        .args(reports)
        .arg("-o")
        .arg(place.path("report.jsonl"))
        .arg("--json")
        .output();
    let merged = merged.unwrap();
    ended(&merged, 1);
    assert_eq!((&json(&merged)["done"], &json(&merged)["failed"]), (&json!(40), &json!(1)));
    let prefix = StorageLocation::open(&url(&place.path("in")), false).unwrap().address_prefix();
    assert_eq!(without_times(place.rows()), without_times(rows(&place.path("alone.jsonl"), &prefix)));
    assert_eq!(fs::read_to_string(place.path("report.csv")).unwrap().lines().count(), 42);

    let mut lost = backdrop();
    lost.arg("bulk").args([url(&place.path("in")), url(&place.path("out"))]);
    let lost = lost.env("AWS_BATCH_JOB_ARRAY_INDEX", "1").output().unwrap();
    ended(&lost, 2);
    assert!(stderr(&lost).contains("set AWS_BATCH_JOB_ARRAY_SIZE, or pass --shard K/N"), "{}", stderr(&lost));
}

#[test]
fn a_dry_run_counts_and_prices_and_does_nothing() {
    let place = Place::new(12);
    huge(&place);
    let dry = |arguments: &[&str]| {
        let output = place.run(&[&["--dry-run", "--json"], arguments].concat());
        ended(&output, 0);
        json(&output)
    };
    let told = dry(&["--endpoint", "studio-shot"]);
    assert_eq!((&told["objects"], &told["refused"]), (&json!(12), &json!({"payload_too_large": 1})), "{told:#}");
    assert_eq!((&told["unit_price_usd"], &told["price_usd"]), (&json!(0.008), &json!(0.096)));
    assert!(told["seconds"].as_f64().unwrap() > 0.0);
    assert!(!place.path("out").exists() && !place.path("report.jsonl").exists());
    assert_eq!(dry(&["--limit", "5"])["objects"], json!(5));
    ended(&place.run(&["--limit", "5"]), 1);
    assert_eq!(place.outputs().len(), 5);
    let told = dry(&[]);
    assert_eq!((&told["objects"], &told["already_done"]), (&json!(7), &json!(5)), "{told:#}");
    ended(&place.run(&["--limit", "5"]), 1);
    assert_eq!(place.outputs().len(), 10, "the limit goes on where it stopped");
}

#[test]
fn what_a_file_system_cannot_hold_is_a_failure_of_one_picture() {
    let place = Place::new(2);
    let long = "n".repeat(250);
    fs::write(place.path("in").join(format!("{long}.png")), picture(7)).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"x\xff.png");
        fs::write(place.path("in").join(name), picture(8)).unwrap();
    }
    let output = place.run(&["--output", "{dir}/{stem}-cutout.{ext}", "--json"]);
    ended(&output, 1);
    assert_eq!(json(&output)["failures"], json!({"invalid_parameter": if cfg!(unix) { 2 } else { 1 }}));
    assert_eq!(place.outputs().len(), 2);
}

#[test]
fn what_cannot_be_begun_says_why() {
    let place = Place::new(0);
    let output = place.run(&[]);
    ended(&output, 2);
    assert!(stderr(&output).contains("there is no picture in"), "{}", stderr(&output));
    for (from, to, why) in [
        ("shop/photos", "file:///tmp", "is not a URL"),
        ("ftp://shop", "file:///tmp", "expected s3, gs, az or file"),
        ("file:///nowhere/at/all", "file:///tmp", "is not a folder"),
    ] {
        let output = backdrop().args(["bulk", from, to]).current_dir(place.folder.path()).output().unwrap();
        ended(&output, 2);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let foreign = place.path("photo.jpg");
    fs::copy(photo("coffee.jpg"), &foreign).unwrap();
    fill(&place.path("in"), 1);
    let output = bulk(&place.path("in"), &place.path("out"), &foreign, &[]);
    ended(&output, 2);
    assert!(stderr(&output).contains("is not a report"), "{}", stderr(&output));
    assert_eq!(fs::read(&foreign).unwrap(), fs::read(photo("coffee.jpg")).unwrap());
}
