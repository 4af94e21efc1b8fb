//! State of the public listener: the services of `app`, memory of accounts and limits, shared by all endpoints.

use crate::codec::Limits;
use crate::http::admission::{AuthThrottle, Memory};
use crate::http::app::App;
use crate::http::config::{HttpConfig, LimitsConfig};
use crate::http::page;
use crate::http::reply::Result;
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
    pub(super) memory: Memory,
    /// Rates by plan, and generated backdrops in a day.
    pub(super) per_caller: LimitsConfig,
    pub(super) auth_throttle: AuthThrottle,
    /// `/assets/daemon.json`.
    pub(super) daemon_file: page::File,
    /// `/docs`, rendered once.
    pub(super) docs: OnceLock<Bytes>,
}

impl ApiState {
    pub(super) fn new(app: App, config: Arc<HttpConfig>, limits: &LimitsConfig) -> Self {
        let models: Vec<_> =
            ModelId::all().filter(|model| app.providers.is_configured(*model)).map(ModelId::as_str).collect();
        Self {
            daemon_file: page::daemon_file(limits.of_pictures(), &models, config.shows_prices(&app.prices)),
            docs: OnceLock::new(),
            limits: limits.of_pictures(),
            memory: Memory::new(config.max_body_bytes(), limits.max_bytes),
            per_caller: limits.clone(),
            auth_throttle: AuthThrottle::new(config.wrong_keys_per_minute),
            app,
            config,
        }
    }

    /// Refuses a request for pictures (429) before its body is read, where its pictures would be refused.
    pub(super) fn require_room(&self, account: &str) -> Result<()> {
        self.memory.of(account).refuse_when_unread()?;
        Ok(self.app.processor.admission().place(account).map(drop)?)
    }
}
