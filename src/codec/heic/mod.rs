//! HEIC and HEIF, with libheif and libde265 (feature `heic`): structure checks, decode cost, decoder.

mod boxes;
mod cost;
mod deadline_reader;
mod decode;
mod hevc;
mod item_tables;

pub use decode::decoder_available;
pub(super) use decode::{decode, probe};
