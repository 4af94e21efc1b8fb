//! A cutout (foreground colour and coverage, straight alpha), and the input of composing.

use super::{AlphaMatte, Frame, Rect, Size};
use rayon::prelude::*;

/// The subject alone. Where coverage is 0 the colour is zero; where it is 255 the colour is the source's, bit for bit.
#[derive(Clone, Debug)]
pub struct Cutout(Frame);

impl Cutout {
    /// `foreground` (unmixed colours of the subject) with the coverage of `matte`. Works in the frame's buffer.
    ///
    /// # Panics
    /// When frame and matte differ in size.
    #[must_use]
    pub fn new(mut foreground: Frame, matte: &AlphaMatte) -> Self {
        assert_eq!(foreground.size(), matte.size(), "the matte is of another picture");
        const PART: usize = 1 << 15;
        let (pixels, _) = foreground.pixels_mut().as_chunks_mut::<4>();
        let parts = pixels.par_chunks_mut(PART).zip(matte.coverage().par_chunks(PART));
        parts.for_each(|(pixels, coverage)| {
            for (pixel, &coverage) in pixels.iter_mut().zip(coverage) {
                let colour = u32::from_le_bytes(*pixel) & 0x00ff_ffff;
                let packed = if coverage == 0 { 0 } else { colour | u32::from(coverage) << 24 };
                *pixel = packed.to_le_bytes();
            }
        });
        Self(foreground)
    }

    /// The cutout described by a picture's alpha channel; `None` when all pixels are transparent.
    #[must_use]
    pub fn from_alpha(mut frame: Frame) -> Option<Self> {
        let (pixels, _) = frame.pixels_mut().as_chunks_mut::<4>();
        let visible = pixels.iter_mut().fold(false, |visible, pixel| {
            if pixel[3] == 0 {
                *pixel = [0; 4];
            }
            visible || pixel[3] != 0
        });
        visible.then_some(Self(frame))
    }

    /// The pixels.
    #[must_use]
    pub const fn frame(&self) -> &Frame {
        &self.0
    }

    /// The frame, by value.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        self.0
    }

    /// The pixels, for corrections of the colours of covered pixels.
    pub(crate) const fn frame_mut(&mut self) -> &mut Frame {
        &mut self.0
    }
}

/// Input of composing.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The subject, cut out.
    Cutout(Cutout),
    /// The uncut source: the subject only determines the visible part.
    Source(Frame),
}

impl Subject {
    /// Width and height in pixels.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.frame().size()
    }

    /// The pixels.
    #[must_use]
    pub const fn frame(&self) -> &Frame {
        match self {
            Self::Cutout(cutout) => cutout.frame(),
            Self::Source(frame) => frame,
        }
    }

    /// The frame, by value.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        match self {
            Self::Cutout(cutout) => cutout.into_frame(),
            Self::Source(frame) => frame,
        }
    }

    /// The cutout with every pixel outside of `region` made transparent black.
    ///
    /// # Panics
    /// When `region` reaches beyond the picture.
    #[must_use]
    pub fn cleared_outside(mut self, region: Rect) -> Self {
        let (Self::Cutout(Cutout(frame)) | Self::Source(frame)) = &mut self;
        frame.clear_outside(region);
        self
    }
}
