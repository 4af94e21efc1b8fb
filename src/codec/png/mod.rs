//! PNG: chunk layout, decoder, encoder.

mod decode;
mod encode;
mod layout;

pub(super) use decode::decode;
pub(super) use encode::{Packing, encode};
pub(super) use layout::Layout;
