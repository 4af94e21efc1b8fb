//! Arguments → configuration → subcommand → exit code.

use clap::Parser;
use std::process::ExitCode;

/// Large buffers come and go with every picture; mimalloc gives them back to the system sooner than glibc does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    backdrop::cli::Cli::parse().run()
}
