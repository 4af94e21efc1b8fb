//! Reading and writing picture files, by content and never by name.
//!
//! [`probe`] walks the container with code of ours (bounded, no allocation that a length field decides) and judges
//! size and structure; [`decode`] hands the file to the format's decoder only after that, so what a file can cost
//! follows from its size in pixels and bytes, never from what it claims. Third-party decoders run inside
//! `guarded`: a panic in one of them is a damaged file, not a dead worker.
//!
//! Colour: an embedded ICC profile is applied and the result is sRGB (`icc`). PNG's gAMA and cHRM are ignored, as
//! Pillow does: files that carry them alone are mostly sRGB with a rounded gamma. So is cICP.
//!
//! Peak memory of a decode beside the file itself, for a picture of P pixels: its frame (4 P bytes) and what the
//! decoder holds. JPEGs are copied once more without their metadata (at most the file). Sizes are for 4096×4096 with
//! the frame; those marked * were measured (VmHWM over the idle process, 8-bit photos of 2 to 28 MB).
//!
//! | input | decoder's bytes a pixel | 4096×4096 |
//! |---|---|---|
//! | JPEG sequential | none to speak of | 69 MB * |
//! | JPEG progressive, or a scan for each component | 2 a component (i16 coefficients) | 169 MB *, inks 203 MB |
//! | PNG | none to speak of | 65 MB * |
//! | WebP lossy / with alpha | 1.5 / 6.5 | 76 * / 177 MB |
//! | WebP lossless without / with alpha | 4 / none | 135 / 67 MB |
//! | WebP animation | 9.5 | 227 MB |
//! | HEIC | about 6 | 165 MB * |
//! | any but HEIC, turned by a quarter | 4, after the decoder's own are freed | 131 MB * |

mod bytes;
mod encode;
mod exif;
#[cfg(feature = "heic")]
pub mod heic;
mod icc;
mod jpeg;
mod orientation;
mod pack;
mod png;
mod sniff;
mod webp;

use self::orientation::Orientation;
use self::sniff::Kind;
use crate::image::{BufferPool, Composite, EncodedImage, Frame, OutputFormat, Quality, Size};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The containers that Backdrop reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// WebP.
    WebP,
    /// HEIC / HEIF.
    Heic,
}

/// What an input may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub max_bytes: usize,
    /// Pixels of the longer side.
    pub max_side: u32,
    /// Millions of pixels.
    pub max_megapixels: u32,
}

impl Limits {
    /// For pictures of the machine's own user: what cameras of 100 megapixels make. Cutting out such a JPEG takes 1.1 GB at
    /// its peak, one of 24 megapixels 0.44 GB (VmHWM of `backdrop remove`, PNG, the network's 0.2 GB included).
    pub const LOCAL: Self = Self { max_bytes: 200 << 20, max_side: 16_384, max_megapixels: 150 };

    /// The larger of both, limit by limit.
    #[must_use]
    pub fn or_larger(self, other: Self) -> Self {
        Self {
            max_bytes: self.max_bytes.max(other.max_bytes),
            max_side: self.max_side.max(other.max_side),
            max_megapixels: self.max_megapixels.max(other.max_megapixels),
        }
    }
}

impl Default for Limits {
    /// Those of the API: 10 MB, and 4096×4096 pixels, which are not quite 17 million.
    fn default() -> Self {
        Self { max_bytes: 10 << 20, max_side: 4096, max_megapixels: 17 }
    }
}

/// What the header says, read without allocating for pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The container, by content.
    pub container: Container,
    /// Size of the upright picture.
    pub size: Size,
    /// The limits that it was checked against.
    pub limits: Limits,
}

/// Why an input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// Not one of the containers read here.
    #[error("not a JPEG, PNG, WebP or HEIC file{}", .found.map(|name| format!(" (it looks like {name})")).unwrap_or_default())]
    Unsupported {
        /// What it looks like, when that is known.
        found: Option<&'static str>,
    },
    /// Over `max_bytes`.
    #[error("the file has more than {limit} bytes")]
    TooManyBytes {
        /// The limit.
        limit: usize,
    },
    /// Over `max_side`.
    #[error("the picture is {size}, more than {limit}×{limit} pixels")]
    TooManyPixels {
        /// Size of the picture.
        size: Size,
        /// The limit of each side.
        limit: u32,
    },
    /// Over `max_megapixels`.
    #[error("the picture is {size}, more than {limit} megapixels")]
    TooManyMegapixels {
        /// Size of the picture.
        size: Size,
        /// The limit.
        limit: u32,
    },
    /// Truncated, corrupt, or costlier than its pixels can explain.
    #[error("the file is damaged: {0}")]
    Corrupt(String),
}

/// With so many bytes, or with all of them, [`recognise`] refuses nothing that it would take with more.
pub const SNIFF_BYTES: usize = 512;

/// The container, by the first bytes of a file.
///
/// # Errors
/// [`DecodeError::Empty`] and [`DecodeError::Unsupported`].
pub fn recognise(bytes: &[u8]) -> Result<Container, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    match sniff::kind(bytes) {
        Kind::Readable(container) => Ok(container),
        Kind::Foreign(found) => Err(DecodeError::Unsupported { found }),
    }
}

