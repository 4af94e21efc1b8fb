//! The filter step: fuses a frame's mask and matte with the warped previous ones.

use super::flow_confidence::flow_confidence;
use super::interpolation::Plane;
use super::optical_flow::Flow;
use super::state::TemporalState;
use super::thumbnail::Thumbnail;
use crate::image::{AlphaMatte, Frame, RawMask, Size, Trimap};
use crate::matting::{self, NoSubject, TemporalMatte, TemporalPrior};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use rayon::prelude::*;

/// Largest weight of the past in frames, at a smoothing of 100.
const MAX_PAST_FRAMES: f32 = 12.0;
/// The same for the matte, where a flow error of one pixel is visible.
const MAX_PAST_FRAMES_OF_MATTE: f32 = 4.0;
/// Weight of a cell of which the network is entirely uncertain, relative to a certain one.
const UNCERTAIN_WEIGHT: f32 = 0.2;
/// Smallest difference between mask and past that is a contradiction.
const CONTRADICTION: f32 = 0.5;

/// The filter, with its state between frames.
#[derive(Debug)]
pub struct TemporalFilter {
    smoothing: u8,
    state: Option<TemporalState>,
}

impl TemporalFilter {
    /// A filter before its first frame. `smoothing` is 0 (independent frames) to 100; larger values count as 100.
    #[must_use]
    pub fn new(smoothing: u8) -> Self {
        Self { smoothing: smoothing.min(100), state: None }
    }

    /// The matte of the next frame, in the order of the clip, from its mask; empty where there is no subject. A frame
    /// of another size restarts the filter.
    #[must_use]
    pub fn next(&mut self, frame: &Frame, mask: RawMask) -> AlphaMatte {
        let size = frame.size();
        let nothing = |NoSubject| AlphaMatte::empty(size);
        if self.smoothing == 0 {
            return matting::estimate_matte(frame, &mask, &matting::Options::default()).unwrap_or_else(nothing);
        }
        let thumbnail = Thumbnail::of(frame, mask.size());
        let before = self.state.take().filter(|before| before.frame == size && before.mask.size() == mask.size());
        let motion = before.as_ref().and_then(|before| Motion::between(before, &thumbnail));
        let Fused { mask, weight, contradictions, matte_share } = match (before.as_ref(), &motion) {
            (Some(before), Some(motion)) => self.fuse(before, motion, &mask),
            (Some(_) | None, None) | (None, Some(_)) => Fused::without_past(mask),
        };
        let matte_before = before.as_ref().and_then(|before| before.matte.as_ref());
        let carry = |trimap: &Trimap| {
            let (matte, Motion { flow, .. }) = (matte_before?, motion.as_ref()?);
            Some(warped_matte(matte, flow, &matte_share, trimap))
        };
        let (matte, found) = match matting::estimate_matte_with_prior(frame, &mask, carry) {
            Ok(TemporalMatte { matte, unfiltered }) => (matte, Some(unfiltered)),
            Err(none) => (nothing(none), None),
        };
        self.state = Some(TemporalState { frame: size, thumbnail, mask, weight, contradictions, matte: found });
        matte
    }

    /// Serialises the filter; after [`TemporalFilter::restore`] the results are identical.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        super::state::save(self.state.as_ref())
    }

    /// Restores the result of [`TemporalFilter::save`]; `None` for other bytes.
    #[must_use]
    pub fn restore(smoothing: u8, saved: &[u8]) -> Option<Self> {
        Some(Self { state: super::state::restore(saved)?, ..Self::new(smoothing) })
    }

    /// Largest weight of the past at this smoothing, 0 to `most` frames.
    fn frames(&self, most: f32) -> f32 {
        most * f32::from(self.smoothing) / 100.0
    }

    /// Consecutive contradicting frames after which the past is dropped.
    pub(super) fn contradiction_limit(&self) -> i8 {
        2 + (self.frames(MAX_PAST_FRAMES) / 3.0) as i8
    }

    /// `mask` fused with the past, cell by cell.
    fn fuse(&self, before: &TemporalState, motion: &Motion, mask: &RawMask) -> Fused {
        let (most, most_of_matte) = (self.frames(MAX_PAST_FRAMES), self.frames(MAX_PAST_FRAMES_OF_MATTE));
        let limit = self.contradiction_limit();
        let size = motion.flow.size;
        let cell = |at: usize| {
            let now = mask.values()[at];
            let (x, y) = motion.place(at);
            let was = Plane { values: before.mask.values(), size }.cubic(x, y).clamp(0.0, 1.0);
            let past = Plane { values: &before.weight, size }.linear(x, y).min(most) * motion.confidence[at];
            let step = if now - was > CONTRADICTION {
                1
            } else if now - was < -CONTRADICTION {
                -1
            } else {
                0
            };
            let streak = before.contradictions[motion.nearest(at)];
            let streak = if streak.signum() == step { streak.saturating_add(step) } else { step };
            let (past, streak) = if streak.saturating_abs() >= limit { (0.0, 0) } else { (past, streak) };
            let current = certainty(now);
            let of_matte = past.min(most_of_matte);
            ((past * was + current * now) / (past + current), past + current, streak, of_matte / (of_matte + 1.0))
        };
        let cells: Vec<_> = (0..mask.values().len()).into_par_iter().with_min_len(4096).map(cell).collect();
        let values = cells.iter().map(|&(value, ..)| value).collect();
        // Invalid only with NaN in the flow: the frame is then processed without its past.
        let Ok(mask) = RawMask::new(mask.size(), values) else {
            return Fused { matte_share: vec![0.0; mask.values().len()], ..Fused::without_past(mask.clone()) };
        };
        let mut fused = Fused { mask, weight: Vec::new(), contradictions: Vec::new(), matte_share: Vec::new() };
        for (_, weight, streak, share) in cells {
            fused.weight.push(weight);
            fused.contradictions.push(streak);
            fused.matte_share.push(share);
        }
        fused
    }
}

