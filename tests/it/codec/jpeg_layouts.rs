//! JPEG layouts compared with libjpeg-turbo: sampling factors, scans, restart intervals, progression, markers, sizes. `cjpeg` writes
//! the files and `djpeg` reads them.

use backdrop::codec::{self, Flaw, Limits};
use backdrop::image::BufferPool;
use std::io::Write;
use std::process::{Command, Stdio};

/// Largest difference of a sample: of two implementations of the cosine transform and of upsampling.
const MOST: u8 = 12;
/// Largest mean difference.
const MOST_ON_AVERAGE: f64 = 0.6;

/// A disc of (200, 60, 40) before a sloped (200, 212, 225), as a PPM file.
fn ppm(width: u32, height: u32) -> Vec<u8> {
    let pixel = |x: u32, y: u32| {
        let distance = (f64::from(x) - f64::from(width) * 0.45).hypot(f64::from(y) - f64::from(height) / 2.0);
        let inside = (f64::from(height) * 0.3 - distance + 4.0).clamp(0.0, 8.0) / 8.0;
        let slope = f64::from(x + y) / f64::from(width + height) * 40.0 - 20.0;
        [(200.0, 200.0), (60.0, 212.0), (40.0, 225.0)]
            .map(|(subject, behind)| (subject * inside + (behind + slope) * (1.0 - inside)).clamp(0.0, 255.0) as u8)
    };
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y)));
    format!("P6 {width} {height} 255\n").into_bytes().into_iter().chain(pixels).collect()
}

/// The output of a program of libjpeg-turbo; `None` when it refuses, for example an interleaved scan of more than ten blocks.
fn run(program: &str, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} of libjpeg-turbo-progs: {error}"));
    let (mut stdin, input) = (child.stdin.take().expect("piped"), input.to_vec());
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("its end");
    let _ = writer.join();
    output.status.success().then_some(output.stdout)
}

/// The RGB samples of a file, decoded by libjpeg-turbo.
fn reference(jpeg: &[u8]) -> Vec<u8> {
    let ppm = run("djpeg", &["-rgb", "-pnm"], jpeg).expect("a file of cjpeg");
    let head = ppm.iter().enumerate().filter(|(_, byte)| byte.is_ascii_whitespace()).nth(3).expect("a head").0;
    ppm[head + 1..].to_vec()
}

/// The RGB samples of a file, decoded by `codec`.
fn ours(jpeg: &[u8]) -> Result<Vec<u8>, String> {
    let header = codec::probe(jpeg, &Limits::default()).map_err(|error| error.to_string())?;
    let frame = codec::decode(jpeg, &header, &BufferPool::new(0)).map_err(|error| error.to_string())?;
    assert!(frame.pixels().chunks_exact(4).all(|pixel| pixel[3] == 255));
    Ok(frame.pixels().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect())
}

/// Marker, start and end of each segment of a file up to the first scan.
fn segments(jpeg: &[u8]) -> Vec<(u8, usize, usize)> {
    let (mut at, mut found) = (2, Vec::new());
    while jpeg[at + 1] != 0xda {
        let end = at + 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        found.push((jpeg[at + 1], at, end));
        at = end;
    }
    found
}

/// `jpeg` without the segments of this marker before the first scan.
fn without(jpeg: &[u8], marker: u8) -> Vec<u8> {
    let mut left = jpeg.to_vec();
    for (found, start, end) in segments(jpeg).into_iter().rev() {
        if found == marker {
            left.drain(start..end);
        }
    }
    left
}

