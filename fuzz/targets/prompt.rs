//! The parser of prompts.

#![no_main]

backdrop_fuzz::target!(backdrop::generate::fuzzing::prompt);
