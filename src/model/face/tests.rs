//! Tests of face detection: the mapping to picture pixels, and the network against PyTorch.

use backdrop_kernels::conv::Isa;
use backdrop_kernels::model_input::cpu::{Target, stretched};

use super::detector::BACKGROUND;
use super::*;
use crate::image::tests::{drawn, noise, on_any_number_of_threads};
use crate::image::{Buffer, Rect, Size};
use crate::model::weights::architecture::face::{CELL, STRIDES};
use crate::model::weights::{BuiltIn, Weights};

/// Detects one face: in a picture and in a crop, in the given cells of the finest grid. Records its inputs.
struct FakeDetector {
    cell: [usize; 2],
    cell_in_crop: [usize; 2],
    inputs: std::sync::Mutex<Vec<([usize; 2], Vec<f32>)>>,
}

impl FaceDetector for FakeDetector {
    fn threshold(&self) -> f32 {
        0.5
    }

    fn cells(
        &self,
        [width, height]: [usize; 2],
        fill: &dyn Fn(&mut [f32], usize),
    ) -> Result<[Vec<[f32; CELL]>; 3], SegmentError> {
        let mut input = vec![0.0; width * height * 3];
        fill(&mut input, 0);
        self.inputs.lock().expect("no test panics in here").push(([width, height], input));
        let nothing = |stride: usize| vec![[-9.0; CELL]; (width / stride) * (height / stride)];
        let mut cells = STRIDES.map(nothing);
        let ([x, y], strides) = if [width, height] == [160; 2] { (self.cell_in_crop, 5_f32) } else { (self.cell, 2.0) };
        let mut face = [0.0; CELL];
        face[0] = 3.0;
        face[1..5].fill(strides.ln());
        cells[0][y * (width / 8) + x] = face;
        Ok(cells)
    }
}

impl FakeDetector {
    fn at(x: usize, y: usize) -> Self {
        Self { cell: [x, y], cell_in_crop: [9, 9], inputs: std::sync::Mutex::default() }
    }
}

#[test]
fn detections_are_mapped_to_pixels_of_the_picture() {
    // At half size, 320×160, the cell (4, 3) is around (36, 28), and the face extends by 16 to each side: in the
    // picture from (40, 24) to (104, 88). The crop begins at (8, -8), is 128 wide and resampled to 160. Its middle cell
    // is around (76, 76), and the face there extends by 40.
    let detector = FakeDetector::at(4, 3);
    let faces = detect(&drawn(640, 320, |_, _| [9, 9, 9, 255]), &detector, FaceSearch::All).expect("a face");
    let [face] = faces[..] else { panic!("{faces:?}") };
    let close = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-3, "{found}, not {expected}");
    for (found, expected) in [face.left, face.top, face.right, face.bottom].into_iter().zip([36.8, 20.8, 100.8, 84.8]) {
        close(found, expected);
    }
    close(face.landmarks[2][0], 68.8);
    close(face.landmarks[2][1], 52.8);
    let inputs = detector.inputs.into_inner().expect("no test panics in there");
    assert_eq!(inputs.iter().map(|(extent, _)| *extent).collect::<Vec<_>>(), [[320, 160], [160, 160]]);
    let above = &inputs[1].1[..3];
    assert!(above.iter().all(|value| value.abs() < 0.01), "above the picture there is grey, not {above:?}");
}

#[test]
fn a_candidate_that_is_not_detected_in_its_crop_is_no_face() {
    let elsewhere = FakeDetector { cell_in_crop: [1, 9], ..FakeDetector::at(4, 3) };
    let picture = drawn(640, 320, |_, _| [9, 9, 9, 255]);
    let faces = detect(&picture, &elsewhere, FaceSearch::All).expect("the detector does not fail");
    assert_eq!(faces, []);
}

