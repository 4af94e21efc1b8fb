//! URLs, addresses, and the table of public ones.

#![no_main]

backdrop_fuzz::target!(backdrop::source::fuzzing::address);
