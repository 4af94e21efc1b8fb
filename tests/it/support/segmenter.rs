//! A fake network: a segmenter that computes its masks with a function of the test.

use backdrop::engine::SegmenterFactory;
use backdrop::image::{Frame, RawMask, Size};
use backdrop::model::{SegmentError, Segmenter};
use std::sync::Arc;

/// The masks of a batch.
pub(crate) type Masks = Result<Vec<RawMask>, SegmentError>;

/// Computes the masks of a batch.
type Segment = dyn FnMut(&[&Frame]) -> Masks + Send;

/// A network with this name and function.
pub(crate) struct FakeSegmenter {
    model: &'static str,
    segment: Box<Segment>,
}

impl FakeSegmenter {
    pub(crate) fn boxed(
        model: &'static str,
        segment: impl FnMut(&[&Frame]) -> Masks + Send + 'static,
    ) -> Box<dyn Segmenter> {
        Box::new(Self { model, segment: Box::new(segment) })
    }
}

impl Segmenter for FakeSegmenter {
    fn model(&self) -> &str {
        self.model
    }

    fn device(&self) -> String {
        "none".to_owned()
    }

    fn segment(&mut self, frames: &[&Frame]) -> Masks {
        (self.segment)(frames)
    }
}

/// A factory of networks that compute the masks of a batch with `segment`.
pub(crate) fn factory(
    model: &'static str,
    segment: impl Fn(&[&Frame]) -> Masks + Send + Sync + 'static,
) -> SegmenterFactory {
    let segment = Arc::new(segment);
    Arc::new(move || {
        let segment = Arc::clone(&segment);
        Ok(FakeSegmenter::boxed(model, move |frames| segment(frames)))
    })
}

/// A factory of networks that compute each mask from its frame alone.
pub(crate) fn factory_by_frame(
    model: &'static str,
    mask: impl Fn(&Frame) -> RawMask + Send + Sync + 'static,
) -> SegmenterFactory {
    factory(model, move |frames| Ok(frames.iter().map(|frame| mask(frame)).collect()))
}

/// The mask on `grid` with the probability `value(x, y)` in each cell.
pub(crate) fn mask(grid: Size, value: impl Fn(u32, u32) -> f32) -> RawMask {
    let values = (0..grid.area() as u32).map(|at| value(at % grid.width, at / grid.width));
    RawMask::new(grid, values.collect::<Vec<f32>>()).expect("probabilities")
}
