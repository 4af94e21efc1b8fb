//! HEIC and HEIF, with libheif and libde265 (feature `heic`): structure checks, decode cost, decoder.

mod boxes;
mod cost;
#[cfg(any(test, fuzzing))]
mod counting_decoder;
mod deadline_reader;
mod decode;
#[cfg(any(test, fuzzing))]
mod differential;
mod hevc;
#[cfg(any(test, fuzzing))]
mod item_graph;
mod item_tables;

pub use decode::decoder_available;
pub(super) use decode::{decode, probe};
#[cfg(any(test, fuzzing))]
pub use differential::{cost_covers_what_libheif_decodes, cost_covers_what_libheif_decodes_of_items};