/// Weight of a mask value of the current frame: 1 at 0 and 1, [`UNCERTAIN_WEIGHT`] at one half.
fn certainty(value: f32) -> f32 {
    UNCERTAIN_WEIGHT + (1.0 - UNCERTAIN_WEIGHT) * (2.0 * value - 1.0).abs()
}

/// A filtered mask, the filter's new state, and the weight of the past in the matte.
struct Fused {
    mask: RawMask,
    weight: Vec<f32>,
    contradictions: Vec<i8>,
    matte_share: Vec<f32>,
}

impl Fused {
    /// For a frame without a past.
    fn without_past(mask: RawMask) -> Self {
        let weight = mask.values().iter().map(|&value| certainty(value)).collect();
        let contradictions = vec![0; mask.values().len()];
        Self { mask, weight, contradictions, matte_share: Vec::new() }
    }
}

/// Motion from a frame back to the previous one, with its confidence.
struct Motion {
    flow: Flow,
    confidence: Vec<f32>,
}

impl Motion {
    /// `None` at a scene cut.
    fn between(before: &TemporalState, thumbnail: &Thumbnail) -> Option<Self> {
        let size = [thumbnail.size.width as usize, thumbnail.size.height as usize];
        let flow = Flow::between(&before.thumbnail.grey(), &thumbnail.grey(), size);
        let confidence = flow_confidence(&before.thumbnail, thumbnail, &flow)?;
        Some(Self { flow, confidence })
    }

    fn place(&self, at: usize) -> (f32, f32) {
        let width = self.flow.size[0];
        ((at % width) as f32 + self.flow.right[at], (at / width) as f32 + self.flow.down[at])
    }

    fn nearest(&self, at: usize) -> usize {
        let (x, y) = self.place(at);
        let [width, height] = self.flow.size;
        let nearest = |value: f32, cells: usize| (value.round().max(0.0) as usize).min(cells - 1);
        nearest(y, height) * width + nearest(x, width)
    }
}

/// The previous frame's matte, warped along the flow, in the unknown band of the current one.
fn warped_matte(before: &AlphaMatte, flow: &Flow, share: &[f32], trimap: &Trimap) -> TemporalPrior {
    let size = trimap.size();
    let Size { width, height } = size;
    let picture = (width as usize, height as usize);
    let grid = (flow.size[0], flow.size[1]);
    let planes = [&flow.right, &flow.down].map(|plane| Upsampled::new(plane, grid, picture));
    let share = Upsampled::new(share, grid, picture);
    let (across, down) = (width as f32 / grid.0 as f32, height as f32 / grid.1 as f32);
    let matte = Plane { values: before.coverage(), size: [picture.0, picture.1] };
    let (mut coverage, mut weight) = (vec![0; size.area()], vec![0; size.area()]);
    let rows = coverage.par_chunks_mut(picture.0).zip(weight.par_chunks_mut(picture.0));
    rows.zip(trimap.labels().par_chunks(picture.0)).enumerate().for_each(|(y, ((coverage, weight), labels))| {
        for x in (0..picture.0).filter(|&x| labels[x] == Trimap::UNKNOWN) {
            weight[x] = (share.at(x, y) * 255.0 + 0.5) as u8;
            if weight[x] > 0 {
                let [right, below] = &planes;
                let place = (x as f32 + right.at(x, y) * across, y as f32 + below.at(x, y) * down);
                coverage[x] = (matte.cubic(place.0, place.1) + 0.5) as u8;
            }
        }
    });
    TemporalPrior::new(size, coverage, weight)
}
