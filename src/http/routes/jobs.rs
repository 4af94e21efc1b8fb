//! `/jobs`: lists, shows, cancels and deletes the jobs of a key: clips, and bulk runs, which are also paused and resumed.

use crate::http::admission::Caller;
use crate::http::bulk_runs::{BulkRefusal, BulkRuns};
use crate::http::reply::{self, ApiError, ErrorCode, Reply, Result};
use crate::http::request::json::{self, Object};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::jobs::{BulkPlaces, Cursor, JobState, JobView, MAX_PAGE, RECORD_SECONDS, Removed, job_json};
use crate::recipe::FieldError;
use crate::store::{BulkJob, BulkRunState, UnixSeconds};
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use serde_json::{Value, json};
use std::time::Duration;

/// Seconds until the next poll of a job, as `Retry-After`.
const POLL_AFTER_SECONDS: u32 = 2;

/// Lists the key's jobs.
pub(crate) async fn list(state: &ApiState, caller: &Caller, context: &RequestContext) -> Result<Reply> {
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
    let limit = limit.unwrap_or(MAX_PAGE);
    let page = state.app.jobs.list(&caller.key_id, cursor.as_deref(), limit).await?;
    let mut jobs = Vec::with_capacity(page.jobs.len());
    for shown in &page.jobs {
        jobs.push((Cursor::of(&shown.job), job_document(state, context, shown).await?));
    }
    let mut next = page.next.clone();
    if let Some(runs) = &state.app.bulk {
        // One more shows whether there is another page.
        for run in runs.queue.jobs(&caller.key_id, page.after.as_ref().map(Cursor::parts), limit + 1).await? {
            let place = Cursor { place: run.created_ms, id: run.id.clone() };
            if page.covers(&place) {
                jobs.push((place, bulk_document(&run)));
            }
        }
        jobs.sort_by(|(one, _), (other, _)| other.cmp(one));
        if jobs.len() > limit {
            jobs.truncate(limit);
            next = jobs.last().map(|(place, _)| place.clone());
        }
    }
    let jobs: Vec<_> = jobs.into_iter().map(|(_, job)| job).collect();
    let mut body = json!({ "jobs": jobs });
    if let Some(next) = next {
        body["next_cursor"] = next.to_string().into();
    }
    Ok(reply::json(StatusCode::OK, &body))
}

/// Shows one job.
pub(crate) async fn show(state: &ApiState, caller: &Caller, context: &RequestContext, id: &str) -> Result<Reply> {
    // A query, such as one that bypasses caches, is ignored.
    if let Some(runs) = bulk_runs(state, id) {
        return bulk_reply(runs, caller, id).await;
    }
    let shown = state.app.jobs.get(&caller.key_id, id).await?.ok_or_else(no_such_job)?;
    job_reply(state, context, &shown).await
}

/// Pauses or resumes a bulk run.
pub(crate) async fn change(state: &ApiState, caller: &Caller, context: &mut RequestContext, id: &str) -> Result<Reply> {
    refuse_query(context)?;
    let to = state_of(json::read(&context.headers, &mut context.body).await?)?;
    let Some(runs) = bulk_runs(state, id) else {
        state.app.jobs.get(&caller.key_id, id).await?.ok_or_else(no_such_job)?;
        return Err(ApiError::new(ErrorCode::Conflict, "only bulk runs can be paused").param("job_id"));
    };
    let is_over = || ApiError::new(ErrorCode::Conflict, "the run is over or cancelled").param("job_id");
    let job = bulk_job(runs, caller, id).await?;
    if job.state.is_final() {
        return Err(is_over());
    }
    // Places may have been withdrawn since the run was requested.
    let places = BulkPlaces { from: &job.source, to: &job.destination, report: Some(&job.report) };
    let refused = runs.config.refused_bulk_place(&caller.account, &places);
    if let Some(param) = refused.filter(|_| to == BulkRunState::Running) {
        return Err(BulkRefusal::Forbidden { param }.into());
    }
    let before = runs.queue.set_state(id, to).await?;
    if before.is_none_or(|before| before == BulkRunState::Cancelled) {
        return Err(is_over());
    }
    bulk_reply(runs, caller, id).await
}

/// The state to which a body changes a run.
fn state_of(body: Object) -> Result<BulkRunState, FieldError> {
    let mut state = None;
    for (name, value) in body.unique()? {
        state = match (name.as_str(), value.as_str()) {
            ("state", Some("paused")) => Some(BulkRunState::Paused),
            ("state", Some("running")) => Some(BulkRunState::Running),
            ("state", _) => return Err(FieldError::invalid("state", &value.to_string(), "paused or running")),
            (..) => return Err(FieldError::unknown(&name, ["state"])),
        };
    }
    state.ok_or_else(|| FieldError::Missing { param: "state".to_owned() })
}

/// Cancels a job, or deletes one that has ended.
pub(crate) async fn remove(state: &ApiState, caller: &Caller, context: &RequestContext, id: &str) -> Result<Reply> {
    refuse_query(context)?;
    if let Some(runs) = bulk_runs(state, id) {
        return remove_bulk(runs, caller, id).await;
    }
    match state.app.jobs.remove(&caller.key_id, id).await?.ok_or_else(no_such_job)? {
        Removed::Cancelled(shown) => job_reply(state, context, &shown).await,
        Removed::Deleted => Ok(deleted(id)),
    }
}

fn deleted(id: &str) -> Reply {
    reply::json(StatusCode::OK, &json!({ "deleted": true, "job_id": id }))
}

/// The bulk runs, if `id` is the id of a bulk run.
fn bulk_runs<'a>(state: &'a ApiState, id: &str) -> Option<&'a BulkRuns> {
    state.app.bulk.as_ref().filter(|_| BulkJob::is_id(id))
}

