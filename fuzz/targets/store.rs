//! Changes of the store on a disk that fails and loses power.

#![no_main]

backdrop_fuzz::target!(backdrop::store::fuzzing::changes);
