//! The public listener: route, key, rate, then the endpoint. Each check comes before the next can cost anything.

use super::clip::ClipRoom;
use super::compat;
use super::config::{HttpConfig, LimitsConfig};
use super::docs;
use super::doorman::Doorman;
use super::error::{ApiError, ErrorCode};
use super::exchange::{Exchange, Service};
use super::reply_budget::ReplyBudget;
use super::response::{self, Reply};
use super::router::{self, JOB_PATH, Routine, Target};
use super::routes;
use super::upload_memory::UploadMemory;
use super::{App, Caller};
use crate::account::rate::{Rate, RateLimiter};
use crate::codec::Limits;
use crate::store::UnixSeconds;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use std::sync::Arc;
use std::time::Instant;

/// Looks at one job are counted apart, and so many more of them are allowed: who has a clip in work is told to ask every
/// second or two, and must not lose the rate of its pictures to that.
const LOOKS_PER_CALL: u32 = 10;

/// Routes that are open to a key whatever its scopes: account, use, prices, and the key's own jobs.
const OPEN_TO_ALL_KEYS: [&str; 5] = ["/account", "/usage", "/estimate", "/jobs", JOB_PATH];

/// `reason` of a 403: the key has scopes, and the endpoint is none of them.
const OUT_OF_SCOPE: &str = "out_of_scope";

/// What the public endpoints share.
#[derive(Debug)]
pub(super) struct Facade {
    pub(super) app: App,
    pub(super) config: Arc<HttpConfig>,
    /// What a picture may cost.
    pub(super) limits: Limits,
    pub(super) uploads: UploadMemory,
    pub(super) replies: ReplyBudget,
    pub(super) clips: ClipRoom,
    /// Backdrops in a day, for all accounts together.
    pub(super) backdrops_per_day: u32,
    per_caller: LimitsConfig,
    rate: RateLimiter,
    looks: RateLimiter,
    doorman: Doorman,
}

impl Facade {
    pub(super) fn new(app: App, config: Arc<HttpConfig>, limits: &LimitsConfig) -> Self {
        let upload_bytes = config.max_upload_megabytes_in_flight.saturating_mul(1_000_000);
        let uploads = UploadMemory::new(upload_bytes, limits.max_bytes);
        let replies = ReplyBudget::new(config.max_reply_megabytes_in_flight.saturating_mul(1_000_000));
        let doorman = Doorman::new(config.wrong_keys_per_minute);
        Self {
            app,
            config,
            limits: limits.of_pictures(),
            uploads,
            replies,
            clips: ClipRoom::new(),
            backdrops_per_day: limits.backdrop_ai_per_day,
            per_caller: limits.clone(),
            rate: RateLimiter::default(),
            looks: RateLimiter::default(),
            doorman,
        }
    }

    fn authenticate(&self, exchange: &Exchange) -> Result<Caller, ApiError> {
        let refuse = |message: &str, challenge| {
            let challenge = HeaderValue::from_static(challenge);
            ApiError::new(ErrorCode::Unauthorized, message).header(WWW_AUTHENTICATE, challenge)
        };
        let token = bearer(&exchange.headers)
            .ok_or_else(|| refuse("send your API key as `Authorization: Bearer <API_KEY>`", "Bearer"))?;
        // Looked up first: a key that works is let in, whatever else comes from its address.
        let caller = self.app.keys.authenticate(token).ok_or_else(|| {
            match self.doorman.wrong_key(exchange.client, Instant::now()) {
                Ok(()) => {
                    let expired = self.app.keys.expired_at(token).map(|at| format!("this API key expired at {at}"));
                    let message = expired.as_deref().unwrap_or("this API key is not valid");
                    refuse(message, r#"Bearer error="invalid_token""#)
                }
                Err(wait) => ApiError::new(ErrorCode::RateLimitExceeded, "too many wrong API keys from this address")
                    .retry_after(wait),
            }
        })?;
        exchange.busy.mark_authenticated();
        Ok(caller)
    }
}

impl Service for Facade {
    const NAME: &'static str = "public";
    const LOGGED: bool = true;
    const FOR_BROWSERS: bool = true;
    const DRAINS: bool = true;

