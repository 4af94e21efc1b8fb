//! Segmentation on a GPU: uploads packed pictures, resamples and segments them there, and downloads only the masks.
//!
//! The uploaded pictures stay with their frames, for matting.

use std::fmt;
use std::sync::{Arc, OnceLock};

use backdrop_kernels::conv::Isa;
use backdrop_kernels::device::download;
use backdrop_kernels::model_input::gpu::model_input;
use backdrop_kernels::parity;
use backdrop_kernels::watchdog::CallError;
use burn::tensor::Tensor;

use super::edge_classifier::EdgeClassifier;
use super::{CpuSegmenter, SegmentError, Segmenter};
use crate::image::{Buffer, DeviceSession, Frame, Hints, RawMask, Size, Transferred};
use crate::model::burn_net::{BurnNet, Prediction, Squares};
use crate::model::device::Adapter;
use crate::model::weights::architecture::edge::FEATURES;
use crate::model::weights::{BuiltIn, Weights};

/// Batch sizes that are compiled at start-up. Other batches are padded, so that nothing is compiled under load.
const BATCH_SIZES: [usize; 4] = [1, 2, 4, 8];

/// Largest difference to the CPU's masks that counts as rounding, as in the parity with PyTorch.
const TOLERANCE: f32 = 2e-3;

/// Largest difference to the CPU's probabilities of the kinds of outline that counts as rounding.
const TOLERANCE_OF_KINDS: f32 = 1e-2;

/// The segmentation network on one adapter, and the guided one for pictures with hints.
pub struct GpuSegmenter {
    model: String,
    adapter: Adapter,
    session: DeviceSession,
    net: Arc<Network>,
    /// Loaded for the first picture with hints.
    guided: Arc<OnceLock<Network>>,
    classifier: Option<EdgeClassifier>,
}

/// A network with the side of its input.
struct Network {
    net: BurnNet,
    side: u32,
}

impl Network {
    fn new(weights: &Weights, session: &DeviceSession) -> Result<Self, SegmentError> {
        let side = weights.card().input_side().map_err(|error| SegmentError::Unusable(error.to_string()))?;
        let side = u32::try_from(side).expect("weights files state a side of at most 2048");
        Ok(Self { net: BurnNet::new(weights, session.device()), side })
    }
}

impl GpuSegmenter {
    /// Opens `adapter`, compares the kernels of this network, of matting and of compositing, and the network itself,
    /// with the CPU, and warms up the batch sizes up to `max_batch`.
    ///
    /// # Errors
    /// [`SegmentError::Unusable`] when the adapter cannot be opened, or its results differ from the CPU's.
    pub fn start(adapter: &Adapter, weights: &Weights, max_batch: usize) -> Result<Self, SegmentError> {
        let session = adapter.session().map_err(|error| SegmentError::Unusable(format!("{adapter}: {error}")))?;
        for kernels in [parity::NETWORKS.as_slice(), &parity::MATTING, &parity::COMPOSING] {
            parity::self_test(session.device(), kernels).map_err(|error| failed_test(adapter, &error))?;
        }
        let net = Arc::new(Network::new(weights, &session)?);
        let (model, classifier) = (weights.model(), EdgeClassifier::of(weights));
        let mut segmenter = Self { model, adapter: adapter.clone(), session, net, guided: Arc::default(), classifier };
        segmenter.warm_up(weights, max_batch)?;
        Ok(segmenter)
    }

    /// Segments a test picture in every batch size and compares all masks with the CPU's.
    fn warm_up(&mut self, weights: &Weights, max_batch: usize) -> Result<(), SegmentError> {
        let frame = test_picture();
        let mut cpu =
            CpuSegmenter::new(weights, Isa::detect()).map_err(|error| SegmentError::Unusable(error.to_string()))?;
        let expected = cpu.segment(&[&frame])?.remove(0);
        for size in BATCH_SIZES.into_iter().filter(|&size| size == 1 || size < 2 * max_batch) {
            let adapter = self.adapter.clone();
            let failed = |error: &str| failed_test(&adapter, &format!("network at batch {size}: {error}"));
            let masks = self.segment(&vec![&frame; size]).map_err(|error| failed(&error.into_reason()))?;
            for mask in masks {
                parity::compare(expected.values(), mask.values(), TOLERANCE)
                    .map_err(|error| failed(&error.to_string()))?;
                match (expected.edge(), mask.edge()) {
                    (Some(expected), Some(actual)) => {
                        parity::compare(&expected.values(), &actual.values(), TOLERANCE_OF_KINDS)
                            .map_err(|error| failed(&error.to_string()))?;
                    }
                    (None, None) => {}
                    (Some(_), None) | (None, Some(_)) => {
                        return Err(failed("the outline is classified on one of them"));
                    }
                }
            }
        }
        Ok(())
    }
}

fn failed_test(adapter: &Adapter, error: &str) -> SegmentError {
    SegmentError::Unusable(format!("{adapter} failed its self-test: {error}"))
}

