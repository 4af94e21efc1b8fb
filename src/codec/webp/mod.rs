//! WebP: RIFF layout, decoder, encoder.

mod decode;
mod encode;
mod layout;

pub(super) use decode::decode;
pub(super) use encode::{MAX_SIDE, encode_lossless, encode_lossy};
pub(super) use layout::Layout;
