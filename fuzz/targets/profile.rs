//! Colour profiles.

#![no_main]

backdrop_fuzz::target!(|bytes: &[u8]| backdrop::codec::fuzzing::profile(bytes, &backdrop_fuzz::peak_of));
