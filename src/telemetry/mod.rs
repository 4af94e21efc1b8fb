//! Module telemetry.
