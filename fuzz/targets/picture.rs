//! Picture files: the readers of containers against the decoders' sizes, memory and time.

#![no_main]

backdrop_fuzz::target!(|bytes: &[u8]| backdrop::codec::fuzzing::picture(bytes, &backdrop_fuzz::peak_of));
