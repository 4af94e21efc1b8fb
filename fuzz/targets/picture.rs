//! Picture files: the readers of containers against the decoders' sizes, memory and time.

#![no_main]

backdrop_fuzz::target!(backdrop::codec::fuzzing::picture);
