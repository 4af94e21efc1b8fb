//! `/jobs`: lists, shows, cancels and deletes the jobs of a key.

use crate::http::caller::Caller;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::reply::{self, Reply};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::jobs::{JobView, MAX_PAGE, Removed, job_json};
use crate::recipe::FieldError;
use crate::store::UnixSeconds;
use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use serde_json::{Value, json};

/// Seconds until the next poll of a job, as `Retry-After`.
pub(super) const POLL_AFTER_SECONDS: u32 = 2;

/// Lists the key's jobs.
pub(in crate::http) async fn list(
    state: &ApiState,
    caller: &Caller,
    context: &RequestContext,
) -> Result<Reply, ApiError> {
    let (mut limit, mut cursor) = (None, None);
    for (name, value) in context.query() {
        let first = match name.as_ref() {
            "limit" => {
                let number = value.parse().ok().filter(|number| (1..=MAX_PAGE).contains(number));
                let refuse = || FieldError::invalid("limit", &value, format!("an integer from 1 to {MAX_PAGE}"));
                limit.replace(number.ok_or_else(refuse)?).is_none()
            }
            "cursor" => cursor.replace(value.into_owned()).is_none(),
            other => return Err(FieldError::Unknown { param: other.to_owned() }.into()),
        };
        if !first {
            return Err(FieldError::Repeated { param: name.into_owned() }.into());
        }
    }
    let page = state.app.jobs.list(&caller.key_id, cursor.as_deref(), limit.unwrap_or(MAX_PAGE)).await?;
    let mut jobs = Vec::with_capacity(page.jobs.len());
    for shown in &page.jobs {
        jobs.push(job_document(state, context, shown).await?);
    }
    let mut body = json!({ "jobs": jobs });
    if let Some(next) = page.next {
        body["next_cursor"] = next.into();
    }
    Ok(reply::json(StatusCode::OK, &body))
}

/// Shows one job.
pub(in crate::http) async fn show(
    state: &ApiState,
    caller: &Caller,
    context: &RequestContext,
    id: &str,
) -> Result<Reply, ApiError> {
    // A query, such as one that bypasses caches, is ignored.
    let shown = state.app.jobs.get(&caller.key_id, id).await?.ok_or_else(no_such_job)?;
    job_reply(state, context, &shown).await
}

/// Cancels a job, or deletes one that has ended.
pub(in crate::http) async fn remove(
    state: &ApiState,
    caller: &Caller,
    context: &RequestContext,
    id: &str,
) -> Result<Reply, ApiError> {
    refuse_query(context)?;
    match state.app.jobs.remove(&caller.key_id, id).await?.ok_or_else(no_such_job)? {
        Removed::Cancelled(shown) => job_reply(state, context, &shown).await,
        Removed::Deleted => Ok(reply::json(StatusCode::OK, &json!({ "deleted": true, "job_id": id }))),
    }
}

/// A job as JSON, with the URL of its result.
pub(super) async fn job_document(
    state: &ApiState,
    context: &RequestContext,
    shown: &JobView,
) -> Result<Value, ApiError> {
    Ok(job_json(shown, &state.app.results, &context.base_url(&state.config), UnixSeconds::now()).await?)
}

/// One job; with `Retry-After` until it has ended.
async fn job_reply(state: &ApiState, context: &RequestContext, shown: &JobView) -> Result<Reply, ApiError> {
    let mut reply = reply::json(StatusCode::OK, &job_document(state, context, shown).await?);
    if !shown.job.state.is_final() {
        reply.headers_mut().insert(RETRY_AFTER, POLL_AFTER_SECONDS.into());
    }
    Ok(reply)
}

fn refuse_query(context: &RequestContext) -> Result<(), FieldError> {
    match context.query().next() {
        Some((name, _)) => Err(FieldError::Unknown { param: name.into_owned() }),
        None => Ok(()),
    }
}

fn no_such_job() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "this key has no such job").param("job_id")
}
