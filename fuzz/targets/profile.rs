//! Colour profiles.

#![no_main]

backdrop_fuzz::target!(backdrop::codec::fuzzing::profile);