    async fn answer(&self, exchange: &mut Exchange) -> Result<Reply, ApiError> {
        let answer = self.dispatch(exchange).await;
        // After the work: what this request was billed is not left any more.
        if let Some(caller) = exchange.caller.take()
            && let Some(remaining) = self.app.ledger.remaining(&caller.payer(), UnixSeconds::now())
        {
            response::write_quota(remaining, &mut exchange.reply_headers);
        }
        answer
    }
}

impl Facade {
    async fn dispatch(&self, exchange: &mut Exchange) -> Result<Reply, ApiError> {
        if let Some(route) = compat::find(&self.app.compat, exchange.uri.path()) {
            return compat::answer(self, route, exchange).await;
        }
        let (route, parameter) = router::find(&exchange.method, exchange.uri.path())?;
        let parameter = parameter.to_owned();
        exchange.endpoint = route.path;
        match &route.target {
            Target::Page(page) => Ok(docs::reply(*page)),
            Target::Image(endpoint) => {
                let (caller, _) = self.admit(exchange)?;
                self.replies.refuse_when_full(&caller.account)?;
                if endpoint.input.is_single() {
                    routes::image::answer(self, endpoint, &caller, exchange).await
                } else {
                    routes::batch::answer(self, endpoint, &caller, exchange).await
                }
            }
            Target::Clip => {
                let (caller, _) = self.admit(exchange)?;
                routes::video::answer(self, &caller, exchange).await
            }
            Target::Result => routes::results::answer(self, exchange, &parameter).await,
            Target::Service(Routine::Job) if exchange.method != Method::DELETE => {
                let (caller, _) = self.admit_within(&self.looks, LOOKS_PER_CALL, exchange)?;
                routes::jobs::show(self, &caller, exchange, &parameter).await
            }
            Target::Service(service) => {
                let (caller, rate) = self.admit(exchange)?;
                match service {
                    Routine::Account => routes::account::answer(self, &caller, &rate),
                    Routine::Usage => routes::usage::answer(self, &caller, exchange).await,
                    Routine::Estimate => routes::estimate::answer(self, exchange).await,
                    Routine::Presets => routes::presets::answer(self, &caller, exchange).await,
                    Routine::Jobs => routes::jobs::list(self, &caller, exchange).await,
                    Routine::Job => routes::jobs::remove(self, &caller, exchange, &parameter).await,
                }
            }
        }
    }

    /// Whose request this is, within the rate and the scopes of the key.
    fn admit(&self, exchange: &mut Exchange) -> Result<(Caller, Rate), ApiError> {
        self.admit_within(&self.rate, 1, exchange)
    }

    fn admit_within(
        &self,
        limiter: &RateLimiter,
        times: u32,
        exchange: &mut Exchange,
    ) -> Result<(Caller, Rate), ApiError> {
        let caller = self.authenticate(exchange)?;
        let (caller, rate) = self.count(limiter, times, caller, exchange)?;
        in_scope(&caller, exchange.endpoint)?;
        Ok((caller, rate))
    }

    /// Whose request this is, within the rate of the key; what it is for, and so its scope, is found out later.
    pub(super) fn admit_unscoped(&self, exchange: &mut Exchange) -> Result<(Caller, Rate), ApiError> {
        let caller = self.authenticate(exchange)?;
        self.count(&self.rate, 1, caller, exchange)
    }

    /// A request without a key that the configuration gives to `caller`, within the rate.
    pub(super) fn admit_as(&self, caller: Caller, exchange: &mut Exchange) -> Result<(Caller, Rate), ApiError> {
        exchange.busy.mark_authenticated();
        self.count(&self.rate, 1, caller, exchange)
    }

    fn count(
        &self,
        limiter: &RateLimiter,
        times: u32,
        caller: Caller,
        exchange: &mut Exchange,
    ) -> Result<(Caller, Rate), ApiError> {
        exchange.caller = Some(caller.clone());
        tracing::Span::current().record("account", caller.account.as_str());
        let limit = self.per_caller.rate_of(caller.plan).saturating_mul(times);
        let rate = limiter.count(&caller.key_id, limit, Instant::now());
        response::write_rate(&rate, &mut exchange.reply_headers);
        if !rate.allowed {
            let error = ApiError::new(ErrorCode::RateLimitExceeded, "too many requests with this API key");
            return Err(error.retry_after(rate.reset));
        }
        Ok((caller, rate))
    }
}

/// Refuses an endpoint that the scopes of the caller's key leave out (403).
pub(super) fn in_scope(caller: &Caller, endpoint: &str) -> Result<(), ApiError> {
    if OPEN_TO_ALL_KEYS.contains(&endpoint) || caller.scopes.allow(endpoint) {
        return Ok(());
    }
    let message = format!("this API key is not for {endpoint}; it is for {}", caller.scopes);
    Err(ApiError::new(ErrorCode::Forbidden, message).reason(OUT_OF_SCOPE))
}

/// The token of the one `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).expect("a header value"));
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn the_token_is_read_from_exactly_one_bearer_header() {
        for good in ["Bearer abc", "bearer abc", "BEARER   abc "] {
            assert_eq!(token(&[good]).as_deref(), Some("abc"), "{good}");
        }
        for bad in ["", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc"] {
            assert_eq!(token(&[bad]), None, "{bad}");
        }
        assert_eq!(token(&[]), None);
        assert_eq!(token(&["Bearer abc", "Bearer def"]), None, "two keys: whose request is it?");
    }
}
