//! Who sends a request: API key (401), rate limit (429), scopes of the key (403).

use super::caller::Caller;
use crate::account::token_hash;
use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::http::request_context::RequestContext;
use crate::http::router::JOB_PATH;
use crate::http::state::ApiState;
use crate::store::{Admission, Admitted, Credential, Plan, RateKind, RateRule};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use std::time::Instant;

/// On every reply to a caller with a key.
const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Requests of services that are allowed for each picture of the rate: a page that shows the account, and clients that poll a job every
/// second or two, must not use up the rate of their pictures.
const SERVICES_PER_CALL: u32 = 10;

/// Routes that are open to keys of any scope: account, usage, prices, and the key's jobs.
const OPEN_TO_ALL_KEYS: [&str; 5] = ["/account", "/usage", "/estimate", "/jobs", JOB_PATH];

/// `reason` of a 403: the endpoint is not among the scopes of the key.
pub(crate) const OUT_OF_SCOPE: &str = "out_of_scope";

/// The caller, within the rate of this kind of requests and the scopes of the key.
pub(crate) async fn admit(state: &ApiState, kind: RateKind, context: &mut RequestContext) -> Result<Caller> {
    let caller = authenticate(state, kind, context).await?;
    require_scope(&caller, context.endpoint)?;
    Ok(caller)
}

/// Admits a request without a key as an account that the configuration names, within the rate.
pub(crate) async fn admit_without_key(state: &ApiState, account: &str, context: &mut RequestContext) -> Result<Caller> {
    let rule = rule(state, RateKind::Calls);
    let Admission::Admitted(admitted) = state.app.store.admit(Credential::Account(account), &rule).await? else {
        return Err(ApiError::unavailable("the account of this route does not exist")
            .caused_by(format!("compat.rembg_account: no account `{account}`")));
    };
    count(*admitted, context)
}

/// Refuses an endpoint that is not among the scopes of the caller's key (403).
pub(crate) fn require_scope(caller: &Caller, endpoint: &str) -> Result<()> {
    if OPEN_TO_ALL_KEYS.contains(&endpoint) || caller.scopes.allow(endpoint) {
        return Ok(());
    }
    let message = format!("this API key is not for {endpoint}; it is for {}", caller.scopes);
    Err(ApiError::new(ErrorCode::Forbidden, message).reason(OUT_OF_SCOPE))
}

/// The caller, within the rate of requests of this kind. The scope is not checked: call this alone only where the endpoint is
/// known after the fields.
pub(crate) async fn authenticate(state: &ApiState, kind: RateKind, context: &mut RequestContext) -> Result<Caller> {
    let refuse = |message: &str, challenge| {
        let challenge = HeaderValue::from_static(challenge);
        ApiError::new(ErrorCode::Unauthorized, message).header(WWW_AUTHENTICATE, challenge)
    };
    let token = bearer(&context.headers)
        .ok_or_else(|| refuse("send your API key as `Authorization: Bearer <API_KEY>`", "Bearer"))?;
    let admission = match token_hash(token) {
        Some(hash) => state.app.store.admit(Credential::Key(hash), &rule(state, kind)).await?,
        None => Admission::Unknown,
    };
    let expired = match admission {
        Admission::Admitted(admitted) => return count(*admitted, context),
        Admission::Expired(at) => Some(format!("this API key expired at {at}")),
        Admission::Unknown => None,
    };
    // Looked up before the throttle: a valid key is admitted, also from a throttled address.
    Err(match state.auth_throttle.count_failure(context.client, Instant::now()) {
        Ok(()) => {
            let message = expired.as_deref().unwrap_or("this API key is not valid");
            refuse(message, r#"Bearer error="invalid_token""#)
        }
        Err(wait) => {
            ApiError::new(ErrorCode::RateLimitExceeded, "too many wrong API keys from this address").retry_after(wait)
        }
    })
}

/// The rates of this kind of requests, by plan.
fn rule(state: &ApiState, kind: RateKind) -> RateRule {
    let times = match kind {
        RateKind::Calls => 1,
        RateKind::Services => SERVICES_PER_CALL,
    };
    RateRule { kind, limits: Plan::ALL.map(|plan| state.per_caller.rate_of(plan).saturating_mul(times)) }
}

/// The caller, within its rate.
fn count(admitted: Admitted, context: &mut RequestContext) -> Result<Caller> {
    context.busy.mark_authenticated();
    let rate = admitted.rate;
    let caller = Caller::from(admitted);
    context.caller = Some(caller.clone());
    tracing::Span::current().record("account", caller.account.as_str());
    let headers = &mut context.reply_headers;
    headers.insert(RATE_LIMIT, rate.limit.into());
    headers.insert(RATE_REMAINING, rate.remaining.into());
    headers.insert(RATE_RESET, rate.reset_seconds().into());
    if !rate.allowed {
        let error = ApiError::new(ErrorCode::RateLimitExceeded, "too many requests with this API key");
        return Err(error.retry_after(rate.reset));
    }
    Ok(caller)
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
        assert_eq!(token(&["Bearer abc", "Bearer def"]), None, "two keys are ambiguous");
    }
}
