//! `backdrop eval`: metrics, calibration, contact sheets.

use crate::support::command::{backdrop, json, photo, stderr, stdout};
use crate::support::pictures::png;
use backdrop::image::Size;
use std::fs;

#[test]
fn mattes_compared_with_themselves_have_no_error_and_calibrate_the_uncertainty() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("cups");
    fs::create_dir_all(set.join("image")).unwrap();
    fs::create_dir_all(set.join("mask")).unwrap();
    let mask = folder.path().join("mask.png");
    let made = backdrop().args(["remove", "--endpoint", "mask"]).arg(photo("coffee.jpg")).arg("-o").arg(&mask).output();
    assert!(made.unwrap().status.success());
    for i in 0..10 {
        fs::copy(photo("coffee.jpg"), set.join(format!("image/{i}.jpg"))).unwrap();
        fs::copy(&mask, set.join(format!("mask/{i}.png"))).unwrap();
    }
    let (sheets, details) = (folder.path().join("sheets"), folder.path().join("details.csv"));
    let run = |more: &[&str]| backdrop().arg("eval").arg(&set).args(more).output().unwrap();
    let files = ["--contact-sheets", sheets.to_str().unwrap(), "--details", details.to_str().unwrap()];
    let output = run(&[&["--json", "--worst", "2"][..], &files].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&output);

    let rows = result["sets"].as_array().unwrap();
    let stages: Vec<&str> = rows.iter().map(|row| row["of"].as_str().unwrap()).collect();
    assert_eq!(stages, ["truth", "raw", "mask", "matte"], "{result:#}");
    let (mask, matte) = (&rows[2], &rows[3]);
    assert_eq!((&matte["set"], &matte["n"]), (&"cups".into(), &10.into()));
    assert_eq!((matte["mae"].as_f64(), matte["iou"].as_f64()), (Some(0.0), Some(1.0)));
    assert!(mask["mae"].as_f64() > Some(0.0), "the mask is not the matte: {result:#}");
    // The truth is this matte: their outlines are alike.
    for measure in ["raggedness", "edge_width"] {
        assert!(!matte[measure].is_null() && matte[measure] == rows[0][measure], "{measure}: {result:#}");
    }
    let details = fs::read_to_string(&details).unwrap();
    let columns: Vec<Vec<&str>> = details.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((columns.len(), columns[0].last()), (41, Some(&"uncertainty")), "{details}");
    let uncertainty: f64 = columns[4].last().unwrap().parse().unwrap();
    assert!(uncertainty > 0.0 && uncertainty < 1.0, "{details}");

    let calibration = result["calibration"].as_array().unwrap();
    assert_eq!(calibration.len(), 1, "one set: {calibration:#?}");
    let cups = &calibration[0];
    assert_eq!((&cups["set"], &cups["n"], &cups["bad"]), (&"cups".into(), &10.into(), &0.0.into()));
    // Equal pictures without an error: no ratio and no correlation.
    assert!(cups["ratio"].is_null() && cups["rank_correlation"].is_null(), "{cups:#}");
    assert!(cups["expected_bad"].as_f64().is_some_and(|bad| bad > 0.0 && bad < 1.0), "{cups:#}");
    // Two rows of three cells of 400×300 with margins of 12.
    let sheet = fs::read(sheets.join("cups.png")).unwrap();
    assert_eq!((&sheet[16..20], &sheet[20..24]), (&1248_u32.to_be_bytes()[..], &636_u32.to_be_bytes()[..]));

    let table = stdout(&run(&[]));
    assert!(table.starts_with("set ") && table.contains("cups  matte"), "{table}");
    assert!(table.contains("\nuncertainty   n  expected bad") && table.contains("\ncups         10"), "{table}");
    assert_eq!(run(&["--worst", "2"]).status.code(), Some(2), "without a contact sheet");
}

#[test]
fn a_folder_without_sets_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = backdrop().arg("eval").arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("image/ and mask/"), "{}", stderr(&output));
}

#[test]
fn scores_whose_details_cannot_be_written_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["image", "mask"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("grey.png"), png(Size::new(32, 32), |_, _| [128, 128, 128, 255]))
            .unwrap();
    }
    let output =
        backdrop().arg("eval").arg(folder.path()).args(["--details", "/nowhere/details.csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("set "), "{}", stdout(&output));
    assert!(stderr(&output).contains("cannot write /nowhere/details.csv"), "{}", stderr(&output));
}
