//! `backdrop bulk` over folders: results, reports, resuming, filters, templates, shards, dry runs.

use std::collections::BTreeSet;
use std::fs;

use backdrop::codec::Limits;
use serde_json::{Value, json};

use crate::bulk::support::{Folders, assert_exit, bulk, picture, tree, url, without_times};
use crate::support::command::{backdrop, json, photo, stderr};

/// A sparse file above the size limit of pictures.
fn huge(folders: &Folders) {
    let file = fs::File::create(folders.path("in/huge.jpg")).unwrap();
    file.set_len(Limits::LOCAL.max_bytes as u64 + 1).unwrap();
}

#[test]
fn every_picture_is_processed_once_and_reported() {
    let folders = Folders::new(5);
    let input = |name: &str, bytes: &[u8]| fs::write(folders.path("in").join(name), bytes).unwrap();
    input("broken.jpg", b"\xff\xd8\xff\xe0 not a picture");
    input("empty.png", b"");
    input("film.png", b"GIF89a........");
    input("notes.txt", b"no picture");
    huge(&folders);
    fs::copy(photo("coffee.jpg"), folders.path("in/cup ü.jpg")).unwrap();
    let first = folders.run(&["--json"]);
    assert_exit(&first, 1);
    let summary = json(&first);
    assert_eq!((&summary["done"], &summary["failed"], &summary["passed_over"]), (&json!(6), &json!(4), &json!(1)));
    assert_eq!(
        summary["failures"],
        json!({"invalid_image": 2, "payload_too_large": 1, "unsupported_media_type": 1}),
        "{summary:#}"
    );
    assert!(summary["report"]["path"].as_str().unwrap().ends_with("report.jsonl"));
    assert_eq!(folders.outputs().len(), 6);
    let rows = folders.rows("report.jsonl");
    assert_eq!(rows.len(), 10);
    let cup = &rows["cup ü.jpg"];
    assert_eq!((&cup["status"], &cup["width"], &cup["height"]), (&json!("done"), &json!(600), &json!(400)), "{cup:#}");
    assert!(cup["uncertainty"].as_f64().unwrap() < 1.0 && cup["milliseconds"]["segment"].as_f64().unwrap() > 0.0);
    assert_eq!(cup["output_bytes"], json!(fs::metadata(folders.path("out/cup ü.png")).unwrap().len()));
    assert!(rows["huge.jpg"]["message"].as_str().unwrap().contains("more than 209715200 bytes"));
    let table = fs::read_to_string(folders.path("report.csv")).unwrap();
    assert_eq!(table.lines().count(), 11);

    // Failures are retried; finished pictures are skipped.
    fs::write(folders.path("in/empty.png"), picture(99)).unwrap();
    let second = json(&folders.run(&["--json"]));
    assert_eq!((&second["done"], &second["skipped"], &second["failed"]), (&json!(1), &json!(6), &json!(3)));
    assert_eq!(folders.rows("report.jsonl").len(), 10);

    // A changed source or changed parameters are processed again.
    fs::write(folders.path("in/cup ü.jpg"), fs::read(photo("astronaut.jpg")).unwrap()).unwrap();
    let third = json(&folders.run(&["--json"]));
    assert_eq!((&third["done"], &third["skipped"]), (&json!(1), &json!(6)), "{third:#}");
    let fourth = json(&folders.run(&["--json", "--set", "edge=hard"]));
    assert_eq!((&fourth["done"], &fourth["skipped"]), (&json!(7), &json!(0)), "{fourth:#}");
    assert_eq!(folders.rows("report.jsonl").len(), 10);
}

#[test]
fn results_are_the_same_as_those_of_remove() {
    let folders = Folders::new(3);
    fs::copy(photo("chelsea.png"), folders.path("in/cat.png")).unwrap();
    let set = ["--endpoint", "studio-shot", "--set", "padding=10%", "--set", "format=webp"];
    assert_exit(&folders.run(&set), 0);
    let remove = backdrop()
        .arg("remove")
        .arg(folders.path("in"))
        .arg("-o")
        .arg(folders.path("there"))
        .args(set)
        .output()
        .unwrap();
    assert_exit(&remove, 0);
    fs::remove_file(folders.path("there/.backdrop-parameters")).unwrap();
    assert_eq!(tree(&folders.path("out")), tree(&folders.path("there")));
    assert_eq!(folders.outputs()[0], "cat.webp");
}

