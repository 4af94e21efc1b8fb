//! The instruction sets that a test can run on this CPU.

use backdrop_kernels::conv::Isa;

/// Whether this CPU has `isa`; prints a notice where it does not.
pub(crate) fn has(isa: Isa) -> bool {
    if !isa.is_available() {
        eprintln!("\n*** SKIPPED: this CPU has no {isa}, that path was NOT tested ***\n");
    }
    isa.is_available()
}

/// The instruction sets of this CPU; prints a notice for the others.
pub(crate) fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| has(*isa))
}
