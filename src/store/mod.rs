//! Module store.
