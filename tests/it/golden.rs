//! The golden set: small pictures with recorded masks, mattes and results, and the tolerances of each.
//!
//! `tests/golden/README.md` describes it. `golden::update`, run by `make golden-update` alone, records it anew.

mod compare;
mod set;
mod sheet;
mod stages;

use crate::support::isa;
use backdrop::image::{Buffer, Frame, Size};
use backdrop::matting::outline::Reference;
use backdrop::recipe::{ENDPOINTS, Input};
use backdrop_kernels::conv::Isa;
use compare::{Figures, Stage};
use serde::Deserialize;
use set::{CASES, Picture, pictures};
use stages::Stages;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal, Write as _};
use std::path::PathBuf;

/// The decoded pixels of a golden picture.
pub(crate) fn picture(name: &str) -> Frame {
    set::decoded(&set::file_of(name))
}

/// The most bytes of `tests/golden`.
const MOST_BYTES: u64 = 6_000_000;

/// On instruction sets other than the fastest one here, one of this number of expectations is compared.
const STRIDE: usize = 6;

/// One expectation: a stage of a picture.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Mask,
    Matte,
    Result(usize),
}

#[derive(Clone, Debug)]
struct Expectation {
    kind: Kind,
    picture: String,
}

impl Expectation {
    /// The folder and the file name, without an extension.
    fn name(&self) -> String {
        let stage = match self.kind {
            Kind::Mask => "mask-of-network".to_owned(),
            Kind::Matte => "matte".to_owned(),
            Kind::Result(case) => CASES[case].stage(),
        };
        format!("{stage}/{}", set::stem(&self.picture))
    }

    const fn stage(&self) -> Stage {
        match self.kind {
            Kind::Mask => Stage::Mask,
            Kind::Matte => Stage::Matte,
            Kind::Result(_) => Stage::Result,
        }
    }

    fn computed(&self, stages: &mut Stages) -> Frame {
        match self.kind {
            Kind::Mask => stages.mask(&self.picture),
            Kind::Matte => stages.matte(&self.picture),
            Kind::Result(case) => stages.result(&CASES[case], &self.picture),
        }
    }

    /// The recorded picture: grey ones are PNGs, others lossless WebPs.
    fn recorded(&self) -> Option<Frame> {
        let file = |extension| set::folder().join("expected").join(format!("{}.{extension}", self.name()));
        ["png", "webp"].into_iter().find_map(|extension| set::read(&file(extension)))
    }
}

fn masks() -> Vec<Expectation> {
    pictures().into_iter().map(|picture| Expectation { kind: Kind::Mask, picture: picture.name }).collect()
}

fn mattes() -> Vec<Expectation> {
    pictures().into_iter().map(|picture| Expectation { kind: Kind::Matte, picture: picture.name }).collect()
}

fn results() -> Vec<Expectation> {
    let of = |(index, case): (usize, &set::Case)| {
        let expectation = move |name: &&str| Expectation { kind: Kind::Result(index), picture: (*name).to_owned() };
        case.pictures.iter().map(expectation).collect::<Vec<_>>()
    };
    CASES.iter().enumerate().flat_map(of).collect()
}

/// The failure of an expectation, with its figures and the path of a comparison sheet.
fn failure(expectation: &Expectation, after: Frame, device: &str) -> Option<String> {
    let name = expectation.name();
    let Some(before) = expectation.recorded() else {
        return Some(format!("{name}: nothing is recorded; `make golden-update` records it"));
    };
    let figures = Figures::of(&before, &after);
    if figures.is_some_and(|figures| figures.hold(expectation.stage())) {
        return None;
    }
    let figures = figures.map_or(format!("{} instead of {}", after.size(), before.size()), |it| it.to_string());
    let sheet = sheet::write(&format!("failed/{name}.{device}"), &[(before, after)], 1);
    Some(format!("{name} on {device}: {figures}; before, after, difference: {}", sheet.display()))
}

