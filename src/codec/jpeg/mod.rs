//! JPEG: marker layout, decoder, encoder.

mod decode;
mod encode;
mod layout;
mod restarts;

pub(super) use decode::decode;
pub(super) use encode::encode;
pub(super) use layout::Layout;
