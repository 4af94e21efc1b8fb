//! `backdrop remove`: files, folders, standard input, formats, contact sheets.

use crate::support::command::{backdrop, fed, json, photo, stderr};
use crate::support::pictures::decoded;
use backdrop::image::Size;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::SystemTime;

/// `remove` of these inputs into `output`.
fn remove(inputs: &[&Path], output: &Path, arguments: &[&str]) -> Output {
    backdrop().arg("remove").args(inputs).arg("-o").arg(output).args(arguments).output().unwrap()
}

/// The result of a bundled photo, which is made.
fn made(output: &Path, arguments: &[&str]) -> Vec<u8> {
    let run = remove(&[&photo("coffee.jpg")], output, arguments);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    fs::read(output).unwrap()
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

fn is_png(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG\r\n\x1a\n")
}

/// Width, height and colour type of a PNG.
fn png_header(bytes: &[u8]) -> (u32, u32, u8) {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20), bytes[25])
}

#[test]
fn a_folder_keeps_its_tree_and_a_broken_file_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir_all(input.join("below")).unwrap();
    fs::copy(photo("coffee.jpg"), input.join("below/cup.jpg")).unwrap();
    fs::copy(photo("chelsea.png"), input.join("cat.png")).unwrap();
    fs::write(input.join("broken.jpg"), b"\xff\xd8\xff\xe0 not a picture").unwrap();
    fs::write(input.join("empty.png"), b"").unwrap();

    let run = || remove(&[&input], &output, &["--json"]);
    let first = run();
    let report = json(&first);
    assert_eq!(first.status.code(), Some(1), "{}", stderr(&first));
    assert_eq!((&report["done"], &report["failed"]), (&2.into(), &2.into()), "{report:#}");
    assert!(is_png(&fs::read(output.join("cat.png")).unwrap()));
    assert!(is_png(&fs::read(output.join("below/cup.png")).unwrap()));
    assert!(!output.join("broken.png").exists());
    let errors: Vec<&str> =
        report["results"].as_array().unwrap().iter().filter_map(|row| row["error"].as_str()).collect();
    assert!(errors.iter().any(|error| error.contains("empty")), "{errors:?}");

    // Finished files are skipped.
    let before = modified(&output.join("cat.png"));
    let second = json(&run());
    assert_eq!((&second["done"], &second["skipped"], &second["failed"]), (&0.into(), &2.into(), &2.into()));
    assert_eq!(modified(&output.join("cat.png")), before);
}

#[test]
fn existing_results_are_replaced_by_force_and_where_the_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("coffee.png");
    let run = |output: &Path, arguments: &[&str]| {
        fs::write(&result, b"old").unwrap();
        let run = remove(&[&photo("coffee.jpg")], output, &[&["--set", "max_dim=64"], arguments].concat());
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        fs::read(&result).unwrap()
    };
    assert_eq!(run(folder.path(), &[]), b"old");
    assert!(is_png(&run(folder.path(), &["--force"])));
    // It may be the result of another picture.
    assert!(is_png(&run(&result, &[])));
    assert!(is_png(&run(folder.path(), &["--set", "edge=hard"])), "made with other parameters");
    assert_eq!(run(folder.path(), &["--set", "edge=hard"]), b"old", "taken for one of these parameters");
}

#[test]
fn a_background_and_a_size_choose_the_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let cut = |name: &str, arguments: &[&str]| decoded(&made(&folder.path().join(name), arguments));
    let square = cut("square.png", &["--background", "white", "--size", "96"]);
    assert_eq!((square.size(), &square.pixels()[..4]), (Size::new(96, 96), &[255; 4][..]));
    assert_eq!(square.pixels(), cut("same.png", &["--size", "96"]).pixels(), "white by default");
    let red = cut("red.png", &["--background", "red", "--set", "max_dim=100"]);
    assert_eq!((red.size().longest(), &red.pixels()[..4]), (100, &[255, 0, 0, 255][..]));
    let cat = photo("chelsea.png");
    let behind = cut("behind.png", &["--background", cat.to_str().unwrap(), "--set", "max_dim=100"]);
    assert!(behind.size().longest() == 100 && behind.pixels() != red.pixels());
    let both = backdrop().args(["remove", "a.jpg", "-o", "b.png", "--size", "9", "--endpoint", "remove"]).output();
    assert_eq!(both.unwrap().status.code(), Some(2));
}

