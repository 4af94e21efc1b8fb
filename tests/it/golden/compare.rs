//! Difference of two pictures, and the tolerances of each stage.
//!
//! Colours are compared premultiplied. The tolerances hold for every instruction set and device; an intended change is
//! recorded with `make golden-update`.

use backdrop::image::Frame;
use std::fmt;

/// A stage of the pipeline, for its tolerances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The network's mask, on its own grid.
    Mask,
    /// Coverage at source size.
    Matte,
    /// The picture in the reply.
    Result,
}

/// Differences of two frames of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Intersection over union of the pixels above one half, with [`GRACE`] pixels added to both so that specks do not count.
    pub(super) iou: f64,
    /// Mean absolute difference of all channels, 0 to 1.
    pub(super) mean: f64,
    /// Share of pixels that differ by more than 2, 16 and 64 of 255 in a channel.
    pub(super) over: [f64; 3],
}

/// The steps of [`Figures::over`].
const STEPS: [u8; 3] = [2, 16, 64];
/// Pixels added in [`Figures::iou`].
const GRACE: f64 = 100.0;

impl Figures {
    /// `None` when the sizes differ.
    pub(super) fn of(before: &Frame, after: &Frame) -> Option<Self> {
        if before.size() != after.size() {
            return None;
        }
        let (mut sum, mut over, mut common, mut either) = (0u64, [0u64; 3], 0u64, 0u64);
        for (one, other) in before.pixels().as_chunks::<4>().0.iter().zip(after.pixels().as_chunks::<4>().0) {
            let (one, other) = (premultiplied(*one), premultiplied(*other));
            let differences: [u8; 4] = std::array::from_fn(|channel| one[channel].abs_diff(other[channel]));
            sum += differences.iter().map(|&value| u64::from(value)).sum::<u64>();
            let largest = differences.into_iter().max().unwrap_or(0);
            for (count, step) in over.iter_mut().zip(STEPS) {
                *count += u64::from(largest > step);
            }
            let likely = [one[0] > 127, other[0] > 127];
            common += u64::from(likely == [true; 2]);
            either += u64::from(likely != [false; 2]);
        }
        let pixels = before.size().area() as f64;
        // In a grey picture three channels are equal and alpha is 255.
        let channels = if is_grey(before) && is_grey(after) { 3.0 } else { 4.0 };
        Some(Self {
            iou: (common as f64 + GRACE) / (either as f64 + GRACE),
            mean: sum as f64 / (255.0 * channels * pixels),
            over: over.map(|count| count as f64 / pixels),
        })
    }

    /// The worse of each figure.
    pub(super) fn worst(&self, other: &Self) -> Self {
        // All zero before the first comparison.
        let iou = if *self == Self::default() { other.iou } else { self.iou.min(other.iou) };
        let over = std::array::from_fn(|step| self.over[step].max(other.over[step]));
        Self { iou, mean: self.mean.max(other.mean), over }
    }

    /// Whether they are within the tolerances of `stage`.
    pub(super) fn hold(&self, stage: Stage) -> bool {
        let [two, sixteen, sixty_four] = self.over;
        match stage {
            Stage::Mask => self.iou >= 0.99 && self.mean <= 0.004,
            Stage::Matte => self.mean <= 0.004 && sixteen <= 0.01 && sixty_four <= 0.001,
            Stage::Result => self.mean <= 0.004 && two <= 0.02 && sixteen <= 0.005 && sixty_four <= 0.001,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [two, sixteen, sixty_four] = self.over.map(|share| 100.0 * share);
        write!(
            f,
            "IoU {:.4}, mean {:.5}, over 2: {two:.3} %, over 16: {sixteen:.3} %, over 64: {sixty_four:.3} %",
            self.iou, self.mean
        )
    }
}

fn is_grey(frame: &Frame) -> bool {
    frame.pixels().as_chunks::<4>().0.iter().all(|&[r, g, b, a]| r == g && g == b && a == 255)
}

/// Premultiplied colour and alpha.
pub(super) fn premultiplied([r, g, b, a]: [u8; 4]) -> [u8; 4] {
    let share = |value: u8| {
        let product = (u16::from(value) * u16::from(a) + 127) / 255;
        u8::try_from(product).expect("at most 255")
    };
    [share(r), share(g), share(b), a]
}