fn failures(expectations: &[Expectation], isa: Isa) -> Vec<String> {
    let mut stages = Stages::on(isa);
    let mut largest = Figures::default();
    let mut failed = |it: &Expectation| {
        let after = it.computed(&mut stages);
        let figures = it.recorded().and_then(|before| Figures::of(&before, &after));
        largest = figures.map_or(largest, |figures| largest.worst(&figures));
        failure(it, after, &isa.to_string())
    };
    let failed = expectations.iter().filter_map(&mut failed).collect();
    eprintln!("{isa}: at most {largest}");
    failed
}

#[track_caller]
fn assert_none(failures: &[String], of: usize) {
    let failed = failures.len();
    let failures = failures.join("\n");
    assert!(
        failed == 0,
        "{failed} of {of} differ from the golden set:\n{failures}\nIf this is intended: make golden-update"
    );
}

/// Checks all `expectations` on the fastest instruction set, and some on the others.
#[track_caller]
fn assert_hold(expectations: &[Expectation]) {
    let mut failed = failures(expectations, Isa::detect());
    let some: Vec<_> = expectations.iter().step_by(STRIDE).cloned().collect();
    for isa in isa::available().filter(|isa| *isa != Isa::detect()) {
        failed.extend(failures(&some, isa));
    }
    assert_none(&failed, expectations.len());
}

#[test]
fn masks_agree_with_the_golden_set_on_every_instruction_set() {
    assert_hold(&masks());
}

#[test]
fn mattes_agree_with_the_golden_set_on_every_instruction_set() {
    assert_hold(&mattes());
}

#[test]
fn results_of_every_endpoint_agree_with_the_golden_set_on_every_instruction_set() {
    assert_hold(&results());
}

/// Not on lavapipe, which takes minutes for the network at its full side; `model::gpu` tests lavapipe at a smaller side.
#[cfg(feature = "gpu")]
#[test]
fn masks_of_a_gpu_agree_with_the_golden_set() {
    use backdrop::model::GpuSegmenter;
    use backdrop::model::device::AdapterKind;
    use backdrop::model::weights::Weights;

    let Some(adapter) = crate::model::gpu::adapter() else { return };
    if adapter.kind == AdapterKind::Software {
        crate::support::skipped::notice("no graphics card, the golden masks were NOT compared on one");
        return;
    }
    let mut network = GpuSegmenter::start(&adapter, &Weights::embedded(), 1).expect("the adapter passes its own test");
    let masks = masks();
    let failed = |it: &Expectation| failure(it, stages::mask_of(&mut network, &it.picture), "GPU");
    assert_none(&masks.iter().filter_map(failed).collect::<Vec<_>>(), masks.len());
}

/// The matte of a drawn picture compared with its exact alpha: mean absolute error, and the raggedness of both outlines.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Errors {
    mae: f64,
    raggedness: f64,
    of_truth: f64,
}

/// The errors of the recorded mattes of drawn pictures.
fn errors_against_truth() -> BTreeMap<String, Errors> {
    let of = |picture: &Picture| {
        let (truth, matte) = (set::truth_of(&picture.name)?, recorded_matte(picture)?);
        let figures = Figures::of(&truth, &matte).unwrap_or_else(|| panic!("{}: another size", picture.name));
        let coverage = |frame: &Frame| frame.pixels().chunks_exact(4).map(|pixel| pixel[0]).collect::<Vec<u8>>();
        let width = truth.size().width as usize;
        let (truth, matte) = (coverage(&truth), coverage(&matte));
        let reference = Reference::of(&truth, width);
        let raggedness = |matte: &[u8]| reference.measure(matte).raggedness.unwrap_or_default();
        let errors = Errors { mae: figures.mean, raggedness: raggedness(&matte), of_truth: raggedness(&truth) };
        Some((picture.name.clone(), errors))
    };
    pictures().iter().filter_map(of).collect()
}

fn recorded_matte(picture: &Picture) -> Option<Frame> {
    let expectation = Expectation { kind: Kind::Matte, picture: picture.name.clone() };
    expectation.recorded()
}

fn truth_errors_file() -> PathBuf {
    set::folder().join("truth/errors.toml")
}