#[test]
fn what_is_asked_in_the_wrong_place_says_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let output = backdrop().arg("remove").args(arguments).current_dir(folder.path()).output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        stderr(&output)
    };
    let coffee = photo("coffee.jpg");
    let coffee = coffee.to_str().unwrap();
    let message = refused(&[coffee, "-o", "a.png", "--set", "bg_color=white"]);
    assert!(message.contains("`/remove` has no `bg_color`; it is a field of /replace-bg, /studio-shot"), "{message}");
    let message = refused(&["http://example.org/a.jpg", "-o", "a.png"]);
    assert!(message.contains("only https addresses are fetched"), "{message}");
    let message = refused(&[coffee, coffee, "-o", "a.png"]);
    assert!(message.contains("a.png names one picture, but these inputs need a folder"), "{message}");
    let listed = backdrop().args(["fields", "studio-shot"]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.starts_with("bg_color: ") && listed.contains("; default #FFFFFF"), "{listed}");
    assert!(String::from_utf8_lossy(&backdrop().arg("fields").output().unwrap().stdout).contains("studio-shot"));
}

#[test]
fn each_mode_is_selected_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let cut = |name: &str, model: &[&str]| made(&folder.path().join(name), model);
    let standard = cut("a.png", &[]);
    assert!(cut("b.png", &["--model", "standard"]) == standard);
    let [quality, fast] = ["quality", "fast"].map(|mode| cut(&format!("{mode}.png"), &["--model", mode]));
    // The subject covers more than half of the photo.
    assert!(quality != standard && fast == standard);
}

#[test]
fn a_picture_is_piped_from_standard_input_to_standard_output() {
    let arguments = ["remove", "-", "-o", "-", "--endpoint", "mask", "--set", "max_dim=100"];
    let output = fed(backdrop().args(arguments), &fs::read(photo("coffee.jpg")).unwrap());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // 8-bit grey, the longer side at 100.
    assert_eq!(png_header(&output.stdout), (100, 67, 0));
}

/// What `remove <(cat photo.jpg)` of a shell gives.
#[cfg(unix)]
#[test]
fn a_pipe_that_is_named_is_one_picture() {
    let folder = tempfile::tempdir().unwrap();
    let [output, sheet] = ["cut.png", "sheet.png"].map(|name| folder.path().join(name));
    let mut remove = backdrop();
    remove.args(["remove", "/dev/stdin", "--set", "max_dim=64", "-o"]).arg(&output).arg("--contact-sheet").arg(&sheet);
    let run = fed(&mut remove, &fs::read(photo("coffee.jpg")).unwrap());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(is_png(&fs::read(&output).unwrap()));
    assert!(stderr(&run).contains("No contact sheet") && !sheet.exists(), "{}", stderr(&run));
}

