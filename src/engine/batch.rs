//! Forming a batch: as late as possible, when the device is free for it.
//!
//! There is no delay to tune. On an idle daemon the first ticket is a batch of one at once; on a busy one tickets
//! pile up while the device works, and the next batch is as deep as the pile. Late forming also sees callers that
//! went away meanwhile.

use super::queue::{Lanes, Ticket};
use crate::telemetry::metrics;
use std::time::Instant;

/// The next batch, of at most `max` tickets; empty when nobody in the lanes is still wanted.
pub(super) fn form(lanes: &mut Lanes<Ticket>, max: usize, now: Instant) -> Vec<Ticket> {
    let mut batch = Vec::with_capacity(max.min(lanes.len()));
    while batch.len() < max {
        let Some(ticket) = lanes.pop(now) else { break };
        metrics::queue_left(ticket.lane.name());
        batch.extend(ticket.still_wanted(now));
    }
    batch
}
