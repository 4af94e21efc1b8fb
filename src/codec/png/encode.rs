//! Encodes PNG with the png crate.

use crate::codec::encode_options::PngEffort;
use crate::image::Size;
use png::{BitDepth, ColorType, Compression, Encoder, Filter};

/// The packed sample format.
#[derive(Clone, Copy, Debug)]
pub(in crate::codec) enum Packing {
    Grey,
    Rgb,
    Rgba,
}

/// Encodes 8-bit samples without metadata: such a PNG is sRGB.
pub(in crate::codec) fn encode(
    samples: &[u8],
    size: Size,
    packing: Packing,
    effort: PngEffort,
) -> Result<Vec<u8>, png::EncodingError> {
    let fast = compress(samples, size, packing, Compression::Fast)?;
    match effort {
        PngEffort::Fast => Ok(fast),
        // On noise the fast compressor, which is made for filtered rows, beats the match search (by 2 to 5 % on two of
        // three photo cutouts), in a tenth of its time.
        PngEffort::Small => {
            let balanced = compress(samples, size, packing, Compression::Balanced)?;
            Ok(if balanced.len() < fast.len() { balanced } else { fast })
        }
    }
}

fn compress(
    samples: &[u8],
    size: Size,
    packing: Packing,
    compression: Compression,
) -> Result<Vec<u8>, png::EncodingError> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, size.width, size.height);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_color(match packing {
        Packing::Grey => ColorType::Grayscale,
        Packing::Rgb => ColorType::Rgb,
        Packing::Rgba => ColorType::Rgba,
    });
    encoder.set_compression(compression);
    encoder.set_filter(Filter::Adaptive);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(samples)?;
    writer.finish()?;
    Ok(out)
}
