//! A job as its owner sees it, in answers and in webhooks alike.

use super::results::{ResultUrl, Results, ResultsError};
use super::{JobResult, JobState, Shown};
use crate::store::UnixSeconds;
use serde_json::{Value, json};

/// The JSON of a job. `base` is scheme and host (and what else comes before our paths) by which this daemon is reached.
///
/// # Errors
/// [`ResultsError`] when the result's address cannot be signed.
pub async fn document(shown: &Shown, results: &Results, base: &str, now: UnixSeconds) -> Result<Value, ResultsError> {
    let Shown { job, progress } = shown;
    let mut body = json!({
        "job_id": job.id,
        "status": job.state.name(),
        "progress": progress,
        "created_at": job.created_at.to_string(),
        "updated_at": job.updated_at.to_string(),
        "expires_at": job.expires_at.to_string(),
        "format": job.format,
    });
    if let Some(result) = job.result.as_ref().filter(|_| job.state == JobState::Done) {
        body["output_seconds"] = result.seconds().into();
        body["size_bytes"] = result.bytes.into();
        body["result_expires_at"] = result.expires_at.to_string().into();
        match open(result, now) {
            Some(object) => {
                body["result_url"] = match results.url(object, now, result.expires_at).await? {
                    ResultUrl::Whole(url) => url.into(),
                    ResultUrl::Own(path) => format!("{}{path}", base.trim_end_matches('/')).into(),
                };
            }
            None => body["result_expired"] = true.into(),
        }
    }
    if !job.warnings.is_empty() {
        body["warnings"] = job.warnings.clone().into();
    }
    if let Some(error) = &job.error {
        body["error"] = json!({ "code": error.code, "message": error.message });
    }
    Ok(body)
}

/// The object of a result that can still be fetched.
fn open(result: &JobResult, now: UnixSeconds) -> Option<&str> {
    result.object.as_deref().filter(|_| now < result.expires_at)
}