/// Reads container, size and orientation, and judges the limits. Allocates nothing for pixels.
///
/// # Errors
/// See [`DecodeError`].
pub fn probe(bytes: &[u8], limits: &Limits) -> Result<Header, DecodeError> {
    if bytes.len() > limits.max_bytes {
        return Err(DecodeError::TooManyBytes { limit: limits.max_bytes });
    }
    let container = recognise(bytes)?;
    let size = match container {
        Container::Jpeg => jpeg::Layout::read(bytes, limits)?.upright(bytes),
        Container::Png => png::Layout::read(bytes, limits)?.upright(bytes),
        Container::WebP => webp::Layout::read(bytes, limits)?.upright(bytes),
        #[cfg(feature = "heic")]
        Container::Heic => heic::probe(bytes, limits)?,
        #[cfg(not(feature = "heic"))]
        Container::Heic => {
            return Err(DecodeError::Unsupported { found: Some("HEIC, which this build does not read") });
        }
    };
    Ok(Header { container, size, limits: *limits })
}

/// Decodes a probed file: upright, sRGB, straight alpha.
///
/// # Errors
/// [`DecodeError::Corrupt`] when the file does not hold what its header promised.
pub fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    // Whatever the layouts read here is held against the probed size below, so no limit of its own is needed.
    let frame = match header.container {
        Container::Jpeg => jpeg::decode(bytes, header.size, pool)?,
        Container::Png => png::decode(bytes, header.size, pool)?,
        Container::WebP => webp::decode(bytes, header.size, pool)?,
        #[cfg(feature = "heic")]
        Container::Heic => heic::decode(bytes, header, pool)?,
        #[cfg(not(feature = "heic"))]
        Container::Heic => {
            return Err(DecodeError::Unsupported { found: Some("HEIC, which this build does not read") });
        }
    };
    if frame.size() == header.size { Ok(frame) } else { Err(not_as_probed()) }
}

/// The file is not the one that the header came from.
fn not_as_probed() -> DecodeError {
    DecodeError::Corrupt("its size is not what the header promised".to_owned())
}

/// Judges a stored size; turning a picture exchanges its sides and changes no answer.
fn judge(stored: Size, limits: &Limits) -> Result<(), DecodeError> {
    if stored.width == 0 || stored.height == 0 {
        return Err(DecodeError::Corrupt("a side of zero pixels".to_owned()));
    }
    if stored.longest() > limits.max_side {
        return Err(DecodeError::TooManyPixels { size: stored, limit: limits.max_side });
    }
    if stored.area() as u64 > u64::from(limits.max_megapixels) * 1_000_000 {
        return Err(DecodeError::TooManyMegapixels { size: stored, limit: limits.max_megapixels });
    }
    Ok(())
}

/// The limits of a file that was probed before: only its own size.
fn limits_of(probed: Size) -> Limits {
    Limits { max_bytes: usize::MAX, max_side: probed.longest(), max_megapixels: u32::MAX }
}

/// Runs a third-party decoder; a panic inside is a damaged file.
fn guarded<T>(what: &str, work: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    // Unwind safety: everything that `work` touches is dropped with it or is a pooled buffer that is zeroed when it
    // is taken again.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(DecodeError::Corrupt(format!("the {what} decoder gave it up"))))
}

fn corrupt(reason: impl std::fmt::Display) -> DecodeError {
    DecodeError::Corrupt(reason.to_string())
}

/// How hard the PNG encoder tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PngEffort {
    /// Quick, files a quarter larger.
    #[default]
    Fast,
    /// Slow, small files.
    Small,
}

/// Which channels are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channels {
    /// Colour and alpha.
    #[default]
    Rgba,
    /// The alpha alone, as 8-bit grey.
    Alpha,
}

/// How to write a picture.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// The container.
    pub format: OutputFormat,
    /// JPEG and WebP quality.
    pub quality: Quality,
    /// PNG effort.
    pub png: PngEffort,
    /// Which channels.
    pub channels: Channels,
}

/// Why a picture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The encoder refused.
    #[error("encoding {format:?} failed: {reason}")]
    Encoder {
        /// The container.
        format: OutputFormat,
        /// What it said.
        reason: String,
    },
}

/// The longest side that a file of the format can have.
#[must_use]
pub const fn longest_side(format: OutputFormat) -> u32 {
    match format {
        OutputFormat::WebP => webp::MAX_SIDE,
        OutputFormat::Jpeg => u16::MAX as u32,
        // A signed 32-bit integer in the file.
        OutputFormat::Png => i32::MAX as u32,
    }
}

/// Writes a picture: sRGB, no metadata, colour under zero alpha zeroed.
///
/// # Errors
/// [`EncodeError`] when the encoder refuses.
pub fn encode(composite: Composite, options: &EncodeOptions) -> Result<EncodedImage, EncodeError> {
    encode::encode(composite, options)
}
