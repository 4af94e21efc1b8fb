//! Configuration: file < environment < flag.
