//! Multipart forms and the recipes of their fields.

#![no_main]

backdrop_fuzz::target!(backdrop::http::fuzzing::form);
