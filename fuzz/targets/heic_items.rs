//! HEIC's cost check against what libheif decodes, for generated items and references.

#![no_main]

backdrop_fuzz::target!(backdrop::codec::fuzzing::cost_covers_what_libheif_decodes_of_items);
