//! The time per pixel of cutting out.

#![no_main]

backdrop_fuzz::target!(backdrop::matting::fuzzing::cutting_out);
