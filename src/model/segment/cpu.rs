//! Segmentation on the CPU: resamples each picture and runs the network, with the pictures of a batch in parallel.

use std::sync::{Mutex, OnceLock, PoisonError};

use backdrop_kernels::conv::Isa;
use backdrop_kernels::model_input::cpu::model_input;
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;

use super::edge_classifier::EdgeClassifier;
use super::fgnet_cpu::{Arena, FgNet};
use super::{Precision, SegmentError, Segmenter};
use crate::image::{Frame, RawMask, Size};
use crate::model::weights::architecture::Architecture;
use crate::model::weights::{BuiltIn, Weights, WeightsError};

/// The segmentation network on the CPU kernels, and the guided one for pictures with hints. Parallel work runs on the calling
/// thread's rayon pool.
#[derive(Debug)]
pub struct CpuSegmenter {
    network: Packed,
    /// Packed for the first picture with hints.
    guided: OnceLock<Packed>,
    classifier: Option<EdgeClassifier>,
    model: String,
    isa: Isa,
}

/// A network with its working memory.
#[derive(Debug)]
struct Packed {
    network: FgNet,
    /// Unused working memory: at most one per picture that was processed simultaneously, one while the daemon is idle.
    arenas: Mutex<Vec<Arena>>,
}

impl Packed {
    fn new(weights: &Weights, isa: Isa) -> Result<Self, WeightsError> {
        Ok(Self { network: FgNet::new(weights, isa)?, arenas: Mutex::default() })
    }

    /// The mask of `frame`, with the kinds of its outline by `classifier`.
    fn run(&self, frame: &Frame, classifier: Option<&EdgeClassifier>) -> Result<RawMask, SegmentError> {
        let idle = self.arenas.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut arena = idle.unwrap_or_else(|| self.network.arena());
        let side = self.network.side();
        let Size { width, height } = frame.size();
        model_input(frame.pixels(), width as usize, height as usize, side, 1, arena.input_mut());
        let mut values = Recycled::<Vec<f32>>::for_overwrite(side * side);
        self.network.run(&mut arena, frame.hints(), &mut values);
        let edge = classifier.map(|classifier| classifier.kinds(arena.features()));
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner).push(arena);
        let side = u32::try_from(side).expect("weights files state a side of at most 2048");
        Ok(RawMask::new(Size::new(side, side), values)?.with_edge(edge))
    }

    fn free_idle_memory(&mut self) {
        self.arenas.get_mut().unwrap_or_else(PoisonError::into_inner).truncate(1);
    }
}

impl CpuSegmenter {
    /// Packs `weights` for `isa`.
    ///
    /// # Errors
    /// When they are for another network.
    ///
    /// # Panics
    /// When this machine lacks `isa`.
    pub fn new(weights: &Weights, isa: Isa) -> Result<Self, WeightsError> {
        weights.card().require(Architecture::Fgnet)?;
        let model = Precision::of_isa(isa).of(&weights.model());
        let (network, classifier) = (Packed::new(weights, isa)?, EdgeClassifier::of(weights));
        Ok(Self { network, guided: OnceLock::new(), classifier, model, isa })
    }

    fn segment_one(&self, frame: &Frame) -> Result<RawMask, SegmentError> {
        if frame.hints().is_some() {
            let pack = || Packed::new(&Weights::built_in(BuiltIn::Guided), self.isa).expect("a test packs them");
            return self.guided.get_or_init(pack).run(frame, None);
        }
        self.network.run(frame, self.classifier.as_ref())
    }
}

impl Segmenter for CpuSegmenter {
    fn model(&self) -> &str {
        &self.model
    }

    fn device(&self) -> String {
        format!("CPU ({}, {} threads)", self.isa, rayon::current_num_threads())
    }

    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
        if frames.iter().any(|frame| frame.size().area() == 0) {
            return Err(SegmentError::Device("a frame without pixels".to_owned()));
        }
        // Parallel over pictures, and over rows inside each: a batch keeps many cores busy in the small middle of the
        // network, and a single picture uses them all. Inside one task of the pool, because a picture from outside
        // would wake the pool and wait for it in every layer.
        rayon::scope(|_| frames.par_iter().map(|frame| self.segment_one(frame)).collect())
    }

    fn free_idle_memory(&mut self) {
        self.network.free_idle_memory();
        if let Some(guided) = self.guided.get_mut() {
            guided.free_idle_memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::drawn;

    fn picture() -> Frame {
        const SIDE: u32 = 500;
        drawn(SIDE, SIDE, |x, y| {
            let inside = x.abs_diff(SIDE / 2).pow(2) + y.abs_diff(SIDE / 2).pow(2) < (SIDE / 3).pow(2);
            let shade = (x * 60 / SIDE) as u8;
            if inside { [240, 180 - shade, 100, 255] } else { [20 + shade, 50, 75 - shade, 255] }
        })
    }

    #[test]
    fn an_idle_network_keeps_the_working_memory_of_one_picture() {
        let frame = picture();
        let mut segmenter = CpuSegmenter::new(&Weights::embedded(), Isa::detect()).expect("the embedded weights");
        segmenter.segment(&[&frame]).expect("the CPU computes");
        let another = segmenter.network.network.arena();
        segmenter.network.arenas.get_mut().expect("no panic").push(another);
        segmenter.free_idle_memory();
        assert_eq!(segmenter.network.arenas.get_mut().expect("no panic").len(), 1);
    }

    #[test]
    fn bf16_masks_are_close_to_those_of_f32_and_named_apart() {
        let Ok(bf16) = Precision::Bf16.isa() else { return };
        let (weights, frame) = (Weights::embedded(), picture());
        let segment = |isa: Isa| {
            let mut segmenter = CpuSegmenter::new(&weights, isa).expect("the embedded weights are complete");
            let mut masks = segmenter.segment(&[&frame, &frame]).expect("the CPU computes");
            assert_eq!(masks[0].values(), masks[1].values(), "{isa}: a picture's mask depends on its batch");
            (masks.remove(0), segmenter.model().to_owned())
        };
        let ((expected, name), (actual, bf16_name)) = (segment(Isa::detect()), segment(bf16));
        assert_eq!([name, bf16_name], [weights.model(), Precision::Bf16.of(&weights.model())]);
        let differences = expected.values().iter().zip(actual.values()).map(|(a, b)| f64::from((a - b).abs()));
        let mean = differences.sum::<f64>() / expected.values().len() as f64;
        assert!(mean > 0.0 && mean < 0.005, "a mean difference of {mean}");
    }
}
