//! Arguments, telemetry, subcommand, exit code.

fn main() {}
