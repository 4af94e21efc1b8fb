//! Header fields and PROXY headers.

#![no_main]

backdrop_fuzz::target!(backdrop::http::fuzzing::head);
