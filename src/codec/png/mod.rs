//! PNG: chunk layout, decoder, encoder.

mod decode;
mod encode;
mod filter;
mod layout;
mod packing;
mod strip;
mod zero_runs;

pub(super) use decode::decode;
pub(super) use encode::encode;
pub(super) use layout::Layout;
pub(super) use packing::Packing;
