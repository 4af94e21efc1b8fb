//! `GET /account`: plan, model, quota, cost and rate of the caller's account, and its webhook secret for keys that make jobs.

use crate::account::price::in_dollars;
use crate::http::admission::{Caller, default_model};
use crate::http::reply::{self, Reply, Result};
use crate::http::state::ApiState;
use crate::recipe::VIDEO_PATH;
use crate::store::UnixSeconds;
use hyper::StatusCode;
use serde_json::json;

/// Answers the account that the key belongs to.
pub(crate) async fn answer(state: &ApiState, caller: &Caller) -> Result<Reply> {
    let limit = state.per_caller.rate_of(caller.plan);
    let rate = state.app.store.rate(&caller.key_id, limit).await?;
    let standing = state.app.store.usage(&caller.account, caller.plan, UnixSeconds::now()).await?;
    let usual = caller.model.as_ref().unwrap_or(&state.app.model);
    let mut body = json!({
        "account": caller.account,
        "key_id": caller.key_id,
        "plan": caller.plan.name(),
        "model": default_model(&state.app, caller).unwrap_or_else(|_| usual.clone()).of(&state.app.processor.model()),
        "test": caller.test,
        "used": standing.used,
        "quota": standing.quota,
        "remaining": standing.quota.map(|quota| quota.saturating_sub(standing.used)),
        "resets_at": standing.resets_at.to_string(),
        "cost_usd": in_dollars(standing.microdollars),
        "rate": {
            "limit": rate.limit,
            "remaining": rate.remaining,
            "reset_seconds": rate.reset_seconds(),
        },
    });
    // A key for a public page must not sign webhooks.
    if [VIDEO_PATH, "/bulk"].iter().any(|path| caller.scopes.allow(path)) {
        body["webhook_secret"] = state.app.secret.webhook(&caller.account).expose().into();
    }
    Ok(reply::json(StatusCode::OK, &body))
}