#[test]
fn the_input_is_the_undistorted_picture_in_the_upper_left_with_grey_around_it() {
    let detector = FakeDetector::at(0, 0);
    let picture = drawn(400, 250, |x, _| if x < 200 { [255, 0, 0, 255] } else { [255, 255, 255, 0] });
    detect(&picture, &detector, FaceSearch::All).expect("a face");
    let inputs = detector.inputs.into_inner().expect("no test panics in there");
    let ([width, height], input) = &inputs[0];
    assert_eq!([*width, *height], [320, 224], "200 rows, and up to a multiple of 32");
    let pixel = |x: usize, y: usize| &input[(y * width + x) * 3..][..3];
    assert_eq!(pixel(10, 10), [1.0, -1.0, -1.0]);
    assert!(pixel(300, 10).iter().all(|value| value.abs() < 0.01), "not grey: {:?}", pixel(300, 10));
    assert_eq!(pixel(10, 199), [1.0, -1.0, -1.0]);
    assert_eq!(pixel(10, 200), [0.0; 3]);
}

#[test]
fn candidates_up_to_the_limit_are_refined() {
    let picture = drawn(1000, 1000, |_, _| [9, 9, 9, 255]);
    let candidates: Vec<Face> = (0..100_u8)
        .map(|at| {
            let (left, top) = (f32::from(at % 10) * 100.0, f32::from(at / 10) * 100.0);
            Face { left, top, right: left + 40.0, bottom: top + 40.0, landmarks: [[left, top]; 5], score: 0.6 }
        })
        .collect();
    for most in [FaceSearch::Large, FaceSearch::All].map(FaceSearch::most_candidates) {
        let detector = FakeDetector::at(0, 0);
        let faces = refine(&picture, &detector, &candidates, most).expect("the detector does not fail");
        assert_eq!(faces.len(), most, "each of them is detected again");
    }
    assert_eq!(FaceSearch::All.most_candidates(), 64);
}

/// Detects the coloured rectangles of a grey picture, one of each colour, with a longer side of at least
/// [`Self::LEAST`] pixels of the input. Counts its passes.
#[derive(Default)]
struct RectangleDetector(std::sync::atomic::AtomicUsize);

impl RectangleDetector {
    const LEAST: usize = 12;
}

impl FaceDetector for RectangleDetector {
    fn threshold(&self) -> f32 {
        0.5
    }

    fn cells(
        &self,
        [width, height]: [usize; 2],
        fill: &dyn Fn(&mut [f32], usize),
    ) -> Result<[Vec<[f32; CELL]>; 3], SegmentError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut input = vec![0.0; width * height * 3];
        fill(&mut input, 0);
        let mut cells = STRIDES.map(|stride| vec![[-9.0; CELL]; (width / stride) * (height / stride)]);
        for channel in 0..3 {
            let is_coloured = |pixel: &[f32; 3]| {
                pixel.iter().enumerate().all(|(at, value)| if at == channel { *value > 0.5 } else { *value < -0.5 })
            };
            let pixels = input.as_chunks::<3>().0.iter().enumerate().filter(|&(_, pixel)| is_coloured(pixel));
            let places: Vec<[usize; 2]> = pixels.map(|(at, _)| [at % width, at / width]).collect();
            let [(left, right), (top, bottom)] = [0, 1].map(|axis| {
                let places = places.iter().map(|place| place[axis]);
                (places.clone().min().unwrap_or(0), places.max().map_or(0, |last| last + 1))
            });
            if (right - left).max(bottom - top) < Self::LEAST {
                continue;
            }
            let [x, y] = [(left + right) / 16, (top + bottom) / 16];
            let distance = |from: usize, to: usize| ((to as f32 - from as f32) / 8.0).max(0.1).ln();
            let mut face = [0.0; CELL];
            face[0] = 3.0;
            let (middle, centre) = (8 * x + 4, 8 * y + 4);
            face[1..5].copy_from_slice(&[
                distance(left, middle),
                distance(top, centre),
                distance(middle, right),
                distance(centre, bottom),
            ]);
            cells[0][y * (width / 8) + x] = face;
        }
        Ok(cells)
    }
}

