//! HEIC and HEIF, with libheif and libde265 (feature `heic`): structure checks, decode cost, decoder.
//!
//! Three defences, each against what the others cannot see:
//!
//! * `item_tables` and `cost` read the tables first. A small file can describe hours of work, libde265 cannot be interrupted inside a
//!   picture, and tables that libheif reads differently would hide that work. The fuzz target `differential` proves which checks this
//!   takes: with `counting_decoder` in place of libde265 it compares the cost with what libheif decodes.
//! * `deadline_reader` ends a decode that takes long for another reason, between pictures.
//! * `codec::sandbox` confines what both libraries do with memory: a defect in them reaches one process without files or network.

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
