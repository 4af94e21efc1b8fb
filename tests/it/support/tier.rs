//! Which tier of checks runs: every change (quick), or `make nightly` (many rounds).

/// The number of rounds of a long test: `every_change`, or `nightly` with `BACKDROP_TEST_TIER=nightly`.
#[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
pub(crate) fn rounds(every_change: usize, nightly: usize) -> usize {
    match std::env::var("BACKDROP_TEST_TIER").as_deref() {
        Ok("nightly") => nightly,
        _ => every_change,
    }
}
