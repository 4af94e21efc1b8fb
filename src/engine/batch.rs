//! Dynamic batching without a delay: a batch is formed when the device is free.
//!
//! On an idle daemon the first ticket is a batch of its own at once; on a busy one tickets queue while the device works, and
//! all of them are the next batch. Tickets of callers that have disconnected by then are dropped.
//!
//! A batch consists of whole tickets: one that no longer fits begins the next batch, and one larger than `max` is a batch of
//! its own.

use super::queue::{Lanes, Ticket};
use crate::telemetry::metrics;
use std::time::Instant;

/// The next batch, of at most `max` pictures or of one ticket; empty when no ticket in the lanes is still wanted.
pub(super) fn form(lanes: &mut Lanes<Ticket>, max: usize, now: Instant) -> Vec<Ticket> {
    let mut batch = Vec::with_capacity(max.min(lanes.len()));
    let mut pictures = 0;
    while pictures < max {
        let room = max - pictures;
        let next = lanes.pop_if(now, |ticket: &Ticket| batch.is_empty() || ticket.frames.len() <= room);
        let Some(ticket) = next else { break };
        metrics::queue_left(ticket.lane.name(), ticket.frames.len());
        if let Some(ticket) = ticket.still_wanted(now) {
            pictures += ticket.frames.len();
            batch.push(ticket);
        }
    }
    batch
}
