//! Billing: reserves images against the monthly quotas of account and key, and bills what was made.
//!
//! A request reserves its images before any work and bills what it made when it succeeds; dropping the [`Reservation`]
//! releases what was not billed. Quotas are checked against billed plus reserved images under one lock, so that
//! concurrent requests never exceed them.
//!
//! A key may have a quota of its own, counted by day as the store keeps it; a request has to fit both.
//!
//! Billed is what the store has committed: the counters in memory are updated from its commits, so they are the same
//! after a restart. On a store that other processes change, the counters lag behind by less than a second, and the quotas are
//! checked again in the transaction of the bill. Reservations exist in memory only, because their requests end with the process.
//!
//! There a daemon also leases images of the keys in use ([`Billing::run_leases`]). While the database is away a bill is
//! acknowledged as far as they go; the store keeps it and commits it when the database is back. Until then its images stay
//! reserved in memory.

mod counters;
mod leased_bill;
mod leases;
mod quota;
mod service;
#[cfg(test)]
mod tests;

pub use quota::{Payer, QuotaExhausted, QuotaKind, UsageSummary};
pub use service::{Billed, Billing, BillingError, Reservation};