impl Segmenter for GpuSegmenter {
    fn model(&self) -> &str {
        &self.model
    }

    fn device(&self) -> String {
        self.adapter.to_string()
    }

    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
        if frames.iter().any(|frame| frame.size().area() == 0) {
            return Err(SegmentError::Device("a frame without pixels".to_owned()));
        }
        if self.session.is_lost() {
            return Err(SegmentError::Unusable(format!("{} is lost", self.adapter)));
        }
        let mut masks: Vec<Option<RawMask>> = frames.iter().map(|_| None).collect();
        for is_guided in [false, true] {
            let own: Vec<usize> = (0..frames.len()).filter(|&at| frames[at].hints().is_some() == is_guided).collect();
            for batch in own.chunks(BATCH_SIZES[BATCH_SIZES.len() - 1]) {
                let pictures: Vec<&Frame> = batch.iter().map(|&at| frames[at]).collect();
                let found = self.run(&pictures, is_guided)?;
                batch.iter().zip(found).for_each(|(&at, mask)| masks[at] = Some(mask));
            }
        }
        Ok(masks.into_iter().flatten().collect())
    }
}

impl GpuSegmenter {
    /// The masks of a batch, of which all or none of the pictures have hints.
    fn run(&self, batch: &[&Frame], is_guided: bool) -> Result<Vec<RawMask>, SegmentError> {
        // Clones, because a call keeps them after its timeout.
        let pictures: Vec<Frame> = batch.iter().map(|&frame| frame.clone()).collect();
        let (plain, guided, session) = (Arc::clone(&self.net), Arc::clone(&self.guided), self.session.clone());
        let run = move || {
            let network = if is_guided {
                guided.get_or_init(|| {
                    Network::new(&Weights::built_in(BuiltIn::Guided), &session)
                        .expect("weights of a segmentation network")
                })
            } else {
                &*plain
            };
            let copies: Vec<_> = pictures.iter().map(|picture| picture.copied_to(&session)).collect();
            let side = network.side as usize;
            let inputs = copies.iter().map(|copy| model_input(copy.words(), side)).collect();
            let hints: Vec<&Hints> = pictures.iter().filter_map(Frame::hints).collect();
            outputs(&network.net, inputs, &hints, side).map(|outputs| (outputs, copies, network.side))
        };
        let (outputs, copies, side) = self.session.call(run).map_err(|error| match error {
            CallError::Late(_) => SegmentError::Unusable(format!("{}: {error}", self.adapter)),
            CallError::Panicked(_) => SegmentError::Device(error.to_string()),
        })??;
        let size = Size::new(side, side);
        for (frame, copy) in batch.iter().zip(copies) {
            copy.count(Transferred { up: 0, down: ((size.area() + FEATURES) * size_of::<f32>()) as u64 });
            frame.keep_on_device(copy);
        }
        let classifier = self.classifier.as_ref().filter(|_| !is_guided);
        let classified = outputs.into_iter().map(|Output { mask, features }| {
            let edge = classifier.map(|classifier| classifier.kinds(&features));
            Ok(RawMask::new(size, mask)?.with_edge(edge))
        });
        classified.collect()
    }
}

impl Drop for GpuSegmenter {
    /// Releases the device's memory, as far as its allocator does.
    fn drop(&mut self) {
        let device = self.session.device().clone();
        // On a lost device the memory stays allocated.
        let _: Result<(), CallError> = self.session.call(move || device.memory_cleanup());
    }
}

impl fmt::Debug for GpuSegmenter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuSegmenter({} on {})", self.model, self.adapter)
    }
}

struct Output {
    mask: Vec<f32>,
    features: Vec<f32>,
}

/// The outputs for `inputs` (f32 `[side, side, 3]` each), in order; for the guided network with the hints of each.
fn outputs(
    net: &BurnNet,
    mut inputs: Vec<Tensor<3>>,
    hints: &[&Hints],
    side: usize,
) -> Result<Vec<Output>, SegmentError> {
    let count = inputs.len();
    let Some(last) = inputs.last().cloned() else { return Ok(Vec::new()) };
    let size = BATCH_SIZES.into_iter().find(|&size| size >= count).unwrap_or(count);
    let device = last.device();
    inputs.resize(size, last);
    let mut hints = hints.to_vec();
    let squares = hints.last().copied().map(|last| {
        hints.resize(size, last);
        Squares::of(&hints, &device)
    });
    let Prediction { masks, features } = net.forward(Tensor::stack::<4>(inputs, 0), squares);
    // Concatenated on the device, for a single download.
    let rows = Tensor::cat(vec![masks.flatten::<2>(1, 2), features], 1);
    let data = download(rows).map_err(SegmentError::Device)?;
    let values: Vec<f32> = data.try_into_vec().map_err(|error| SegmentError::Device(error.to_string()))?;
    let split = values.chunks_exact(side * side + FEATURES).take(count).map(|row| row.split_at(side * side));
    let outputs = split.filter(|(mask, features)| is_written(mask) && is_written(features));
    let outputs: Vec<_> =
        outputs.map(|(mask, features)| Output { mask: mask.to_vec(), features: features.to_vec() }).collect();
    if outputs.len() < count {
        return Err(SegmentError::Device("a mask was never written".to_owned()));
    }
    Ok(outputs)
}

