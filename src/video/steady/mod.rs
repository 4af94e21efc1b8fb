//! Holds the masks and mattes of neighbouring frames together.
//!
//! A network that sees each frame for the first time changes its mind from one to the next: a hand comes and goes, an
//! edge trembles. So the mask that was found before is moved along with the picture (`flow`: motion between small copies
//! of the two frames on the network's own grid) and counts as so many frames as it was made of, up to a bound that
//! `smoothing` sets, as far as the motion is believed (`trust`): not where the picture does not look like where it is
//! said to come from, and not at all after a cut. What the network is unsure of counts less than what it is sure of. Where it
//! is sure and contradicts for several frames on end, it is right at once: nothing trails behind a subject.
//!
//! The matte is carried over in the same way: the one before, moved, is where closed-form matting starts from in the
//! unknown band, and is mixed into what it finds.

mod flow;
mod memory;
mod plane;
mod small;
mod trust;

use crate::image::{AlphaMatte, Frame, RawMask, Size, Trimap};
use crate::matting::{self, NoSubject, TemporalMatte, TemporalPrior};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use flow::Flow;
use memory::Memory;
use plane::Plane;
use rayon::prelude::*;
use small::Small;

/// Frames that the past counts as at most, at a smoothing of 100.
const MOST_FRAMES: f32 = 12.0;
/// The same in the matte, where a motion that is off by a pixel shows.
const MOST_FRAMES_OF_MATTE: f32 = 4.0;
/// A frame of which the network is entirely unsure counts as so much of one.
const UNSURE: f32 = 0.2;
/// The network contradicts where it is at least so far from the past.
const CONTRADICTION: f32 = 0.5;

/// What is remembered from one frame to the next.
#[derive(Debug)]
pub struct Steady {
    smoothing: u8,
    memory: Option<Memory>,
}

impl Steady {
    /// Before the first frame. `smoothing` is 0 (each frame alone) to 100; more counts as 100.
    #[must_use]
    pub fn new(smoothing: u8) -> Self {
        Self { smoothing: smoothing.min(100), memory: None }
    }

    /// The matte of the next frame, in the order of the clip, from what the network saw in it; empty where there is no
    /// subject. All frames have one size; one of another begins anew.
    #[must_use]
    pub fn next(&mut self, frame: &Frame, mask: RawMask) -> AlphaMatte {
        let size = frame.size();
        let nothing = |NoSubject| AlphaMatte::empty(size);
        if self.smoothing == 0 {
            return matting::estimate_matte(frame, &mask, &matting::Options::default()).unwrap_or_else(nothing);
        }
        let small = Small::of(frame, mask.size());
        let before = self.memory.take().filter(|before| before.frame == size && before.mask.size() == mask.size());
        let moved = before.as_ref().and_then(|before| Moved::between(before, &small));
        let Held { mask, age, contradicted, share } = match (before.as_ref(), &moved) {
            (Some(before), Some(moved)) => self.held(before, moved, &mask),
            (Some(_) | None, None) | (None, Some(_)) => Held::alone(mask),
        };
        let matte_before = before.as_ref().and_then(|before| before.matte.as_ref());
        let carry = |trimap: &Trimap| {
            let (matte, Moved { flow, .. }) = (matte_before?, moved.as_ref()?);
            Some(carried(matte, flow, &share, trimap))
        };
        let (matte, found) = match matting::estimate_matte_with_prior(frame, &mask, carry) {
            Ok(TemporalMatte { matte, unfiltered }) => (matte, Some(unfiltered)),
            Err(none) => (nothing(none), None),
        };
        self.memory = Some(Memory { frame: size, small, mask, age, contradicted, matte: found });
        matte
    }

