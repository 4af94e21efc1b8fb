//! `GET /v1.0/account` and `/v1/account`: the quota of a key's account, as credits.

use super::route::WireFormat;
use crate::http::admission::caller::Caller;
use crate::http::reply::error::ApiError;
use crate::http::reply::{self, Reply};
use crate::http::state::ApiState;
use crate::store::UnixSeconds;
use hyper::StatusCode;
use serde_json::json;

/// Credits of an account without a quota: clients expect a number.
const UNLIMITED: u64 = 1_000_000;

pub(super) async fn answer(state: &ApiState, format: WireFormat, caller: &Caller) -> Result<Reply, ApiError> {
    let standing = state.app.store.usage(&caller.account, caller.plan, UnixSeconds::now()).await?;
    let left = standing.quota.map(|quota| quota.saturating_sub(standing.used));
    let body = match format {
        WireFormat::Photoroom => json!({
            "credits": { "available": left.unwrap_or(UNLIMITED), "subscription": standing.quota.unwrap_or(UNLIMITED) }
        }),
        WireFormat::RemoveBg | WireFormat::Rembg => {
            let credits = if left.is_none() { UNLIMITED } else { 0 };
            // Ruby's client takes the members as keyword arguments, so there must be no others.
            json!({ "data": { "attributes": {
                "credits": { "subscription": credits, "payg": 0, "enterprise": 0, "total": credits },
                "api": { "free_calls": left.unwrap_or(0), "sizes": "all" },
            } } })
        }
    };
    Ok(reply::json(StatusCode::OK, &body))
}
