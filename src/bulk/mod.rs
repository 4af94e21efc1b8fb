//! Pictures in bulk, from one place in object storage to another.
