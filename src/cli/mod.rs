//! Module cli.
