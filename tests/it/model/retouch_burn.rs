//! The retouching networks as burn modules: on the host against PyTorch, and on a graphics adapter against the CPU
//! kernels. Without an adapter the second is skipped with a notice, or fails with `BACKDROP_TEST_DEVICE=gpu`. (The
//! upscaler is compared with the CPU in a unit test, on its output before rounding.)

use backdrop::model::burn_net::{BurnFace, BurnRestore};
use backdrop::model::weights::{BuiltIn, Weights};
use backdrop::model::{FACE_SIDE, FaceCrop};
use burn::tensor::{Device, Tensor, TensorData};

use crate::model::retouch_support::{halves, largest_difference, restoration, spread, thinned, values};

/// Differences in single precision, and what the recording rounded.
const TOLERANCE: f32 = 2e-3;

/// A picture.
fn input(width: usize, height: usize, scale: impl Fn(f32) -> f32) -> Tensor<4> {
    let values: Vec<f32> = values(width, height).into_iter().map(|value| scale(f32::from(value))).collect();
    Tensor::<4>::from_data(TensorData::new(values, [1, height, width, 3]), &Device::flex())
}

/// The values of an output.
fn output(answer: Tensor<4>) -> Vec<f32> {
    answer.into_data().try_into_vec().expect("answers are f32")
}

fn assert_alike(actual: &[f32], expected: &[f32], what: &str) {
    let difference = largest_difference(actual, expected);
    eprintln!("{what}: {difference:e} of {}", spread(expected));
    assert!(difference <= TOLERANCE, "{what}: a value is {difference} off");
    assert!(spread(expected) > 10.0 * TOLERANCE, "{what}: the reference is flat");
}

#[test]
fn the_burn_face_detector_agrees_with_pytorch() {
    let net = BurnFace::new(&Weights::built_in(BuiltIn::Face), &Device::flex());
    let cells = net.forward(input(96, 64, |value| value / 127.5 - 1.0));
    let references: [&[u8]; 3] = [
        include_bytes!("../../reference/retouch/face-8.f16"),
        include_bytes!("../../reference/retouch/face-16.f16"),
        include_bytes!("../../reference/retouch/face-32.f16"),
    ];
    for ((cells, reference), stride) in cells.into_iter().zip(references).zip([8, 16, 32]) {
        // Half precision keeps three digits of values up to ten.
        let expected = halves(reference);
        let actual: Vec<f32> = output(cells);
        let scale = 1.0 + expected.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let scaled = |values: &[f32]| values.iter().map(|value| value / scale).collect::<Vec<f32>>();
        assert_alike(&scaled(&actual), &scaled(&expected), &format!("cells of {stride} pixels"));
    }
}

#[test]
fn the_burn_restorer_agrees_with_pytorch() {
    let net = BurnRestore::new(&Weights::built_in(BuiltIn::Restore), &Device::flex());
    let added = output(net.forward(input(FACE_SIDE, FACE_SIDE, |value| value / 255.0)));
    let added = FaceCrop(added.as_chunks::<3>().0.to_vec());
    assert_alike(&thinned(&added), &restoration(), "restoration");
}

#[test]
fn retouching_on_an_adapter_agrees_with_the_cpu() {
    use backdrop::model::{CpuRetoucher, FaceSearch, Factor, GpuRetoucher, Retoucher};

    use crate::model::retouch_support::{crop, small_picture};

    let Some(adapter) = crate::model::gpu::adapter() else { return };
    let (gpu, cpu) = (GpuRetoucher::new(&adapter, std::time::Duration::from_secs(1800)), CpuRetoucher::default());
    let picture = small_picture();
    for by in Factor::ALL {
        let found = gpu.enlarged(picture.clone(), by).expect("the adapter passes its own test");
        let expected = cpu.enlarged(picture.clone(), by).expect("the CPU computes");
        assert_eq!(found.size(), expected.size());
        let pairs = found.pixels().iter().zip(expected.pixels());
        assert!(pairs.clone().all(|(one, other)| one.abs_diff(*other) <= 1), "{by:?}");
    }
    let added = |retoucher: &dyn Retoucher| thinned(&retoucher.restoration(&crop()).expect("both compute"));
    assert_alike(&added(&gpu), &added(&cpu), "restoration on an adapter");
    let faces = |retoucher: &dyn Retoucher| retoucher.faces(&picture, FaceSearch::All).expect("both compute").len();
    assert_eq!(faces(&gpu), faces(&cpu));
}
