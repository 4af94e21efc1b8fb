//! Schedule and bounds of one run of the pipeline: lane, tenant, deadline, limits of its input files.

use crate::codec::Limits;
use crate::engine::{Lane, Tenant};
use std::time::Instant;

/// Schedule and bounds of one run, whatever its recipe.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Lane of the queue: the priority of the picture.
    pub lane: Lane,
    /// Tenant whose turn it takes while it waits for memory or a worker.
    pub tenant: Tenant,
    /// Time after which the caller no longer waits.
    pub deadline: Instant,
    /// Limits of the input files.
    pub limits: Limits,
}

impl Call {
    /// The call of a request of `account`, whose client waits.
    #[must_use]
    pub fn of_request(account: &str, deadline: Instant, limits: Limits) -> Self {
        Self { lane: Lane::Interactive, tenant: Tenant::of(account), deadline, limits }
    }
}
