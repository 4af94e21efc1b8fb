//! A job to be created from a request, and the outcome of creating it.

use super::job_view::JobView;
use crate::store::Reservation;

/// A job to be created.
#[derive(Debug)]
pub struct NewJob {
    /// Public id of the caller's key.
    pub key_id: String,
    /// The account that is billed.
    pub account: String,
    /// Created with a sandbox key.
    pub test: bool,
    /// The validated request fields: names and values.
    pub fields: Vec<(String, String)>,
    /// The output format, as the field `format` names it.
    pub format: &'static str,
    /// The `Idempotency-Key`.
    pub name: Option<String>,
    /// SHA-256 of everything that the result depends on.
    pub fingerprint: [u8; 32],
    /// Millionths of a dollar for a second of the result; 0 for a sandbox key.
    pub unit_price: u64,
    /// The webhook to send at its end.
    pub webhook: Option<NewWebhook>,
    /// The reserved images that it may use, one for each started second. `None` for a sandbox key.
    pub reservation: Option<Reservation>,
}

/// The webhook to send at the end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWebhook {
    /// The validated address.
    pub url: String,
    /// Scheme and host by which the caller reached this daemon, for the addresses in the message.
    pub base: String,
}

/// The outcome of a creation.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// A new job was queued.
    New(JobView),
    /// The same request with this `Idempotency-Key` created this job before. Nothing was created.
    Same(JobView),
    /// Another request used this `Idempotency-Key` before. Nothing was created.
    Conflict,
}
