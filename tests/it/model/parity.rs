//! Every CPU path of the network against recorded masks of PyTorch (`tests/reference/fgnet/record.py`).

use crate::support::isa;
use backdrop::image::{Buffer, EdgeKinds, Frame, Hints, RawMask, Size};
use backdrop::model::weights::{Card, Weights};
use backdrop::model::{CpuSegmenter, Segmenter};
use backdrop_kernels::conv::Isa;

const SIDE: u32 = 384;

/// The largest difference a path may have from PyTorch, on the mask.
const TOLERANCE: f32 = 2e-3;

fn frame(width: u32, height: u32, pixel: impl Fn(i64, i64) -> [i64; 3]) -> Frame {
    let mut pixels = Vec::new();
    for y in 0..i64::from(height) {
        for x in 0..i64::from(width) {
            pixels.extend(pixel(x, y).map(|value| u8::try_from(value.clamp(0, 255)).expect("a clamped value")));
            pixels.push(255);
        }
    }
    Frame::new(Size::new(width, height), Buffer::from(pixels))
}

/// As `formula` in `record.py`.
fn formula() -> Frame {
    frame(SIDE, SIDE, |x, y| [(x / 48 + y / 48) % 2 * 200 + 20, x / 32 * 20, y / 32 * 20])
}

/// As `scene` in `record.py`.
fn scene() -> Frame {
    frame(SIDE, SIDE, |x, y| {
        let sky = [150 + y / 6, 180 + y / 8, 215 + y / 16];
        let floor = [110 + (x + y) % 16, 95 + (x + y) % 16, 80];
        let mut rgb = if y < 300 { sky } else { floor };
        if (x - 200).pow(2) * 4 + (y - 270).pow(2) < 110 * 110 {
            rgb = [60 + 70 * (y / 12 % 2), 30, 90];
        }
        if (x - 200).pow(2) + (y - 120).pow(2) < 48 * 48 {
            rgb = [225, 180 - (y - 120).div_euclid(4), 150];
        }
        let noise = (((y * i64::from(SIDE) + x) * 1_103_515_245 + 12_345) >> 16).rem_euclid(9) - 4;
        rgb.map(|value| value + noise)
    })
}

/// `scene` with the hints of `record.py`.
fn guided() -> Frame {
    let is_body = |x: usize, y: usize| x.abs_diff(200).pow(2) * 4 + y.abs_diff(270).pow(2) < 110 * 110;
    let mut hints = Hints::new(SIDE, |x, y| if is_body(x, y) { 1.0 } else { 0.0 });
    for (plane, at) in Hints::MARKS.into_iter().zip([[200, 120], [60, 330]]) {
        hints.mark(plane, at, 5);
    }
    scene().with_hints(hints)
}

fn recorded(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<2>().0.iter().map(|&value| f32::from(u16::from_le_bytes(value)) / 65535.0).collect()
}

/// Pictures with PyTorch's masks.
fn cases() -> [(&'static str, Frame, Vec<f32>); 3] {
    [
        ("formula", formula(), recorded(include_bytes!("../../reference/fgnet/formula.u16"))),
        ("scene", scene(), recorded(include_bytes!("../../reference/fgnet/scene.u16"))),
        ("guided", guided(), recorded(include_bytes!("../../reference/fgnet/guided.u16"))),
    ]
}

/// The pictures of [`cases`] with PyTorch's probabilities of the kinds of outline, which `record.py` prints.
fn outlines() -> [(Frame, [f32; EdgeKinds::COUNT]); 2] {
    [(formula(), [0.03486, 0.75126, 0.09896, 0.11491]), (scene(), [0.35729, 0.27289, 0.24688, 0.12294])]
}

fn largest_difference(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len(), "masks of different sizes");
    actual.iter().zip(expected).map(|(a, e)| if a.is_nan() { f32::INFINITY } else { (a - e).abs() }).fold(0.0, f32::max)
}

fn segmenter(isa: Isa) -> CpuSegmenter {
    CpuSegmenter::new(&Weights::embedded(), isa).expect("the embedded weights are complete")
}

fn segment(segmenter: &mut CpuSegmenter, frames: &[&Frame]) -> Vec<RawMask> {
    segmenter.segment(frames).expect("the CPU does not fail")
}

#[test]
fn every_path_agrees_with_pytorch() {
    for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| isa::has(*isa)) {
        let mut segmenter = segmenter(isa);
        for (name, frame, expected) in cases() {
            let mask = segment(&mut segmenter, &[&frame]).remove(0);
            assert_eq!(mask.size(), Size::new(SIDE, SIDE));
            let difference = largest_difference(mask.values(), &expected);
            eprintln!("{isa}, {name}: {difference:e}");
            assert!(difference <= TOLERANCE, "{isa}, {name}: a value is {difference} off");
        }
    }
}

#[test]
fn the_kinds_of_outline_agree_with_pytorch_and_are_the_embedded_networks_alone() {
    for isa in isa::available() {
        let mut embedded = segmenter(isa);
        for (frame, expected) in outlines() {
            let outline = segment(&mut embedded, &[&frame])[0].edge().expect("the embedded network has a classifier");
            let difference = largest_difference(&outline.values(), &expected);
            assert!(difference <= TOLERANCE, "{isa}: {outline:?}, not {expected:?}");
        }
    }
    let weights = Weights::embedded();
    let card = Card { version: "0".to_owned(), ..weights.card().clone() };
    let mut another = CpuSegmenter::new(&weights.with_card(card), Isa::detect()).expect("complete weights");
    assert_eq!(segment(&mut another, &[&scene()])[0].edge(), None);
}

#[test]
fn the_comparison_with_pytorch_rejects_a_perturbed_mask() {
    for (name, _, expected) in cases() {
        assert_eq!(largest_difference(&expected, &expected), 0.0);
        let mut perturbed = expected.clone();
        let middle = perturbed.len() / 2;
        perturbed[middle] += 1.5 * TOLERANCE;
        assert!(largest_difference(&perturbed, &expected) > TOLERANCE, "{name}: a wrong value was accepted");
        // A mask shifted by one pixel must be rejected too: the masks are not flat.
        perturbed.copy_from_slice(&expected);
        perturbed.rotate_right(1);
        assert!(largest_difference(&perturbed, &expected) > 10.0 * TOLERANCE, "{name}: the mask is flat");
    }
}

#[test]
fn a_batch_gives_the_same_masks_as_single_pictures_bit_for_bit() {
    let frames = [
        formula(),
        scene(),
        frame(33, 500, |x, y| [x * 7, y / 2, 90]),
        frame(1, 1, |_, _| [9, 9, 9]),
        guided(),
        scene(),
    ];
    for isa in isa::available() {
        let mut together = segmenter(isa);
        let mut alone = segmenter(isa);
        let batch = segment(&mut together, &frames.iter().collect::<Vec<_>>());
        assert_eq!(batch.len(), frames.len());
        for (index, (mask, frame)) in batch.iter().zip(&frames).enumerate() {
            assert_eq!(*mask, segment(&mut alone, &[frame])[0], "{isa}, picture {index}");
        }
        // Again with arenas that other pictures have used.
        assert_eq!(batch, segment(&mut together, &frames.iter().collect::<Vec<_>>()), "{isa}, second time");
    }
}
