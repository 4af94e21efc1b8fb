//! The report of a bulk run.

#![no_main]

backdrop_fuzz::target!(backdrop::bulk::fuzzing::report);