/// Whether an output was computed. A kernel that panicked on the device's thread leaves zeros, which read back as
/// success; a sigmoid of finite numbers is never zero everywhere, and neither are a picture's features.
fn is_written(values: &[f32]) -> bool {
    values.iter().any(|&value| value != 0.0) && values.iter().all(|value| value.is_finite())
}

fn test_picture() -> Frame {
    const SIDE: u32 = 500;
    let mut pixels = Vec::with_capacity(4 * (SIDE * SIDE) as usize);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let inside = x.abs_diff(SIDE / 2).pow(2) + y.abs_diff(SIDE / 2).pow(2) < (SIDE / 3).pow(2);
            let shade = (x * 60 / SIDE) as u8;
            pixels.extend(if inside { [240, 180 - shade, 100, 255] } else { [20 + shade, 50, 75 - shade, 255] });
        }
    }
    Frame::new(Size::new(SIDE, SIDE), Buffer::from(pixels))
}

#[cfg(test)]
mod tests {
    use super::super::fgnet_cpu::FgNet;
    use super::*;
    use crate::model::device::test_adapter::device;
    use crate::model::weights::Card;
    use crate::model::weights::architecture;
    use backdrop_kernels::model_input::cpu::model_input as cpu_input;
    use burn::tensor::{Device, TensorData};

    const SIDE: usize = 64;

    fn input(shade: f32, device: &Device) -> Tensor<3> {
        let values = (0..SIDE * SIDE * 3).map(|at| (at as f32 * 0.01).sin() * shade).collect();
        Tensor::from_data(TensorData::new::<f32, _>(values, [SIDE, SIDE, 3]), device)
    }

    #[test]
    fn a_padded_batch_returns_the_masks_of_its_own_pictures_in_order() {
        let Some(device) = device() else { return };
        let net = BurnNet::new(&Weights::embedded(), &device);
        let shades = [0.3, 0.6, 0.9];
        let together =
            outputs(&net, shades.map(|shade| input(shade, &device)).into(), &[], SIDE).expect("the device computes");
        assert_eq!(together.len(), shades.len());
        for (output, shade) in together.iter().zip(shades) {
            let alone = outputs(&net, vec![input(shade, &device)], &[], SIDE).expect("the device computes").remove(0);
            parity::compare(&alone.mask, &output.mask, 1e-5).expect("the same mask");
            parity::compare(&alone.features, &output.features, 1e-4).expect("the same features");
        }
        let differ = |of: fn(&Output) -> &[f32]| parity::compare(of(&together[0]), of(&together[2]), 1e-3).is_err();
        assert!(
            differ(|output| &output.mask) && differ(|output| &output.features),
            "the pictures give the same output"
        );
    }

    #[test]
    fn the_guided_network_agrees_with_the_cpu() {
        let Some(device) = device() else { return };
        let weights = Weights::built_in(BuiltIn::Guided);
        let card = Card { network: architecture::Network::Guided { input_side: SIDE }, ..weights.card().clone() };
        let (weights, frame) = (weights.with_card(card), test_picture());
        let mut hints = Hints::new(SIDE as u32, |x, y| if x < y { 1.0 } else { 0.0 });
        hints.mark(Hints::MARKS[0], [44, 12], 5);
        let cpu = FgNet::new(&weights, Isa::detect()).expect("complete weights");
        let (mut arena, mut expected) = (cpu.arena(), vec![0.0; SIDE * SIDE]);
        let Size { width, height } = frame.size();
        cpu_input(frame.pixels(), width as usize, height as usize, SIDE, 1, arena.input_mut());
        let inputs = || vec![model_input(frame.uploaded(&device), SIDE)];
        let net = BurnNet::new(&weights, &device);
        let unmarked = Hints::new(SIDE as u32, |_, _| 0.0);
        for hints in [&hints, &unmarked] {
            cpu.run(&mut arena, Some(hints), &mut expected);
            let actual = outputs(&net, inputs(), &[hints], SIDE).expect("the device computes").remove(0);
            parity::compare(&expected, &actual.mask, TOLERANCE).expect("the CPU's mask");
        }
        let other = outputs(&net, inputs(), &[&hints], SIDE).expect("the device computes").remove(0);
        assert!(parity::compare(&expected, &other.mask, 0.05).is_err(), "the hints change nothing");
    }

    #[test]
    fn an_unwritten_mask_is_an_error_and_not_an_empty_picture() {
        assert!(!is_written(&[0.0; 9]));
        assert!(!is_written(&[0.1, f32::NAN]));
        assert!(is_written(&[0.0, 1e-7]));
    }
}
