//! The outcome of a query and of each of its pictures.

use std::time::Duration;

/// The outcome of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A finished picture.
    Done,
    /// Refused because of load: 429, or a full queue in this process.
    Refused,
    /// Another status, or why there was no response.
    Failed(String),
}

/// The outcome of one picture, and its times.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    /// From the send to the last byte.
    pub(super) took: Duration,
    /// Milliseconds of each stage, in their order.
    pub(super) stages: Vec<(String, f64)>,
    /// Name and version of the model.
    pub(super) model: Option<String>,
    /// Time that the generator itself waited for a free connection.
    pub(super) waited: Duration,
}

impl Reply {
    /// A reply without stages and model.
    pub(super) const fn without_result(outcome: Outcome, took: Duration) -> Self {
        Self { outcome, took, stages: Vec::new(), model: None, waited: Duration::ZERO }
    }
}

/// One query: one picture or several that belong together.
#[derive(Clone, Debug)]
pub(super) struct Query {
    /// When it was due, since the start of the run.
    pub(super) at: Duration,
    /// From the due time to its last answer.
    pub(super) latency: Duration,
    /// How much later than due the generator sent it.
    pub(super) late: Duration,
    /// The pixels of its pictures.
    pub(super) pixels: usize,
    /// One for each picture.
    pub(super) replies: Vec<Reply>,
}

impl Query {
    /// Whether all its pictures are done.
    pub(super) fn is_done(&self) -> bool {
        self.replies.iter().all(|reply| reply.outcome == Outcome::Done)
    }
}