/// An update that makes a recorded matte worse shows as a number in the diff of `errors.toml`. Computed mattes are compared with
/// the recorded ones by `mattes_agree_with_the_golden_set_on_every_instruction_set`.
#[test]
fn errors_of_recorded_mattes_against_the_exact_alpha_are_those_on_record() {
    let text = fs::read_to_string(truth_errors_file()).expect("make golden-update writes it");
    let on_record: BTreeMap<String, Errors> = toml::from_str(&text).expect("a table of errors");
    let errors = errors_against_truth();
    assert!(errors.len() >= 25, "only {} pictures with exact alpha", errors.len());
    for (name, errors) in &errors {
        let expected = on_record.get(name).unwrap_or_else(|| panic!("{name}: no errors are on record"));
        let differs = |pick: fn(&Errors) -> f64| (pick(errors) - pick(expected)).abs() >= 1e-4;
        let differ = differs(|it| it.mae) || differs(|it| it.raggedness) || differs(|it| it.of_truth);
        assert!(!differ, "{name}: {errors:?} against the exact alpha, {expected:?} on record");
    }
    let mean = |pick: fn(&Errors) -> f64| errors.values().map(pick).sum::<f64>() / errors.len() as f64;
    let [mae, raggedness, of_truth] = [mean(|it| it.mae), mean(|it| it.raggedness), mean(|it| it.of_truth)];
    eprintln!(
        "{} pictures: mean absolute error {mae:.5}, raggedness {raggedness:.4}, of the exact alpha {of_truth:.4}",
        errors.len()
    );
}

#[test]
fn the_golden_set_covers_every_category_and_endpoint_and_is_small() {
    let all = set::all_pictures();
    let categories: BTreeSet<_> = all.iter().map(|picture| picture.category.as_str()).collect();
    let wanted = [
        "format",
        "fur",
        "glass",
        "goods",
        "grey",
        "hair",
        "line",
        "none",
        "orientation",
        "portrait",
        "scene",
        "several",
        "shadow",
        "thin",
        "transparent",
        "white",
    ];
    assert_eq!(categories.into_iter().collect::<Vec<_>>(), wanted);
    assert!(all.iter().all(|picture| !picture.origin.is_empty() && !picture.licence.is_empty()));

    let listed: BTreeSet<_> = all.iter().map(|picture| picture.name.clone()).collect();
    let files = fs::read_dir(set::folder().join("pictures")).expect("a folder");
    let files: BTreeSet<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(listed, files, "the manifest and the folder");

    let used: BTreeSet<_> = CASES.iter().map(|case| case.endpoint).collect();
    let single = ENDPOINTS.iter().filter(|endpoint| matches!(endpoint.input, Input::File | Input::FileAndBackground));
    for endpoint in single {
        assert!(used.contains(endpoint.name), "{} is not in the golden set", endpoint.path);
    }
    for name in CASES.iter().flat_map(|case| case.pictures.iter().copied().chain(case.background)) {
        assert!(listed.contains(name), "{name} is not in the manifest");
    }
    let bytes = size_of_folder(&set::folder());
    assert!(bytes <= MOST_BYTES, "tests/golden holds {bytes} bytes of at most {MOST_BYTES}");
}

fn size_of_folder(folder: &std::path::Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable"));
    let size = |entry: fs::DirEntry| {
        let kind = entry.metadata().expect("readable");
        if kind.is_dir() { size_of_folder(&entry.path()) } else { kind.len() }
    };
    entries.map(size).sum()
}

/// A frame like `frame` with these pixels.
fn changed(frame: &Frame, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Frame {
    let Size { width, height } = frame.size();
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| pixel(x, y));
    Frame::new(frame.size(), Buffer::from(pixels.collect::<Vec<u8>>()))
}

/// Shifted to the right by a pixel.
fn shifted(frame: &Frame) -> Frame {
    changed(frame, |x, y| frame.pixel(x.saturating_sub(1), y))
}

