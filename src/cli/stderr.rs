//! Prints progress and errors on standard error, which may be closed or full.

/// `eprintln!` that ignores a failed write, where that one panics: the work goes on, and the exit code reports its outcome.
macro_rules! print_stderr {
    ($($line:tt)+) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($line)+);
    }};
}
