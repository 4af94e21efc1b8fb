//! Stored records of all versions.

#![no_main]

backdrop_fuzz::target!(backdrop::store::fuzzing::record);
