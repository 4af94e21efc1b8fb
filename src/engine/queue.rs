//! The queue of the device thread: tickets in two priority lanes, from which batches are formed when the device is free.
//!
//! On an idle daemon the first ticket is a batch at once; on a busy one tickets queue while the device works, and all of them are the next
//! batch. A batch consists of whole tickets: a ticket that no longer fits begins the next batch, and a ticket larger than `max` is a batch
//! alone.
//! The slots of admission bound the queue.

use super::{EngineError, Segmented, Slot};
use crate::image::{Frame, RawMask};
use crate::telemetry::metrics;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Longest time that the interactive lane may delay the bulk lane.
const MAX_BULK_DELAY: Duration = Duration::from_secs(1);

/// Priority of a ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lane {
    /// A caller is waiting: served first.
    #[default]
    Interactive,
    /// Takes the capacity that the interactive lane leaves, but is delayed by it for at most a second.
    Bulk,
}

impl Lane {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        }
    }
}

/// Pictures of one caller for the device, kept together. Owns its request's slot until it is answered, so the queue cannot
/// outgrow the slots.
#[derive(Debug)]
pub(super) struct Ticket {
    /// At least one.
    pub(super) frames: Vec<Frame>,
    pub(super) lane: Lane,
    pub(super) deadline: Instant,
    pub(super) queued_at: Instant,
    /// The caller's span, entered again on the device thread.
    pub(super) span: tracing::Span,
    pub(super) reply: oneshot::Sender<Result<Segmented, EngineError>>,
    pub(super) _slot: Slot,
}

impl Ticket {
    /// Fails this ticket.
    pub(super) fn fail(self, failure: EngineError) {
        let Self { frames, reply, _slot: slot, .. } = self;
        drop(frames);
        release_and_send(slot, reply, Err(failure));
    }

    /// Answers this ticket with the masks of its pictures.
    pub(super) fn succeed(self, masks: Vec<RawMask>, began: Instant, took: Duration) {
        let Self { frames, reply, _slot: slot, queued_at, .. } = self;
        let queued = began.saturating_duration_since(queued_at);
        release_and_send(slot, reply, Ok(Segmented { frames, masks, queued, took }));
    }

    /// The ticket, unless its deadline passed or its caller disconnected; then it is counted and dropped.
    pub(super) fn still_wanted(self, now: Instant) -> Option<Self> {
        if now >= self.deadline {
            metrics::queue_dropped(metrics::Dropped::Deadline);
            self.fail(EngineError::DeadlineExceeded);
            None
        } else if self.reply.is_closed() {
            metrics::queue_dropped(metrics::Dropped::ClientGone);
            None
        } else {
            Some(self)
        }
    }
}

/// Releases the slot before the answer is sent: the caller's next request must not be refused because of this one.
fn release_and_send(
    slot: Slot,
    reply: oneshot::Sender<Result<Segmented, EngineError>>,
    answer: Result<Segmented, EngineError>,
) {
    drop(slot);
    // An error means that the caller disconnected.
    let _: Result<(), _> = reply.send(answer);
}

/// A first-in, first-out queue for each lane.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    interactive: VecDeque<T>,
    /// With their times of arrival.
    bulk: VecDeque<(Instant, T)>,
    bulk_served_at: Option<Instant>,
}

impl<T> Lanes<T> {
    pub(super) const fn new() -> Self {
        Self { interactive: VecDeque::new(), bulk: VecDeque::new(), bulk_served_at: None }
    }

    pub(super) fn push(&mut self, lane: Lane, item: T, now: Instant) {
        match lane {
            Lane::Interactive => self.interactive.push_back(item),
            Lane::Bulk => self.bulk.push_back((now, item)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.interactive.len() + self.bulk.len()
    }

    /// The next item, if it `fits`. Interactive before bulk, unless bulk has been delayed for a second.
    ///
    /// An item that does not fit keeps its place and is not overtaken: else a stream of small items would starve a large one.
    ///
    /// The delay is measured for the lane and not for each ticket: else a flood of bulk tickets older than a second would go before
    /// every interactive ticket.
    pub(super) fn pop_if(&mut self, now: Instant, fits: impl FnOnce(&T) -> bool) -> Option<T> {
        let overdue = self.bulk.front().is_some_and(|(came, _)| {
            let delayed_since = self.bulk_served_at.map_or(*came, |served| served.max(*came));
            now.saturating_duration_since(delayed_since) > MAX_BULK_DELAY
        });
        if !overdue && let Some(next) = self.interactive.front() {
            return if fits(next) { self.interactive.pop_front() } else { None };
        }
        let (_, next) = self.bulk.front()?;
        if !fits(next) {
            return None;
        }
        let (_, item) = self.bulk.pop_front()?;
        self.bulk_served_at = Some(now);
        Some(item)
    }
}

/// The next batch, of at most `max` pictures or of one ticket; empty when no ticket in the lanes is still wanted.
pub(super) fn form_batch(lanes: &mut Lanes<Ticket>, max: usize, now: Instant) -> Vec<Ticket> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(lanes: &mut Lanes<u32>, now: Instant, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| lanes.pop_if(now, |_| true)).collect()
    }

    #[test]
    fn each_lane_is_first_in_first_out_and_interactive_goes_first() {
        let (mut lanes, now) = (Lanes::new(), Instant::now());
        for (lane, item) in [(Lane::Bulk, 10), (Lane::Interactive, 1), (Lane::Bulk, 11), (Lane::Interactive, 2)] {
            lanes.push(lane, item, now);
        }
        assert_eq!(popped(&mut lanes, now, 9), [1, 2, 10, 11]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn bulk_delayed_for_more_than_a_second_is_taken_next() {
        let (mut lanes, start) = (Lanes::new(), Instant::now());
        lanes.push(Lane::Bulk, 10, start);
        (0..4).for_each(|item| lanes.push(Lane::Interactive, item, start));
        assert_eq!(popped(&mut lanes, start + Duration::from_millis(1000), 1), [0]);
        assert_eq!(popped(&mut lanes, start + Duration::from_millis(1001), 2), [10, 1]);
    }

    #[test]
    fn an_item_that_does_not_fit_keeps_its_place_and_the_bulk_lane_its_turn() {
        let (mut lanes, start) = (Lanes::new(), Instant::now());
        for (lane, item) in [(Lane::Bulk, 10), (Lane::Interactive, 2), (Lane::Interactive, 1)] {
            lanes.push(lane, item, start);
        }
        let (is_small, late) = (|item: &u32| *item < 2, start + Duration::from_millis(1001));
        assert_eq!(lanes.pop_if(start, is_small), None, "the smaller one behind it does not overtake");
        assert_eq!(lanes.pop_if(late, is_small), None, "now bulk is next, and does not fit");
        assert_eq!(popped(&mut lanes, late, 3), [10, 2, 1], "it was not served, and so is still the next");
    }

    #[test]
    fn an_old_flood_of_bulk_does_not_go_before_interactive() {
        let (mut lanes, start) = (Lanes::new(), Instant::now());
        (10..20).for_each(|item| lanes.push(Lane::Bulk, item, start));
        (0..3).for_each(|item| lanes.push(Lane::Interactive, item, start));
        let late = start + Duration::from_secs(5);
        assert_eq!(popped(&mut lanes, late, 4), [10, 0, 1, 2]);
    }
}
