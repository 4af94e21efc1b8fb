//! `GET /account`: where the caller's account stands, and what its webhooks are signed with.

use crate::account::price::in_dollars;
use crate::account::rate_limit::RateStatus;
use crate::http::Caller;
use crate::http::error::ApiError;
use crate::http::facade::Facade;
use crate::http::response::{self, Reply};
use crate::store::UnixSeconds;
use hyper::StatusCode;
use serde_json::json;

/// Answers plan, model, quota, webhook secret and rate of the account that the key belongs to.
pub(in crate::http) fn answer(facade: &Facade, caller: &Caller, rate: &RateStatus) -> Result<Reply, ApiError> {
    let standing = facade.app.ledger.usage(&caller.account, caller.plan, UnixSeconds::now());
    let body = json!({
        "account": caller.account,
        "key_id": caller.key_id,
        "plan": caller.plan.name(),
        "model": caller.model.unwrap_or(facade.app.model).of(&facade.app.remover.model()),
        "test": caller.test,
        "used": standing.used,
        "quota": standing.quota,
        "remaining": standing.quota.map(|quota| quota.saturating_sub(standing.used)),
        "resets_at": standing.resets_at.to_string(),
        "cost_usd": in_dollars(standing.microdollars),
        "webhook_secret": facade.app.secret.webhook(&caller.account).expose(),
        "rate": {
            "limit": rate.limit,
            "remaining": rate.remaining,
            "reset_seconds": rate.reset_seconds(),
        },
    });
    Ok(response::json(StatusCode::OK, &body))
}
