//! State of the public listener: the services of `app`, upload memory and limits, shared by all endpoints.

use crate::codec::Limits;
use crate::http::admission::auth_throttle::AuthThrottle;
use crate::http::admission::fair_queue::FairQueue;
use crate::http::admission::reply_budget::ReplyBudget;
use crate::http::admission::upload_memory::UploadMemory;
use crate::http::app::App;
use crate::http::config::{HttpConfig, LimitsConfig};
use crate::http::request::clip_upload::ClipSlots;
use std::sync::Arc;

/// Services, settings, memory budgets and rate limiters of the public listener.
#[derive(Debug)]
pub(super) struct ApiState {
    pub(super) app: App,
    pub(super) config: Arc<HttpConfig>,
    /// Largest picture that is taken.
    pub(super) limits: Limits,
    pub(super) uploads: UploadMemory,
    /// Places and turns of the pictures in flight, by account.
    pub(super) queue: FairQueue,
    pub(super) replies: ReplyBudget,
    pub(super) clips: ClipSlots,
    /// Generated backdrops in a day, of all accounts together.
    pub(super) backdrops_per_day: u32,
    /// Rate limits by plan.
    pub(super) per_caller: LimitsConfig,
    pub(super) auth_throttle: AuthThrottle,
}

impl ApiState {
    pub(super) fn new(app: App, config: Arc<HttpConfig>, limits: &LimitsConfig) -> Self {
        let upload_bytes = config.max_upload_megabytes_in_flight.saturating_mul(1_000_000);
        let reply_bytes = config.max_reply_megabytes_in_flight.saturating_mul(1_000_000);
        Self {
            limits: limits.of_pictures(),
            uploads: UploadMemory::new(upload_bytes, limits.max_bytes),
            queue: FairQueue::new(app.processor.capacity()),
            replies: ReplyBudget::new(reply_bytes),
            clips: ClipSlots::new(),
            backdrops_per_day: limits.backdrop_ai_per_day,
            per_caller: limits.clone(),
            auth_throttle: AuthThrottle::new(config.wrong_keys_per_minute),
            app,
            config,
        }
    }
}