/// A grey picture with rectangles, each in one channel.
fn with_rectangles(size: Size, rectangles: &[(usize, Rect)]) -> Frame {
    let mut pixels = vec![[128, 128, 128, 255]; size.area()];
    for &(channel, part) in rectangles {
        let mut colour = [0, 0, 0, 255];
        colour[channel] = 255;
        let [rows, columns] = part.ranges();
        rows.for_each(|y| pixels[y * size.width as usize..][columns.clone()].fill(colour));
    }
    Frame::new(size, Buffer::from(pixels.into_flattened()))
}

fn searched(frame: &Frame, search: FaceSearch) -> (Vec<[f32; 4]>, usize) {
    let detector = RectangleDetector::default();
    let faces = detect(frame, &detector, search).expect("the detector does not fail");
    let boxes = faces.iter().map(|face| [face.left, face.top, face.right, face.bottom]).collect();
    (boxes, detector.0.into_inner())
}

fn is_at(found: [f32; 4], part: Rect) -> bool {
    let Rect { left, top, width, height } = part;
    let expected = [left, top, left + width, top + height].map(|side| side as f32);
    found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 4.0)
}

/// In 2000×2000 the tiles begin at 0, 488 and 976 and are 1024 wide. This face is cut by two of them, and in the small
/// copy of the whole picture its longer side has 11 of 320 pixels.
const SMALL: Rect = Rect { left: 1000, top: 990, width: 50, height: 66 };

#[test]
fn a_small_face_of_a_large_picture_is_found_in_a_tile() {
    let picture = with_rectangles(Size::new(2000, 2000), &[(0, SMALL)]);
    assert_eq!(searched(&picture, FaceSearch::Large), (Vec::new(), 1));
    for search in [FaceSearch::LargeElseSmall, FaceSearch::All] {
        let (faces, passes) = searched(&picture, search);
        let [face] = faces[..] else { panic!("{search:?}: {faces:?}") };
        assert!(is_at(face, SMALL), "{search:?}: {face:?}");
        assert_eq!(passes, 1 + 9 + 1, "the whole, nine tiles, and the crop of one candidate");
    }
}

#[test]
fn small_faces_are_added_to_a_large_one_which_does_not_change() {
    let large = Rect { left: 300, top: 200, width: 240, height: 320 };
    let alone = with_rectangles(Size::new(2000, 2000), &[(2, large)]);
    let (expected, passes) = searched(&alone, FaceSearch::Large);
    assert!(expected.len() == 1 && is_at(expected[0], large) && passes == 2, "{expected:?} in {passes} passes");
    assert_eq!(searched(&alone, FaceSearch::All).0, expected, "it is in tiles, too");

    let both = with_rectangles(Size::new(2000, 2000), &[(0, SMALL), (2, large)]);
    for search in [FaceSearch::Large, FaceSearch::LargeElseSmall] {
        assert_eq!(searched(&both, search), (expected.clone(), 2), "{search:?}");
    }
    let (all, _) = searched(&both, FaceSearch::All);
    assert!(all.len() == 2 && all[0] == expected[0] && is_at(all[1], SMALL), "{all:?}");
}

#[test]
fn pictures_up_to_1280_pixels_have_no_tiles() {
    let small = Rect { left: 700, top: 600, width: 30, height: 42 };
    let with_face = |size: Size| searched(&with_rectangles(size, &[(0, small)]), FaceSearch::All);
    assert_eq!(with_face(Size::new(1280, 1280)), (Vec::new(), 1));
    let (faces, passes) = with_face(Size::new(1281, 1281));
    assert!(faces.len() == 1 && is_at(faces[0], small), "{faces:?}");
    assert_eq!(passes, 1 + 4 + 1);
}

