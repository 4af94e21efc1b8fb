//! The time per pixel of cutting out.

#![no_main]

// A pixel takes about a microsecond on this build.
backdrop_fuzz::target!(backdrop::matting::fuzzing::cutting_out, std::time::Duration::from_micros(10));
