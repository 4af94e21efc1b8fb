//! Decodes and encodes JPEG, PNG, WebP and HEIC, detected by content and never by file name.
//!
//! [`probe`] walks the container with our own code (bounded, no allocation sized by a length field) and validates size
//! and structure; only then [`decode()`] passes the file to the format's decoder. The cost of a file follows from its
//! pixels and bytes, never from its declared values. Third-party decoders run inside `catch_panic`: a panic means a
//! damaged file and ends no worker. [`sandbox`] runs decoders, by default HEIC's, in processes without rights.
//!
//! Colour: an embedded ICC profile is applied and the result is sRGB (`icc`), except for masks, whose samples are
//! coverage. PNG's gAMA and cHRM are ignored, as Pillow does: such files are mostly sRGB with a rounded gamma. cICP is
//! ignored too.
//!
//! Peak memory of a decode in addition to the file, for a picture of P pixels: its frame (4 P bytes) and the decoder's
//! memory. JPEGs are copied once without their metadata (at most the file). Sizes are for 4096×4096 with the frame; those
//! marked * were measured (VmHWM over the idle process, 8-bit photos of 2 to 28 MB).
//!
//! | input | decoder's bytes per pixel | 4096×4096 |
//! |---|---|---|
//! | JPEG sequential | negligible | 69 MB * |
//! | JPEG progressive, or one scan per component | 2 per component (i16 coefficients) | 169 MB *, CMYK 203 MB |
//! | PNG | negligible | 65 MB * |
//! | WebP lossy / with alpha | 1.5 / 6.5 | 76 * / 177 MB |
//! | WebP lossless without / with alpha | 4 / none | 135 / 67 MB |
//! | WebP animation | 9.5 | 227 MB |
//! | HEIC | about 6 | 165 MB * |
//! | any but HEIC, rotated by 90° | 4, after the decoder's own are freed | 131 MB * |

mod byte_reader;
mod decode;
mod decoders;
mod encode;
mod encode_options;
mod error;
mod exif;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod header;
#[cfg(feature = "heic")]
pub mod heic;
mod icc;
mod jpeg;
mod limits;
mod orientation;
mod pixel_format;
mod png;
pub mod sandbox;
mod sniff;
mod webp;

pub use decode::{decode, probe, waits_for_worker};
pub use encode::{IsCancelled, encode, encode_unless, longest_side};
pub use encode_options::{Channels, EncodeOptions, PngEffort};
pub use error::{DecodeError, EncodeError};
pub use header::{Container, Flaw, Header};
pub use limits::Limits;
pub use sniff::{SNIFF_BYTES, detect_container};