#[test]
fn pictures_of_any_shape_are_processed() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let net = CpuFaceDetector::new(&Weights::built_in(BuiltIn::Face), isa).expect("the embedded weights");
        for (width, height) in [(1, 1), (1, 5000), (4096, 3), (3, 5), (640, 480), (31, 33)] {
            let picture = drawn(width, height, |x, y| [(x % 256) as u8, (y % 256) as u8, 90, 255]);
            let faces = detect(&picture, &net, FaceSearch::All).expect("the CPU does not fail");
            assert!(faces.iter().all(|face| face.score >= net.threshold() && face.area() > 0.0), "{width}×{height}");
        }
        let nothing = Frame::new(Size::new(4, 0), Buffer::from(Vec::new()));
        assert!(matches!(detect(&nothing, &net, FaceSearch::All), Err(SegmentError::Device(_))));
    }
}

#[test]
fn cells_do_not_depend_on_threads_or_reused_memory() {
    let picture = drawn(200, 320, |x, y| [(x * 2 % 256) as u8, noise(x / 9, y / 9)[0], y as u8, 255]);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let net = CpuFaceDetector::new(&Weights::built_in(BuiltIn::Face), isa).expect("the embedded weights");
        let cells = |[width, height]: [usize; 2]| {
            let target = Target { width, height, background: BACKGROUND, row: (width + 2) * 3, margin: 3 };
            let fill = |input: &mut [f32], _: usize| stretched(picture.pixels(), [200, 320], target, input);
            net.cells([width, height], &fill).expect("the CPU does not fail")
        };
        let alone = on_any_number_of_threads(isa, || cells([224, 320]));
        assert_eq!(alone.each_ref().map(Vec::len), [28 * 40, 14 * 20, 7 * 10]);
        assert!(alone[0].iter().any(|cell| *cell != alone[0][0]), "constant cells prove nothing");
        assert!(cells([320, 96]) != alone);
        assert!(cells([224, 320]) == alone, "{isa}: after a picture of another shape");
    }
}

/// Half-precision cells computed by PyTorch (`tests/reference/retouch/record.py`).
fn recorded() -> [Vec<f32>; 3] {
    let bytes: [&[u8]; 3] = [
        include_bytes!("../../../tests/reference/retouch/face-8.f16"),
        include_bytes!("../../../tests/reference/retouch/face-16.f16"),
        include_bytes!("../../../tests/reference/retouch/face-32.f16"),
    ];
    bytes.map(|bytes| bytes.as_chunks::<2>().0.iter().map(|&value| half::f16::from_le_bytes(value).to_f32()).collect())
}

/// As `wave` in `record.py`.
fn wave(x: usize, y: usize, channel: usize) -> u8 {
    let slope = |t: usize| (t % 510).abs_diff(255);
    let slopes = (slope(9 * x + 5 * y + 60 * channel) + slope(4 * x + 11 * y + 90 * channel)) / 2;
    u8::try_from((slopes + (13 * x * y + 7 * channel) % 16).min(255)).expect("a byte")
}

#[test]
fn the_cells_match_pytorch() {
    let fill = |input: &mut [f32], pad: usize| {
        for (y, row) in input.chunks_exact_mut((96 + 2 * pad) * 3).enumerate() {
            for (at, value) in row[pad * 3..][..96 * 3].iter_mut().enumerate() {
                *value = f32::from(wave(at / 3, y, at % 3)) / 127.5 - 1.0;
            }
        }
    };
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let net = CpuFaceDetector::new(&Weights::built_in(BuiltIn::Face), isa).expect("the embedded weights");
        let found = net.cells([96, 64], &fill).expect("the CPU does not fail");
        for ((found, expected), stride) in found.iter().zip(recorded()).zip(STRIDES) {
            let found = found.as_flattened();
            assert_eq!(found.len(), expected.len());
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // Half precision has eleven significant bits.
                let tolerance = expected.abs() / 1024.0 + 2e-3;
                assert!((found - expected).abs() < tolerance, "{isa}, stride {stride}, {at}: {found}, not {expected}");
            }
        }
    }
}
