//! State of the public listener: the services of `app`, upload memory and limits, shared by all endpoints.

use super::app::App;
use super::auth_throttle::AuthThrottle;
use super::clip_upload::ClipSlots;
use super::config::{HttpConfig, LimitsConfig};
use super::fair_queue::FairQueue;
use super::page;
use super::reply_budget::ReplyBudget;
use super::upload_memory::UploadMemory;
use crate::codec::Limits;
use crate::recipe::ModelId;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

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
    /// `/assets/daemon.json`.
    pub(super) daemon_file: page::File,
    /// `/docs`, rendered once.
    pub(super) docs: OnceLock<Bytes>,
}

impl ApiState {
    pub(super) fn new(app: App, config: Arc<HttpConfig>, limits: &LimitsConfig) -> Self {
        let upload_bytes = config.max_upload_megabytes_in_flight.saturating_mul(1_000_000);
        let reply_bytes = config.max_reply_megabytes_in_flight.saturating_mul(1_000_000);
        let models: Vec<_> =
            ModelId::all().filter(|model| app.providers.is_configured(*model)).map(ModelId::as_str).collect();
        Self {
            daemon_file: page::daemon_file(limits.of_pictures(), &models, config.shows_prices(&app.prices)),
            docs: OnceLock::new(),
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