/// With a hole of 10 × 10 pixels in the subject.
fn pierced(frame: &Frame, subject: impl Fn([u8; 4]) -> bool, nothing: [u8; 4]) -> Frame {
    let Size { width, height } = frame.size();
    let whole = |x: u32, y: u32| (x..x + 10).all(|x| (y..y + 10).all(|y| subject(frame.pixel(x, y))));
    let places = (0..height - 10).flat_map(|y| (0..width - 10).map(move |x| (x, y)));
    let (left, top) = places.into_iter().find(|&(x, y)| whole(x, y)).expect("a subject of 10 pixels");
    let inside = |x: u32, y: u32| (left..left + 10).contains(&x) && (top..top + 10).contains(&y);
    changed(frame, |x, y| if inside(x, y) { nothing } else { frame.pixel(x, y) })
}

/// Dilated: each pixel is the brightest of its neighbourhood.
fn haloed(frame: &Frame) -> Frame {
    let Size { width, height } = frame.size();
    let around = |at: u32, side: u32| at.saturating_sub(1)..(at + 2).min(side);
    changed(frame, |x, y| {
        let near = around(y, height).flat_map(|y| around(x, width).map(move |x| (x, y)));
        near.map(|(x, y)| frame.pixel(x, y)).max_by_key(|pixel| (pixel[3], pixel[0])).expect("itself")
    })
}

#[test]
fn the_comparison_detects_a_shift_by_a_pixel_a_hole_and_a_halo_in_every_stage() {
    let names = ["goods-shoe.jpg", "goods-camera.jpg", "thin-chair.jpg", "several-fruit.jpg", "hair-curls.jpg"];
    let detected = |before: &Frame, after: &Frame, stage: Stage| !Figures::of(before, after).unwrap().hold(stage);
    for name in names {
        for (kind, stage) in [(Kind::Mask, Stage::Mask), (Kind::Matte, Stage::Matte)] {
            let expectation = Expectation { kind, picture: name.to_owned() };
            let before = expectation.recorded().expect("on record");
            assert!(!detected(&before, &before, stage), "{name}: equal pictures differ");
            assert!(detected(&before, &shifted(&before), stage), "{name}, {stage:?}: a shift was not detected");
            assert!(detected(&before, &haloed(&before), stage), "{name}, {stage:?}: a halo was not detected");
            if stage == Stage::Matte && !name.starts_with("thin") {
                let hole = pierced(&before, |pixel| pixel[0] == 255, [0, 0, 0, 255]);
                assert!(detected(&before, &hole, stage), "{name}: a hole was not detected");
            }
        }
    }
    let cutouts = results();
    let cutouts = cutouts.iter().filter(|it| it.name().starts_with("remove/") && !it.picture.starts_with("thin"));
    for expectation in cutouts {
        let before = expectation.recorded().expect("on record");
        let name = expectation.name();
        assert!(detected(&before, &shifted(&before), Stage::Result), "{name}: a shift was not detected");
        assert!(detected(&before, &haloed(&before), Stage::Result), "{name}: a halo was not detected");
        let hole = pierced(&before, |pixel| pixel[3] == 255, [0; 4]);
        assert!(detected(&before, &hole, Stage::Result), "{name}: a hole was not detected");
        let darker = changed(&before, |x, y| before.pixel(x, y).map(|value| value.saturating_sub(4)));
        assert!(detected(&before, &darker, Stage::Result), "{name}: another brightness was not detected");
    }
    let small = Frame::new(Size::new(1, 1), Buffer::from(vec![0; 4]));
    let large = Frame::new(Size::new(1, 2), Buffer::from(vec![0; 8]));
    assert_eq!(Figures::of(&small, &large), None);
}