    /// All of it as bytes, to go on after a restart exactly as if there had been none.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        memory::save(self.memory.as_ref())
    }

    /// Goes on from [`Steady::save`]; nothing when these are not its bytes.
    #[must_use]
    pub fn restore(smoothing: u8, saved: &[u8]) -> Option<Self> {
        Some(Self { memory: memory::restore(saved)?, ..Self::new(smoothing) })
    }

    /// Frames that the past counts as at most, 0 to `most`.
    fn frames(&self, most: f32) -> f32 {
        most * f32::from(self.smoothing) / 100.0
    }

    /// Frames on end that the network has to contradict the past to be right at once.
    fn patience(&self) -> i8 {
        2 + (self.frames(MOST_FRAMES) / 3.0) as i8
    }

    /// `mask` held together with the past.
    fn held(&self, before: &Memory, moved: &Moved, mask: &RawMask) -> Held {
        let (most, most_of_matte) = (self.frames(MOST_FRAMES), self.frames(MOST_FRAMES_OF_MATTE));
        let patience = self.patience();
        let size = moved.flow.size;
        let cell = |at: usize| {
            let now = mask.values()[at];
            let (x, y) = moved.place(at);
            let was = Plane { values: before.mask.values(), size }.cubic(x, y).clamp(0.0, 1.0);
            let count = Plane { values: &before.age, size }.linear(x, y).min(most) * moved.trust[at];
            let step = if now - was > CONTRADICTION {
                1
            } else if now - was < -CONTRADICTION {
                -1
            } else {
                0
            };
            let streak = before.contradicted[moved.nearest(at)];
            let streak = if streak.signum() == step { streak.saturating_add(step) } else { step };
            let (count, streak) = if streak.saturating_abs() >= patience { (0.0, 0) } else { (count, streak) };
            let sure = UNSURE + (1.0 - UNSURE) * (2.0 * now - 1.0).abs();
            let of_matte = count.min(most_of_matte);
            ((count * was + sure * now) / (count + sure), count + sure, streak, of_matte / (of_matte + 1.0))
        };
        let cells: Vec<_> = (0..mask.values().len()).into_par_iter().with_min_len(4096).map(cell).collect();
        let values = cells.iter().map(|&(value, ..)| value).collect();
        // Not valid only where a motion is no number: the frame is then processed alone.
        let Ok(mask) = RawMask::new(mask.size(), values) else {
            return Held { share: vec![0.0; mask.values().len()], ..Held::alone(mask.clone()) };
        };
        let mut held = Held { mask, age: Vec::new(), contradicted: Vec::new(), share: Vec::new() };
        for (_, age, streak, share) in cells {
            held.age.push(age);
            held.contradicted.push(streak);
            held.share.push(share);
        }
        held
    }
}

/// A mask, what it is made of, and how much the past counts in the matte.
struct Held {
    mask: RawMask,
    age: Vec<f32>,
    contradicted: Vec<i8>,
    share: Vec<f32>,
}

impl Held {
    /// A frame without a past.
    fn alone(mask: RawMask) -> Self {
        let sure = |&value: &f32| UNSURE + (1.0 - UNSURE) * (2.0 * value - 1.0).abs();
        let age = mask.values().iter().map(sure).collect();
        let contradicted = vec![0; mask.values().len()];
        Self { mask, age, contradicted, share: Vec::new() }
    }
}

/// Where the cells of a frame were in the one before.
struct Moved {
    flow: Flow,
    trust: Vec<f32>,
}

impl Moved {
    /// Nothing at a cut.
    fn between(before: &Memory, small: &Small) -> Option<Self> {
        let size = [small.size.width as usize, small.size.height as usize];
        let flow = Flow::between(&before.small.grey(), &small.grey(), size);
        let trust = trust::trust(&before.small, small, &flow)?;
        Some(Self { flow, trust })
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

/// The matte of the frame before, moved, in the unknown band of this one.
fn carried(before: &AlphaMatte, flow: &Flow, share: &[f32], trimap: &Trimap) -> TemporalPrior {
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

#[cfg(test)]
mod tests;