#[test]
fn the_output_name_selects_the_format_and_set_takes_the_fields_of_the_api() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("cup.webp");
    let run = |arguments: &[&str]| remove(&[&photo("coffee.jpg")], &output, arguments);
    let wrong = run(&["--set", "egde=hard"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("unknown field `egde`"), "{}", stderr(&wrong));
    let wrong = run(&["--set", "format=png"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    assert!(!output.exists());
    assert_eq!(&made(&output, &["--set", "edge=hard", "--set", "quality=80"])[8..12], b"WEBP");
}

#[test]
fn a_pattern_without_matches_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = remove(&[&folder.path().join("*.jpg")], &folder.path().join("out"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("matches no file"), "{}", stderr(&output));
}

#[test]
fn the_contact_sheet_shows_every_picture() {
    let folder = tempfile::tempdir().unwrap();
    let sheet = folder.path().join("sheet.png");
    let (inputs, option) = ([photo("coffee.jpg"), photo("chelsea.png")], ["--contact-sheet", sheet.to_str().unwrap()]);
    let output = remove(&inputs.each_ref().map(PathBuf::as_path), &folder.path().join("out"), &option);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(png_header(&fs::read(&sheet).unwrap()), (12 + 3 * 412, 12 + 2 * 312, 2));
}

#[test]
fn a_contact_sheet_never_replaces_an_input_or_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let [input, output] = ["a.jpg", "out"].map(|name| folder.path().join(name));
    fs::copy(photo("coffee.jpg"), &input).unwrap();
    for sheet in [&input, &output.join("a.png")] {
        let run = remove(&[&input], &output, &["--contact-sheet", sheet.to_str().unwrap()]);
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        assert!(stderr(&run).contains("is an input or a result"), "{}", stderr(&run));
    }
    assert_eq!(fs::read(&input).unwrap(), fs::read(photo("coffee.jpg")).unwrap());
    assert!(!output.exists());
}

#[test]
fn a_contact_sheet_has_pictures_whose_names_are_not_text_and_names_those_it_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    #[cfg(unix)]
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"x\xff.png");
    #[cfg(not(unix))]
    let name = std::ffi::OsStr::new("x.png");
    let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
    for folder in [&input, &output] {
        fs::create_dir(folder).unwrap();
        fs::copy(photo("chelsea.png"), folder.join(name)).unwrap();
    }
    let sheet = folder.path().join("sheet.png");
    let run = || {
        let run = remove(&[&input], &output, &["--json", "--contact-sheet", sheet.to_str().unwrap()]);
        assert_eq!(json(&run)["skipped"], 1, "{}", stderr(&run));
        run
    };
    let drawn = run();
    assert_eq!(drawn.status.code(), Some(0), "{}", stderr(&drawn));
    assert!(is_png(&fs::read(&sheet).unwrap()));
    fs::write(output.join(name), b"no picture").unwrap();
    let failed = run();
    assert_eq!(failed.status.code(), Some(2));
    assert!(stderr(&failed).contains(&output.join(name).display().to_string()), "{}", stderr(&failed));
}

#[test]
fn where_all_inputs_fail_the_report_is_printed_without_a_contact_sheet() {
    let folder = tempfile::tempdir().unwrap();
    let [input, sheet] = ["broken.jpg", "sheet.png"].map(|name| folder.path().join(name));
    fs::write(&input, b"\xff\xd8\xff\xe0 not a picture").unwrap();
    let run = remove(&[&input], &folder.path().join("out"), &["--json", "--contact-sheet", sheet.to_str().unwrap()]);
    assert_eq!((run.status.code(), &json(&run)["failed"]), (Some(1), &1.into()), "{}", stderr(&run));
    assert!(!sheet.exists());
}

#[test]
fn the_subject_is_shown_by_a_box_and_by_a_mask_that_the_mask_endpoint_made() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, arguments: &[&str]| {
        let output = folder.path().join(name);
        (remove(&[&photo("coffee.jpg")], &output, arguments), output)
    };
    let mask = folder.path().join("mask.png");
    assert_eq!(png_header(&made(&mask, &["--endpoint", "mask", "--set", "stage=mask"])), (600, 400, 0));
    let mask = format!("mask_file={}", mask.display());
    made(&folder.path().join("cup.png"), &["--set", &mask, "--set", "mask_mode=replace"]);
    let area = ["--set", "box=25%,0,75%,100%", "--set", "point=300,100", "--set", "point=310,110"];
    made(&folder.path().join("box.png"), &area);
    let (outside, path) = run("outside.png", &["--set", "box=0,0,601,400"]);
    assert_eq!((outside.status.code(), path.exists()), (Some(1), false));
    assert!(stderr(&outside).contains("corners inside the picture of 600×400"), "{}", stderr(&outside));
    let (other, _) = run("upscaled.png", &["--endpoint", "upscale", "--set", &mask]);
    assert_eq!(other.status.code(), Some(2), "{}", stderr(&other));
    let bulk = backdrop().args(["bulk", "file:///nowhere", "file:///nowhere-else", "--set", &mask]).output().unwrap();
    assert_eq!(bulk.status.code(), Some(2));
    assert!(stderr(&bulk).contains("a mask applies to one picture"), "{}", stderr(&bulk));
}