/// Shows the changes and records the current results: `make golden-update`.
///
/// On a terminal it waits for a `y`; elsewhere nothing is written unless `UPDATE_GOLDEN=1`.
#[test]
#[ignore = "rewrites tests/golden/expected; run by make golden-update"]
fn update() {
    let mut stages = Stages::on(Isa::detect());
    let expectations = [masks(), mattes(), results()].concat();
    let (mut pairs, mut writes, mut table, mut kept) = (Vec::new(), Vec::new(), String::new(), BTreeSet::new());
    for expectation in &expectations {
        let after = expectation.computed(&mut stages);
        let name = expectation.name();
        let recorded = expectation.recorded();
        kept.insert(name.clone());
        let is_new = recorded.is_none();
        let before = match recorded {
            Some(before) if before.pixels() == after.pixels() => continue,
            Some(before) => before,
            None => Frame::new(after.size(), Buffer::from(vec![0; after.size().area() * 4])),
        };
        let figures = Figures::of(&before, &after);
        let holds = figures.is_some_and(|figures| figures.hold(expectation.stage()));
        let figures = figures.map_or(format!("{} → {}", before.size(), after.size()), |it| it.to_string());
        let verdict = match (is_new, holds) {
            (true, _) => "new",
            (false, true) => "within bounds",
            (false, false) => "CHANGED",
        };
        writeln!(table, "{:>4}  {name:<58} {verdict:<13} {figures}", pairs.len() + 1).expect("text grows");
        writes.push((name, set::encoded(&after)));
        pairs.push((before, after));
    }
    let stale = stale_files(&kept);
    if pairs.is_empty() && stale.is_empty() && truth_errors_file().exists() {
        println!("The golden set is up to date: {} expectations.", expectations.len());
        return;
    }
    let sheet = sheet::write("contact-sheet", &pairs, 2);
    println!("\n{table}\n{} of {} changed, {} no longer needed", pairs.len(), expectations.len(), stale.len());
    println!("Before, after, difference, numbered from left to right: {}", sheet.display());
    if !confirmed() {
        println!("Nothing was written.");
        return;
    }
    stale.iter().for_each(|path| fs::remove_file(path).expect("it was there"));
    for (name, bytes) in writes {
        let path = set::folder().join("expected").join(&name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the tree is writable");
        for extension in ["png", "webp"] {
            let path = path.with_file_name(format!("{}.{extension}", path.file_name().unwrap().to_string_lossy()));
            let _ = fs::remove_file(&path);
            let is_png = bytes.starts_with(b"\x89PNG");
            if is_png == (extension == "png") {
                fs::write(path, &bytes).expect("the tree is writable");
            }
        }
    }
    let mut text = "# The recorded mattes beside the exact alpha of drawn pictures: mean absolute error (0 to 1), raggedness of both \
                    (`backdrop::matting::outline`).\n"
        .to_owned();
    for (name, Errors { mae, raggedness, of_truth }) in errors_against_truth() {
        writeln!(text, "\"{name}\" = {{ mae = {mae:.5}, raggedness = {raggedness:.4}, of_truth = {of_truth:.4} }}")
            .expect("text grows");
    }
    fs::write(truth_errors_file(), text).expect("the tree is writable");
    println!("Written.");
}

fn confirmed() -> bool {
    #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
    if std::env::var("UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        return true;
    }
    if !io::stdin().is_terminal() {
        println!("Not a terminal; UPDATE_GOLDEN=1 writes without confirmation.");
        return false;
    }
    print!("Overwrite tests/golden/expected? [y/N] ");
    io::stdout().flush().expect("standard output");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).expect("standard input");
    answer.trim().eq_ignore_ascii_case("y")
}

/// Files without an expectation.
fn stale_files(kept: &BTreeSet<String>) -> Vec<PathBuf> {
    let expected = set::folder().join("expected");
    let Ok(folders) = fs::read_dir(&expected) else { return Vec::new() };
    let folders = folders.map(|folder| folder.expect("readable").path()).filter(|path| path.is_dir());
    let files =
        folders.flat_map(|folder| fs::read_dir(folder).expect("readable")).map(|file| file.expect("readable").path());
    // A build without HEIC cannot record those pictures and keeps their files.
    let is_kept = |path: &PathBuf| {
        let name = path.strip_prefix(&expected).expect("below it").with_extension("");
        kept.contains(&*name.to_string_lossy())
            || (cfg!(not(feature = "heic")) && name.to_string_lossy().contains("heic"))
    };
    files.filter(|path| !is_kept(path)).collect()
}
