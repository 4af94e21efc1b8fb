//! Module engine.
