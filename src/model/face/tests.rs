use backdrop_kernels::conv::Isa;

use super::*;
use crate::image::Buffer;
use crate::model::weights::{BuiltIn, Weights};

/// Sees one face, of a quarter of what it is shown, in the cell at a given place of the finest grid; and keeps what it was shown.
struct Made {
    cell: [usize; 2],
    shown: std::sync::Mutex<Vec<([usize; 2], Vec<f32>)>>,
}

impl Eye for Made {
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
        self.shown.lock().expect("no test panics in here").push(([width, height], input));
        let nothing = |stride: usize| vec![[-9.0; CELL]; (width / stride) * (height / stride)];
        let mut cells = STRIDES.map(nothing);
        // From nearby the face is in the middle, 80 of 160 pixels wide, and the cell is that after the middle.
        let near = [width, height] == [160, 160];
        let [x, y] = if near { [10, 10] } else { self.cell };
        let sides = if near { [5.5, 5.5, 4.5, 4.5] } else { [2.0_f32; 4] };
        let mut face = [0.0; CELL];
        face[0] = 3.0;
        face[1..5].copy_from_slice(&sides.map(f32::ln));
        cells[0][y * (width / 8) + x] = face;
        Ok(cells)
    }
}

impl Made {
    fn at(x: usize, y: usize) -> Self {
        Self { cell: [x, y], shown: std::sync::Mutex::default() }
    }
}

fn frame(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Frame {
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| pixel(x, y));
    Frame::new(Size::new(width, height), Buffer::from(pixels.collect::<Vec<u8>>()))
}

#[test]
fn what_was_seen_is_brought_back_to_the_picture_s_own_pixels() {
    // Half the size, 320×160: the cell (4, 3) is around (36, 28), and the face reaches 16 to each side.
    let faces = find(&frame(640, 320, |_, _| [9, 9, 9, 255]), &Made::at(4, 3)).expect("a face");
    let [face] = faces[..] else { panic!("{faces:?}") };
    let close = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-3, "{found}, not {expected}");
    for (found, expected) in [face.left, face.top, face.right, face.bottom].into_iter().zip([40.0, 24.0, 104.0, 88.0]) {
        close(found, expected);
    }
    // The second look's: four pixels of 160 beside the middle of a square of 128.
    close(face.landmarks[2][0], 75.2);
    close(face.landmarks[2][1], 59.2);
}

#[test]
fn a_picture_is_shown_undistorted_in_the_upper_left_with_grey_around_it() {
    let eye = Made::at(0, 0);
    let picture = frame(400, 250, |x, _| if x < 200 { [255, 0, 0, 255] } else { [255, 255, 255, 0] });
    find(&picture, &eye).expect("a face");
    let shown = eye.shown.into_inner().expect("no test panics in there");
    let ([width, height], input) = &shown[0];
    assert_eq!([*width, *height], [320, 224], "200 rows, and up to a multiple of 32");
    let pixel = |x: usize, y: usize| &input[(y * width + x) * 3..][..3];
    assert_eq!(pixel(10, 10), [1.0, -1.0, -1.0]);
    assert!(pixel(300, 10).iter().all(|value| value.abs() < 0.01), "not grey: {:?}", pixel(300, 10));
    assert_eq!(pixel(10, 199), [1.0, -1.0, -1.0]);
    assert_eq!(pixel(10, 200), [0.0; 3]);
}

#[test]
fn pictures_of_any_shape_are_looked_at() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let net = FaceNet::new(&Weights::built_in(BuiltIn::Face), isa).expect("the embedded weights");
        for (width, height) in [(1, 1), (1, 5000), (4096, 3), (3, 5), (640, 480), (31, 33)] {
            let picture = frame(width, height, |x, y| [(x % 256) as u8, (y % 256) as u8, 90, 255]);
            let faces = find(&picture, &net).expect("the CPU does not fail");
            assert!(faces.iter().all(|face| face.score >= net.threshold() && face.area() > 0.0), "{width}×{height}");
        }
        let nothing = Frame::new(Size::new(4, 0), Buffer::from(Vec::new()));
        assert!(matches!(find(&nothing, &net), Err(SegmentError::Device(_))));
    }
}

#[test]
fn the_same_cells_come_with_any_number_of_threads_and_from_used_memory() {
    let noise = |x: u32, y: u32| (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)) >> 16;
    let picture = frame(200, 320, |x, y| [(x * 2 % 256) as u8, (noise(x / 9, y / 9) % 256) as u8, y as u8, 255]);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let net = FaceNet::new(&Weights::built_in(BuiltIn::Face), isa).expect("the embedded weights");
        let cells = |[width, height]: [usize; 2]| {
            let target = Target { width, height, ground: GROUND, row: (width + 2) * 3, margin: 3 };
            let fill = |input: &mut [f32], _: usize| stretched(picture.pixels(), [200, 320], target, input);
            net.cells([width, height], &fill).expect("the CPU does not fail")
        };
        let run = |threads: usize, extent: [usize; 2]| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
            pool.install(|| cells(extent))
        };
        let alone = run(1, [224, 320]);
        assert_eq!(alone.each_ref().map(Vec::len), [28 * 40, 14 * 20, 7 * 10]);
        assert!(alone[0].iter().any(|cell| *cell != alone[0][0]), "the same everywhere shows nothing");
        assert!(run(2, [224, 320]) == alone, "{isa}");
        assert!(run(2, [320, 96]) != alone);
        assert!(run(5, [224, 320]) == alone, "{isa}: after a picture of another shape");
    }
}

/// Half-precision cells that PyTorch answers (`tests/reference/retouch/record.py`).
fn recorded() -> [Vec<f32>; 3] {
    let bytes: [&[u8]; 3] = [
        include_bytes!("../../../tests/reference/retouch/face-8.f16"),
        include_bytes!("../../../tests/reference/retouch/face-16.f16"),
        include_bytes!("../../../tests/reference/retouch/face-32.f16"),
    ];
    bytes.map(|bytes| bytes.as_chunks::<2>().0.iter().map(|&value| half::f16::from_le_bytes(value).to_f32()).collect())
}

/// The same as `wave` in `record.py`.
fn wave(x: usize, y: usize, channel: usize) -> u8 {
    let slope = |t: usize| (t % 510).abs_diff(255);
    let slopes = (slope(9 * x + 5 * y + 60 * channel) + slope(4 * x + 11 * y + 90 * channel)) / 2;
    u8::try_from((slopes + (13 * x * y + 7 * channel) % 16).min(255)).expect("a byte")
}

#[test]
fn the_cells_are_those_that_pytorch_answers() {
    let fill = |input: &mut [f32], pad: usize| {
        for (y, row) in input.chunks_exact_mut((96 + 2 * pad) * 3).enumerate() {
            for (at, value) in row[pad * 3..][..96 * 3].iter_mut().enumerate() {
                *value = f32::from(wave(at / 3, y, at % 3)) / 127.5 - 1.0;
            }
        }
    };
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let net = FaceNet::new(&Weights::built_in(BuiltIn::Face), isa).expect("the embedded weights");
        let found = net.cells([96, 64], &fill).expect("the CPU does not fail");
        for ((found, expected), stride) in found.iter().zip(recorded()).zip(STRIDES) {
            let found = found.as_flattened();
            assert_eq!(found.len(), expected.len());
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // Half precision keeps eleven bits.
                let tolerance = expected.abs() / 1024.0 + 2e-3;
                assert!((found - expected).abs() < tolerance, "{isa}, stride {stride}, {at}: {found}, not {expected}");
            }
        }
    }
}
