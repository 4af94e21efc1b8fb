//! How one run of the pipeline is scheduled and bounded: lane, deadline, limits of its input files.

use crate::codec::Limits;
use crate::engine::{Lane, Tenant};
use std::time::Instant;

/// How a picture is treated, whatever its recipe.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The queue's lane: which pictures are processed first.
    pub lane: Lane,
    /// Whose turn it takes where it waits for memory or a worker.
    pub tenant: Tenant,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// Limits of the input files.
    pub limits: Limits,
}

impl Call {
    /// Of a request of an account, whose client waits.
    #[must_use]
    pub fn of_request(account: &str, deadline: Instant, limits: Limits) -> Self {
        Self { lane: Lane::Interactive, tenant: Tenant::of(account), deadline, limits }
    }
}
