//! Fuzz targets of the picture files: container readers against decoders, HEIC's cost check, colour profiles.

use super::icc::{self, CodePoints, Colors, Samples, SixteenBitTransform};
use super::{Limits, decode, probe};
use crate::fuzzing::peak_of;
use crate::image::BufferPool;

#[cfg(feature = "heic")]
pub use super::heic::{cost_covers_what_libheif_decodes, cost_covers_what_libheif_decodes_of_items};

/// Small pictures, so that a decode takes milliseconds.
const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_side: 512, max_megapixels: 1 };
/// Bytes that container readers may allocate, per byte of the file and as a constant.
const PROBE_RATIO: usize = 16;
const PROBE_BYTES: usize = 1 << 20;
/// Bytes per pixel that a decode may allocate: the most of the table in `codec`'s documentation (4 for the frame, 9.5
/// for an animation), 4 for a rotation, and as many again for growing buffers of a decoder.
const DECODE_RATIO: usize = 32;
/// Bytes that a decode may allocate in addition: tables of the decoders, a colour profile and its transform.
const DECODE_BYTES: usize = 24 << 20;

/// Probes and decodes a file.
///
/// # Panics
/// When peak memory exceeds the bound for its pixels and bytes, or the decoded size is not the probed one.
pub fn picture(bytes: &[u8]) {
    let (probed, peak) = peak_of(|| probe(bytes, &LIMITS).ok());
    let bound = PROBE_BYTES + PROBE_RATIO * bytes.len();
    assert!(peak <= bound, "the container of {} bytes took {peak} bytes of memory, more than {bound}", bytes.len());
    let Some(header) = probed else { return };
    let pool = BufferPool::new(0);
    let (decoded, peak) = peak_of(|| decode(bytes, &header, &pool).ok());
    let bound = DECODE_BYTES + DECODE_RATIO * header.size.area() + 2 * bytes.len();
    assert!(peak <= bound, "a picture of {} took {peak} bytes of memory, more than {bound}", header.size);
    if let Some(frame) = decoded {
        assert_eq!(frame.size(), header.size);
        assert_eq!(frame.pixels().len(), header.size.area() * 4);
    }
}

/// Applies the profile after the first byte to a few pixels of the colour model that the first byte selects.
///
/// # Panics
/// When alpha changes.
pub fn profile(bytes: &[u8]) {
    let Some((&model, profile)) = bytes.split_first() else { return };
    let mut pixels: Vec<u8> = (0..=255_u8).flat_map(|n| [n, n.wrapping_mul(3), n.wrapping_mul(7), n]).collect();
    let samples = [Some(Samples::Rgb), Some(Samples::Grey), None][usize::from(model % 3)];
    if let Some(samples) = samples {
        let colors = match *profile {
            [primaries, transfer] => Colors::CodePoints(CodePoints { primaries, transfer }),
            _ => Colors::Profile(profile.into()),
        };
        icc::to_srgb(&mut pixels, samples, Some(&colors));
        if let Some(transform) = SixteenBitTransform::of(samples, &colors) {
            transform.apply(&[0, 0, 0, 7, 30_000, 30_000, 30_000, 0, u16::MAX, u16::MAX, u16::MAX, 9], &mut [0; 12]);
        }
    } else {
        icc::cmyk_to_srgb(&mut pixels, Some(profile));
    }
    for (n, pixel) in (0..=255_u8).zip(pixels.as_chunks::<4>().0) {
        assert_eq!(pixel[3], if model % 3 == 2 { 255 } else { n }, "alpha of pixel {n}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{replay, replay_folder};

    #[test]
    fn seeds_of_pictures_pass() {
        replay("picture", picture);
        replay_folder("tests/fixtures/codec", picture);
    }

    #[test]
    fn seeds_of_profiles_pass() {
        replay("profile", profile);
    }

    #[cfg(feature = "heic")]
    #[test]
    fn seeds_of_heic_pass() {
        replay("heic", cost_covers_what_libheif_decodes);
        replay_folder("tests/fixtures/codec", cost_covers_what_libheif_decodes);
        replay("heic_items", cost_covers_what_libheif_decodes_of_items);
    }
}
