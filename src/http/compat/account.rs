//! `GET /v1.0/account` and `/v1/account`: the quota of a key's account, as credits.

use super::Wire;
use crate::http::Caller;
use crate::http::facade::Facade;
use crate::http::response::{self, Reply};
use crate::store::UnixSeconds;
use hyper::StatusCode;
use serde_json::json;

/// Credits of an account without a quota: clients compare numbers.
const PLENTY: u64 = 1_000_000;

pub(super) fn answer(facade: &Facade, wire: Wire, caller: &Caller) -> Reply {
    let standing = facade.app.ledger.usage(&caller.account, caller.plan, UnixSeconds::now());
    let left = standing.quota.map(|quota| quota.saturating_sub(standing.used));
    let body = match wire {
        Wire::Photoroom => json!({
            "credits": { "available": left.unwrap_or(PLENTY), "subscription": standing.quota.unwrap_or(PLENTY) }
        }),
        Wire::RemoveBg | Wire::Rembg => {
            let credits = if left.is_none() { PLENTY } else { 0 };
            // Ruby's client takes the members as keyword arguments: there must be no others.
            json!({ "data": { "attributes": {
                "credits": { "subscription": credits, "payg": 0, "enterprise": 0, "total": credits },
                "api": { "free_calls": left.unwrap_or(0), "sizes": "all" },
            } } })
        }
    };
    response::json(StatusCode::OK, &body)
}
