//! The instruction sets that a test can run on this CPU.

use crate::support::skipped;
use backdrop_kernels::conv::Isa;

/// Whether this CPU has `isa`; prints a notice otherwise.
pub(crate) fn has(isa: Isa) -> bool {
    if !isa.is_available() {
        skipped::notice(&format!("this CPU has no {isa}, that path was NOT tested"));
    }
    isa.is_available()
}

/// The instruction sets of this CPU; prints a notice for the others.
pub(crate) fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| has(*isa))
}
