//! The filter step: fuses a frame's mask and matte with the warped previous ones.

use super::flow_confidence::flow_confidence;
use super::flow_consistency::reduce_by_inconsistency;
use super::optical_flow::Flow;
use super::state::TemporalState;
use super::thumbnail::Thumbnail;
use crate::image::{AlphaMatte, Frame, RawMask};
use crate::matting::{self, FrameMatte, NoSubject, PreviousFrame, TemporalMatte};
use backdrop_kernels::interpolation::Plane;
use backdrop_kernels::recycled::Recycled;
use multiversion::multiversion;
use rayon::prelude::*;

/// Largest weight of the past in the mask, in frames, at a smoothing of 100.
const MAX_PAST_FRAMES: f32 = 12.0;
/// Largest weight of the past in the matte, where a flow error of one pixel is visible.
const MAX_PAST_FRAMES_OF_MATTE: f32 = 4.0;
/// Weight of a cell with value one half, at a soft edge, relative to a certain cell.
const UNCERTAIN_WEIGHT: f32 = 0.2;
/// Smallest difference between mask and past that counts as a contradiction.
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

    /// The matte of the clip's next frame, from its mask; empty without a subject. A new size restarts the filter.
    #[must_use]
    pub fn next(&mut self, frame: &Frame, mask: RawMask) -> FrameMatte {
        let size = frame.size();
        let nothing = |NoSubject| FrameMatte::Host(AlphaMatte::empty(size));
        // A network's matte is the coverage of its frame and is not averaged.
        if self.smoothing == 0 || mask.is_matte() {
            return matting::estimate_frame_matte(frame, &mask).unwrap_or_else(nothing);
        }
        let mask = matting::clean_frame_mask(frame, &mask);
        let thumbnail = Thumbnail::of(frame, mask.size());
        let before = self.state.take().filter(|before| before.frame == size && before.mask.size() == mask.size());
        let motion = before.as_ref().and_then(|before| Motion::between(before, &thumbnail));
        let Fused { mask, weight, contradictions, matte_share } = match (before.as_ref(), &motion) {
            (Some(before), Some(motion)) => self.fuse(before, motion, &mask),
            (Some(_) | None, None) | (None, Some(_)) => Fused::without_past(mask),
        };
        let before = before.as_ref().and_then(|before| before.matte.as_ref()).zip(motion.as_ref());
        let previous = before.map(|(unfiltered, Motion { flow, .. })| PreviousFrame {
            unfiltered,
            grid: mask.size(),
            flow: [&flow.right, &flow.down],
            share: &matte_share,
        });
        let (matte, found) = match matting::estimate_matte_with_prior(frame, &mask, previous.as_ref()) {
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
        let fusion = Fusion {
            before,
            motion,
            mask,
            most: self.frames(MAX_PAST_FRAMES),
            most_of_matte: self.frames(MAX_PAST_FRAMES_OF_MATTE),
            limit: self.contradiction_limit(),
        };
        let mut cells = Recycled::<Vec<FusedCell>>::for_overwrite(mask.values().len());
        let tasks = cells.par_chunks_mut(FUSED_CELLS).enumerate();
        tasks.for_each(|(task, cells)| fuse_cells(&fusion, task * FUSED_CELLS, cells));
        let values = Recycled::collected(cells.iter().map(|cell| cell.value));
        // Invalid only for NaN in the flow: the frame is then processed without the past.
        let Ok(mask) = RawMask::new(mask.size(), values) else {
            return Fused { matte_share: vec![0.0; mask.values().len()], ..Fused::without_past(mask.clone()) };
        };
        let mut fused = Fused { mask, weight: Vec::new(), contradictions: Vec::new(), matte_share: Vec::new() };
        fused.weight.extend(cells.iter().map(|cell| cell.weight));
        fused.contradictions.extend(cells.iter().map(|cell| cell.contradictions));
        fused.matte_share.extend(cells.iter().map(|cell| cell.matte_share));
        fused
    }
}

/// Cells per task.
const FUSED_CELLS: usize = 4096;

struct Fusion<'a> {
    before: &'a TemporalState,
    motion: &'a Motion,
    mask: &'a RawMask,
    /// Largest weight of the past in the mask and in the matte, in frames.
    most: f32,
    most_of_matte: f32,
    /// Consecutive contradictions after which the past is dropped.
    limit: i8,
}

#[derive(Clone, Copy, Debug, Default)]
struct FusedCell {
    value: f32,
    weight: f32,
    contradictions: i8,
    matte_share: f32,
}

/// Fuses the cells from `first` on.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn fuse_cells(fusion: &Fusion<'_>, first: usize, cells: &mut [FusedCell]) {
    let Fusion { before, motion, mask, most, most_of_matte, limit } = *fusion;
    let size = motion.flow.size;
    for (at, cell) in (first..).zip(cells) {
        let now = mask.values()[at];
        let (x, y) = motion.flow.previous_position(at);
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
        *cell = FusedCell {
            value: (past * was + current * now) / (past + current),
            weight: past + current,
            contradictions: streak,
            matte_share: of_matte / (of_matte + 1.0),
        };
    }
}

/// Weight of a mask value of the current frame: 1 at 0 and 1, [`UNCERTAIN_WEIGHT`] at one half.
#[inline(always)]
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
    /// The result for a frame processed without the past.
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
        let [was, now] = [&before.thumbnail, thumbnail].map(Thumbnail::grey);
        let flow = Flow::between(&was, &now, size);
        let mut confidence = flow_confidence(&before.thumbnail, thumbnail, &flow)?;
        reduce_by_inconsistency(&mut confidence, &flow, &Flow::between_halves(&now, &was, size));
        Some(Self { flow, confidence })
    }

    #[inline(always)]
    fn nearest(&self, at: usize) -> usize {
        let (x, y) = self.flow.previous_position(at);
        let [width, height] = self.flow.size;
        let nearest = |value: f32, cells: usize| (value.round().max(0.0) as usize).min(cells - 1);
        nearest(y, height) * width + nearest(x, width)
    }
}
