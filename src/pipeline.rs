//! The stage order, one function.