/// `jpeg` with Adobe's marker after the JFIF segment.
fn with_adobe(jpeg: &[u8], transform: u8) -> Vec<u8> {
    let at = segments(jpeg)[0].2;
    let marker = [b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0".as_slice(), &[transform]].concat();
    [&jpeg[..at], &marker, &jpeg[at..]].concat()
}

#[derive(Default)]
struct Differences {
    compared: usize,
    failed: Vec<String>,
}

impl Differences {
    fn compare(&mut self, what: &str, jpeg: &[u8], expected: &[u8]) {
        self.compared += 1;
        let actual = match ours(jpeg) {
            Ok(actual) => actual,
            Err(error) => return self.failed.push(format!("{what}: {error}")),
        };
        assert_eq!(actual.len(), expected.len(), "{what}");
        let differences = || actual.iter().zip(expected).map(|(a, b)| a.abs_diff(*b));
        let most = differences().max().unwrap_or(0);
        let mean = differences().map(f64::from).sum::<f64>() / actual.len() as f64;
        if most > MOST || mean > MOST_ON_AVERAGE {
            self.failed.push(format!("{what}: at most {most}, on average {mean:.2}"));
        }
    }
}

/// Factors of sampling, luma first.
const SAMPLINGS: [&str; 17] = [
    "1x1,1x1,1x1",
    "2x1,1x1,1x1",
    "1x2,1x1,1x1",
    "2x2,1x1,1x1",
    "4x1,1x1,1x1",
    "1x4,1x1,1x1",
    "4x2,1x1,1x1",
    "3x1,1x1,1x1",
    "1x3,1x1,1x1",
    "3x2,1x1,1x1",
    "2x2,2x2,2x2",
    "1x1,2x2,2x2",
    "2x1,1x2,1x1",
    "2x2,2x1,1x2",
    "2x2,1x2,2x1",
    "1x1,2x1,2x1",
    "2x1,2x1,2x1",
];

/// The positions of the restart markers of a file.
fn restarts(jpeg: &[u8]) -> Vec<usize> {
    let is_restart = |at: &usize| jpeg[*at] == 0xff && matches!(jpeg[at + 1], 0xd0..=0xd7);
    (0..jpeg.len() - 1).filter(is_restart).collect()
}

fn flaw(jpeg: &[u8]) -> Option<Flaw> {
    codec::probe(jpeg, &Limits::default()).expect("a header").flaw
}

#[test]
fn whole_pixels_without_an_end_marker_are_taken_and_cut_ones_refused() {
    let source = ppm(150, 118);
    for arguments in [
        &["-sample", "2x2"][..],
        &["-sample", "1x1"],
        &["-grayscale"],
        &["-progressive"],
        &["-sample", "4x1"],
        &["-restart", "1"],
    ] {
        let jpeg = run("cjpeg", arguments, &source).expect("a file");
        let expected = ours(&jpeg).expect("pixels");
        assert_eq!(flaw(&jpeg), None, "{arguments:?}");
        let end = jpeg.len() - 2;
        for kept in [end, end + 1] {
            assert_eq!(flaw(&jpeg[..kept]), Some(Flaw::NoEndMarker), "{arguments:?}");
            assert!(
                ours(&jpeg[..kept]).is_ok_and(|pixels| pixels == expected),
                "{arguments:?} without {} bytes",
                jpeg.len() - kept
            );
        }
        for missing in 1..60 {
            assert!(ours(&jpeg[..end - missing]).is_err(), "{arguments:?} without {missing} bytes of its data");
        }
    }
}

#[test]
fn lost_restart_markers_are_put_back() {
    let source = ppm(150, 118);
    for arguments in [&["-sample", "2x2"][..], &["-sample", "1x1"], &["-grayscale"], &["-sample", "4x1"]] {
        for interval in ["1", "3B", "1B"] {
            let jpeg = run("cjpeg", &[arguments, &["-restart", interval]].concat(), &source).expect("a file");
            let expected = ours(&jpeg).expect("pixels");
            let markers = restarts(&jpeg);
            for lost in [&markers[..1], &markers[markers.len() - 1..], &markers[2..4], &markers[..]] {
                let kept = (0..jpeg.len()).filter(|at| !lost.iter().any(|marker| (*marker..marker + 2).contains(at)));
                let damaged: Vec<u8> = kept.map(|at| jpeg[at]).collect();
                assert_eq!(flaw(&damaged), Some(Flaw::LostRestartMarkers), "{arguments:?} {interval}");
                let actual = ours(&damaged);
                assert!(
                    actual.is_ok_and(|pixels| pixels == expected),
                    "{arguments:?} {interval}: {} markers",
                    lost.len()
                );
            }
        }
    }
}

#[test]
fn a_progressive_scan_that_has_lost_restart_markers_is_refused() {
    let jpeg = run("cjpeg", &["-progressive", "-restart", "3B"], &ppm(150, 118)).expect("a file");
    let markers = restarts(&jpeg);
    for at in [markers[1], markers[markers.len() / 2], markers[markers.len() - 1]] {
        let damaged = [&jpeg[..at], &jpeg[at + 2..]].concat();
        let error = ours(&damaged).expect_err("the coefficients of an interval are another's");
        assert!(error.contains("a progressive scan has lost restart markers"), "{error}");
    }
}

#[test]
fn every_layout_that_libjpeg_turbo_writes_is_decoded_as_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let scans = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it is writable");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (each, pair) = (scans("each", "0; 1; 2;"), scans("pair", "0; 1 2;"));
    let progressive = scans(
        "progressive",
        "0 1 2: 0-0, 0, 1; 0: 1-5, 0, 2; 2: 1-63, 0, 1; 1: 1-63, 0, 1; 0: 6-63, 0, 2; 0: 1-63, 2, 1; 0 1 2: 0-0, 1, 0; 2: 1-63, 1, 0; 1: 1-63, 1, 0; 0: 1-63, 1, 0;",
    );
    let orders: [&[&str]; 5] =
        [&[], &["-scans", &each], &["-scans", &pair], &["-progressive"], &["-scans", &progressive]];
    let restarts: [&[&str]; 3] = [&[], &["-restart", "1B"], &["-restart", "1"]];
    let mut found = Differences::default();
    for (width, height) in [(150, 118), (33, 17), (16, 16), (1, 1), (7, 40)] {
        let source = ppm(width, height);
        for sampling in SAMPLINGS {
            for order in orders {
                for restart in restarts {
                    let arguments = [&["-quality", "92", "-sample", sampling], order, restart].concat();
                    let what = format!("{width}x{height} {} {}", sampling, [order, restart].concat().join(" "));
                    let Some(jpeg) = run("cjpeg", &arguments, &source) else { continue };
                    let expected = reference(&jpeg);
                    found.compare(&what, &jpeg, &expected);
                    if restart.is_empty() && width == 150 {
                        found.compare(&format!("{what}, no JFIF"), &without(&jpeg, 0xe0), &expected);
                        for transform in [0, 1] {
                            let what = format!("{what}, JFIF and Adobe {transform}");
                            found.compare(&what, &with_adobe(&jpeg, transform), &expected);
                        }
                    }
                    if order.is_empty() && width == 150 {
                        found.compare(&format!("{what}, no tables"), &without(&jpeg, 0xc4), &expected);
                    }
                }
            }
        }
        for arguments in [&["-grayscale"][..], &["-grayscale", "-progressive"], &["-rgb"], &["-rgb", "-scans", &each]] {
            let jpeg = run("cjpeg", arguments, &source).expect("a file");
            found.compare(&format!("{width}x{height} {arguments:?}"), &jpeg, &reference(&jpeg));
        }
        let grey = run("cjpeg", &["-grayscale", "-sample", "2x2"], &source).expect("a file");
        found.compare("grey of 2x2", &grey, &reference(&grey));
    }
    let Differences { compared, failed } = found;
    assert!(failed.is_empty(), "{} of {compared}:\n{}", failed.len(), failed.join("\n"));
    assert!(compared > 1000, "only {compared}");
}
