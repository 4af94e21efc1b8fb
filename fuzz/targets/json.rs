//! JSON bodies, with and without a picture in them.

#![no_main]

backdrop_fuzz::target!(backdrop::http::fuzzing::json);