async fn bulk_job(runs: &BulkRuns, caller: &Caller, id: &str) -> Result<BulkJob> {
    runs.queue.job(&caller.key_id, id).await?.ok_or_else(no_such_job)
}

/// Cancels a run, which ends once its report is written; deletes one that has ended.
async fn remove_bulk(runs: &BulkRuns, caller: &Caller, id: &str) -> Result<Reply> {
    if bulk_job(runs, caller, id).await?.state.is_final() {
        runs.queue.remove_job(&caller.key_id, id).await?;
        return Ok(deleted(id));
    }
    runs.queue.set_state(id, BulkRunState::Cancelled).await?;
    bulk_reply(runs, caller, id).await
}

/// One bulk run; with `Retry-After` until it has ended.
async fn bulk_reply(runs: &BulkRuns, caller: &Caller, id: &str) -> Result<Reply> {
    let job = bulk_job(runs, caller, id).await?;
    Ok(with_retry(reply::json(StatusCode::OK, &bulk_document(&job)), job.state))
}

/// A job as JSON, with the URL of its result.
pub(super) async fn job_document(state: &ApiState, context: &RequestContext, shown: &JobView) -> Result<Value> {
    Ok(job_json(shown, &state.app.results, &context.base_url(&state.config), UnixSeconds::now()).await?)
}

/// One job; with `Retry-After` until it has ended.
async fn job_reply(state: &ApiState, context: &RequestContext, shown: &JobView) -> Result<Reply> {
    Ok(with_retry(reply::json(StatusCode::OK, &job_document(state, context, shown).await?), shown.job.state))
}

/// A reply about a job of this state; with `Retry-After` until it has ended.
fn with_retry(mut reply: Reply, state: JobState) -> Reply {
    if !state.is_final() {
        reply.headers_mut().insert(RETRY_AFTER, POLL_AFTER_SECONDS.into());
    }
    reply
}

/// 202 with a job, at its address.
pub(super) fn accepted(id: &str, mut document: Value, state: JobState, latency: Duration) -> Result<Reply> {
    let status_url = format!("/jobs/{id}");
    let location = HeaderValue::from_str(&status_url)?;
    document["status_url"] = status_url.into();
    let mut reply = reply::timed_json(StatusCode::ACCEPTED, &document, latency);
    reply.headers_mut().insert(LOCATION, location);
    Ok(with_retry(reply, state))
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

/// A bulk run as the JSON of a job.
pub(super) fn bulk_document(job: &BulkJob) -> Value {
    let created_at = UnixSeconds(job.created_ms.div_euclid(1000));
    let kept_from = if job.state.is_final() { job.updated_at } else { created_at };
    let mut run = json!({
        "from": job.source,
        "to": job.destination,
        "report": job.report,
        "listed": job.is_listed,
        "objects": job.objects,
        "done": job.finished.saturating_sub(job.failed),
        "failed": job.failed,
    });
    if let Some(state) = job.run_state.filter(|_| !job.state.is_final()) {
        run["state"] = state.name().into();
    }
    if let Some(ends_at) = job.ends_at {
        run["estimated_end"] = ends_at.to_string().into();
    }
    // This service wrote the summary as JSON.
    if let Some(summary) = job.summary.as_deref().and_then(|summary| serde_json::from_str::<Value>(summary).ok()) {
        run["summary"] = summary;
    }
    let mut document = json!({
        "job_id": job.id,
        "status": job.state.name(),
        "progress": progress(job),
        "created_at": created_at.to_string(),
        "updated_at": job.updated_at.to_string(),
        "expires_at": UnixSeconds(kept_from.0.saturating_add(RECORD_SECONDS)).to_string(),
        "bulk": run,
    });
    if let Some(error) = &job.error {
        document["error"] = json!({ "code": error.code, "message": error.message });
    }
    document
}

/// Percent of the objects that have a report row; 100 only when the job is done.
fn progress(job: &BulkJob) -> u64 {
    if job.state == JobState::Done {
        return 100;
    }
    if job.is_listed { (job.finished.saturating_mul(100) / job.objects.max(1)).min(99) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::JobError;

    #[test]
    fn a_job_shows_its_counts_and_its_progress_reaches_100_at_its_end() {
        let mut job = BulkJob {
            id: "bulk_1".into(),
            state: JobState::Processing,
            source: "s3://a".into(),
            destination: "s3://b".into(),
            report: "s3://b/r.jsonl".into(),
            created_ms: 1_796_000_000_999,
            updated_at: UnixSeconds(1_796_000_100),
            run_state: Some(BulkRunState::Paused),
            is_listed: false,
            objects: 200,
            finished: 100,
            failed: 4,
            ends_at: None,
            summary: None,
            error: None,
        };
        assert_eq!(bulk_document(&job)["progress"], 0, "the number of objects is not known yet");
        job.is_listed = true;
        let document = bulk_document(&job);
        assert_eq!((&document["status"], &document["progress"]), (&json!("processing"), &json!(50)));
        let run = &document["bulk"];
        assert_eq!((&run["done"], &run["failed"], &run["state"]), (&json!(96), &json!(4), &json!("paused")));
        job.finished = 200;
        assert_eq!(bulk_document(&job)["progress"], 99, "the report is not written yet");
        job.state = JobState::Done;
        job.summary = Some(r#"{"done":196}"#.into());
        let document = bulk_document(&job);
        assert_eq!((&document["progress"], &document["bulk"]["summary"]["done"]), (&json!(100), &json!(196)));
        job.state = JobState::Failed;
        job.error = Some(JobError { code: "cancelled".into(), message: "the run was cancelled".into() });
        assert_eq!(bulk_document(&job)["error"]["code"], "cancelled");
    }
}
