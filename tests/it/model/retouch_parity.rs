//! The retouching networks on the CPU kernels against PyTorch. (The face detector is compared in a unit test, on its output
//! before decoding.)

use backdrop::image::Size;
use backdrop::model::{CpuRetoucher, FACE_SIDE, FaceCrop, Factor, Retoucher};
use backdrop_kernels::conv::Isa;

use crate::model::retouch_support::{crop, enlarged, largest_difference, restoration, small_picture, spread, thinned};
use crate::support::isa;

/// Error of rounding an enlarged picture to bytes, and of the arithmetic.
const BYTE: f32 = 0.5 / 255.0 + 1e-4;

/// Error of half precision in a recorded restoration.
const RESTORATION: f32 = 1e-3;

fn retouchers() -> impl Iterator<Item = (Isa, CpuRetoucher)> {
    isa::available().map(|isa| (isa, CpuRetoucher::new(isa)))
}

#[test]
fn the_upscaler_agrees_with_pytorch() {
    for (isa, retoucher) in retouchers() {
        for factor in Factor::ALL {
            let large = retoucher.enlarged(small_picture(), factor).expect("the CPU does not fail");
            assert_eq!(large.size(), Size::new(24 * factor.get(), 20 * factor.get()));
            let rgb = large.pixels().as_chunks::<4>().0.iter().flat_map(|&[red, green, blue, _]| [red, green, blue]);
            let actual: Vec<f32> = rgb.map(|value| f32::from(value) / 255.0).collect();
            let mut expected = enlarged(factor);
            let difference = largest_difference(&actual, &expected);
            eprintln!("{isa}, {factor:?}: {difference:e}");
            assert!(difference <= BYTE, "{isa}, {factor:?}: a value is {difference} off");
            expected.rotate_right(3);
            assert!(largest_difference(&actual, &expected) > 20.0 * BYTE, "a shift by one pixel was accepted");
        }
    }
}

#[test]
fn the_restorer_agrees_with_pytorch() {
    let mut expected = restoration();
    for (isa, retoucher) in retouchers() {
        let added = |face: &FaceCrop| retoucher.restoration(face).expect("the CPU does not fail");
        let first = added(&crop());
        let difference = largest_difference(&thinned(&first), &expected);
        eprintln!("{isa}: {difference:e} of {}", spread(&expected));
        assert!(difference <= RESTORATION, "{isa}: a value is {difference} off");
        // In reused memory.
        assert!(added(&FaceCrop(vec![[0.2; 3]; FACE_SIDE * FACE_SIDE])).0 != first.0, "{isa}");
        assert!(added(&crop()).0 == first.0, "{isa}: another face has an effect");
    }
    assert!(spread(&expected) > 20.0 * RESTORATION, "the reference is flat");
    let original = expected.clone();
    expected.rotate_right(3);
    assert!(largest_difference(&original, &expected) > 10.0 * RESTORATION, "a shift by one pixel was accepted");
}