#[test]
fn a_preset_gives_endpoint_and_parameters_and_set_overrides_it() {
    let folders = Folders::new(1);
    let preset = folders.path("preset.json");
    let record = json!({"id": "preset_1", "name": "shop", "endpoint": "/replace-bg",
        "params": {"bg_color": "#ff0000", "format": "jpg"}});
    fs::write(&preset, record.to_string()).unwrap();
    assert_exit(&folders.run(&["--preset", preset.to_str().unwrap()]), 0);
    assert_eq!(folders.outputs(), ["set 0/0000.jpg"]);
    assert_exit(&folders.run(&["--preset", preset.to_str().unwrap(), "--set", "format=webp"]), 0);
    assert_eq!(folders.outputs(), ["set 0/0000.jpg", "set 0/0000.webp"]);
    fs::write(&preset, r#"{"egde":"hard"}"#).unwrap();
    let wrong = folders.run(&["--preset", preset.to_str().unwrap()]);
    assert_exit(&wrong, 2);
    assert!(stderr(&wrong).contains("unknown field `egde`"), "{}", stderr(&wrong));
}

#[test]
fn two_pictures_with_the_same_result_key_are_a_conflict() {
    let folders = Folders::new(0);
    for name in ["a.png", "a.webp", "a.jpg"] {
        fs::write(folders.path("in").join(name), picture(1)).unwrap();
    }
    for _ in 0..2 {
        assert_exit(&folders.run(&[]), 1);
        let rows = folders.rows("report.jsonl");
        assert_eq!(rows["a.jpg"]["status"], "done", "the first in order gets the key");
        for name in ["a.png", "a.webp"] {
            assert_eq!(rows[name]["code"], "conflict");
        }
    }
    assert_exit(&folders.run(&["--output", "{dir}/{name}.{ext}"]), 0);
    assert_eq!(folders.outputs(), ["a.jpg.png", "a.png", "a.png.png", "a.webp.png"]);
}

#[test]
fn globs_select_keys_and_a_template_names_results() {
    let folders = Folders::new(9);
    let output = folders.run(&[
        "--include",
        "set 1/*",
        "--include",
        "0000*",
        "--exclude",
        "*4.png",
        "--output",
        "x/{stem}-{dir}.{ext}",
    ]);
    assert_exit(&output, 0);
    assert_eq!(folders.outputs(), ["x/0000-set 0.png", "x/0001-set 1.png", "x/0007-set 1.png"]);
    for (arguments, why) in [
        (&["--output", "{base}.{ext}"][..], "no placeholder `{base}`"),
        (&["--output", "all.png"], "same name"),
        (&["--include", "["], "glob"),
        (&["--shard", "8/8"], "K from 0 to N-1"),
        (&["--set", "egde=hard"], "unknown field"),
        (&["--set", "preset=shop"], "--preset"),
        (&["--endpoint", "remover"], "remover"),
    ] {
        let wrong = folders.run(arguments);
        assert_exit(&wrong, 2);
        assert!(stderr(&wrong).contains(why), "{}", stderr(&wrong));
    }
}

#[test]
fn results_may_be_below_the_sources_but_must_not_replace_them() {
    let folders = Folders::new(2);
    let (all, inside, report) = (folders.path("in"), folders.path("in/cut"), folders.path("report.jsonl"));
    for done in ["done", "skipped"] {
        let output = bulk(&all, &inside, &report, &["--json"]);
        assert_exit(&output, 0);
        assert_eq!(json(&output)[done], json!(2));
    }
    assert_eq!(tree(&inside).len(), 2);
    assert_exit(&bulk(&all, &all, &report, &[]), 2);
    let among = bulk(&folders.path("in/set 0"), &all, &report, &["--output", "set 0/{stem}.{ext}", "--json"]);
    assert_exit(&among, 1);
    assert_eq!(json(&among)["failures"], json!({"conflict": 1}));
    assert_eq!(fs::read(folders.path("in/set 0/0000.png")).unwrap(), picture(0));
}

#[test]
fn shards_share_the_work_and_their_reports_are_merged() {
    let folders = Folders::new(40);
    fs::write(folders.path("in/broken.jpg"), b"\xff\xd8\xff").unwrap();
    assert_exit(&bulk(&folders.path("in"), &folders.path("alone"), &folders.path("alone.jsonl"), &[]), 1);
    let mut made = BTreeSet::new();
    let mut failed = 0;
    for k in 0..3 {
        let mut command = backdrop();
        command.args(["bulk", &url(&folders.path("in")), &url(&folders.path("out")), "--json", "--report"]);
        command.arg(folders.path("shard.jsonl"));
        // The last one by the variables of Kubernetes.
        let output = if k == 2 {
            command.env("JOB_COMPLETION_INDEX", "2").env("JOB_COMPLETIONS", "3").output().unwrap()
        } else {
            command.args(["--shard", &format!("{k}/3")]).output().unwrap()
        };
        let summary = json(&output);
        assert!(summary["done"].as_u64().unwrap() > 4, "{summary:#}");
        failed += summary["failed"].as_u64().unwrap();
        let rows = fs::read_to_string(folders.path(&format!("shard.{k}-of-3.jsonl"))).unwrap();
        for line in rows.lines() {
            assert!(made.insert(serde_json::from_str::<Value>(line).unwrap()["source"].to_string()), "{line}");
        }
    }
    assert_eq!((made.len(), failed), (41, 1));
    assert_eq!(tree(&folders.path("out")), tree(&folders.path("alone")));
    let merge = |to: &str| {
        let reports = (0..3).map(|k| folders.path(&format!("shard.{k}-of-3.jsonl")));
        let mut command = backdrop();
        command.args(["bulk", "report", "--json"]).args(reports).arg("-o").arg(folders.path(to)).output().unwrap()
    };
    let merged = merge("report.csv");
    assert_exit(&merged, 2);
    assert!(stderr(&merged).contains("the report is JSON Lines"), "{}", stderr(&merged));
    let merged = merge("report.jsonl");
    assert_exit(&merged, 1);
    assert_eq!((&json(&merged)["done"], &json(&merged)["failed"]), (&json!(40), &json!(1)));
    assert_eq!(without_times(folders.rows("report.jsonl")), without_times(folders.rows("alone.jsonl")));
    assert_eq!(fs::read_to_string(folders.path("report.csv")).unwrap().lines().count(), 42);

    let lost = folders.command().env("AWS_BATCH_JOB_ARRAY_INDEX", "1").output().unwrap();
    assert_exit(&lost, 2);
    assert!(stderr(&lost).contains("set AWS_BATCH_JOB_ARRAY_SIZE, or pass --shard K/N"), "{}", stderr(&lost));
}

#[test]
fn a_dry_run_reports_count_and_price_and_changes_nothing() {
    let folders = Folders::new(12);
    huge(&folders);
    let dry = |arguments: &[&str]| {
        let output = folders.run(&[&["--dry-run", "--json"], arguments].concat());
        assert_exit(&output, 0);
        json(&output)
    };
    let estimate = dry(&["--endpoint", "studio-shot"]);
    assert_eq!(
        (&estimate["objects"], &estimate["refused"]),
        (&json!(12), &json!({"payload_too_large": 1})),
        "{estimate:#}"
    );
    assert_eq!((&estimate["unit_price_usd"], &estimate["price_usd"]), (&json!(0.008), &json!(0.096)));
    let text = |arguments: &[&str]| {
        let output = folders.run(&[&["--dry-run", "--endpoint", "studio-shot"], arguments].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!text(&[]).contains('$'));
    let config = folders.path("prices.toml");
    fs::write(&config, "[prices]\nstudio_shot = 0.01\n").unwrap();
    assert!(text(&["--config", config.to_str().unwrap()]).contains("$0.12 at $0.01 each"));
    assert!(estimate["seconds"].as_f64().unwrap() > 0.0);
    assert!(!folders.path("out").exists() && !folders.path("report.jsonl").exists());
    assert_eq!(dry(&["--limit", "5"])["objects"], json!(5));
    assert_exit(&folders.run(&["--limit", "5"]), 1);
    assert_eq!(folders.outputs().len(), 5);
    let estimate = dry(&[]);
    assert_eq!((&estimate["objects"], &estimate["already_done"]), (&json!(7), &json!(5)), "{estimate:#}");
    assert_exit(&folders.run(&["--limit", "5"]), 1);
    assert_eq!(folders.outputs().len(), 10, "the limit applies to further pictures");
}

#[test]
fn a_run_that_cannot_start_is_refused_with_the_reason() {
    let folders = Folders::new(0);
    let output = folders.run(&[]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("there is no picture in"), "{}", stderr(&output));
    for (from, to, why) in [
        ("shop/photos", "file:///tmp", "is not a folder"),
        ("ftp://shop", "file:///tmp", "expected s3, gs, az or file"),
        ("file:///nowhere/at/all", "file:///tmp", "is not a folder"),
    ] {
        let output = backdrop().args(["bulk", from, to]).current_dir(folders.folder.path()).output().unwrap();
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
