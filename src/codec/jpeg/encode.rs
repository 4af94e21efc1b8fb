//! Encodes packed samples to JPEG with jpeg-encoder.

use crate::image::{Quality, Size};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// From this quality on, chroma is not subsampled.
const FULL_CHROMA_FROM: u8 = 90;

/// Encodes packed RGBA (alpha ignored) or grey samples.
pub(in crate::codec) fn encode(samples: &[u8], size: Size, grey: bool, quality: Quality) -> Result<Vec<u8>, String> {
    let side = |side: u32| u16::try_from(side).map_err(|_| format!("{size} is more than JPEG's 65535 pixels a side"));
    let (width, height) = (side(size.width)?, side(size.height)?);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, quality.get());
    encoder.set_sampling_factor(if quality.get() >= FULL_CHROMA_FROM {
        SamplingFactor::R_4_4_4
    } else {
        SamplingFactor::R_4_2_0
    });
    let channels = if grey { ColorType::Luma } else { ColorType::Rgba };
    encoder.encode(samples, width, height, channels).map_err(|error| error.to_string())?;
    Ok(out)
}
