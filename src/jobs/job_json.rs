//! The JSON document of a job, for responses and webhooks.

use super::job_view::JobView;
use super::results::{ResultUrl, Results, ResultsError};
use super::{JobResult, JobState};
use crate::store::UnixSeconds;
use serde_json::{Value, json};

/// The JSON of a job. `base` is the scheme, host and path prefix under which the caller reaches this daemon.
///
/// # Errors
/// [`ResultsError`] when the result's address cannot be signed.
pub async fn job_json(view: &JobView, results: &Results, base: &str, now: UnixSeconds) -> Result<Value, ResultsError> {
    let JobView { job, progress } = view;
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
        match available_object(result, now) {
            Some(object) => {
                body["result_url"] = match results.url(object, now, result.expires_at).await? {
                    ResultUrl::Absolute(url) => url.into(),
                    ResultUrl::Path(path) => format!("{}{path}", base.trim_end_matches('/')).into(),
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
fn available_object(result: &JobResult, now: UnixSeconds) -> Option<&str> {
    result.object.as_deref().filter(|_| now < result.expires_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::secret::DaemonSecret;
    use crate::jobs::tests::job;
    use crate::store::{Job, JobError};

    const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
    const LATER: UnixSeconds = UnixSeconds(NOW.0 + 3600);

    async fn rendered(job: Job, now: UnixSeconds) -> Value {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = DaemonSecret::open(folder.path()).expect("a new one");
        let results = Results::open(None, folder.path(), &secret).expect("a new folder");
        let view = JobView { job, progress: 40 };
        job_json(&view, &results, "https://example.org/", now).await.expect("signed")
    }

    #[tokio::test]
    async fn a_result_has_its_address_for_an_hour_and_is_then_marked_as_expired() {
        let result = JobResult {
            object: Some("job_1.webm".into()),
            bytes: 1234,
            frames: 45,
            rate_frames: 30_000,
            rate_seconds: 1001,
            expires_at: LATER,
        };
        let warnings = vec!["It ended early.".into()];
        let done = Job { state: JobState::Done, result: Some(result.clone()), warnings, ..job("key_1") };
        let body = rendered(done.clone(), NOW).await;
        let url = body["result_url"].as_str().expect("an address");
        assert!(url.starts_with("https://example.org/results/job_1.webm?expires="), "{url}");
        assert_eq!((&body["output_seconds"], &body["size_bytes"]), (&1.5015.into(), &1234.into()));
        assert_eq!(body["warnings"], json!(["It ended early."]));
        assert!(body.get("result_expired").is_none() && body.get("error").is_none());
        let deleted = Job { result: Some(JobResult { object: None, ..result }), ..done.clone() };
        for (job, now) in [(done, LATER), (deleted, NOW)] {
            let body = rendered(job, now).await;
            assert!(body.get("result_url").is_none(), "{body}");
            assert_eq!((&body["result_expired"], &body["output_seconds"]), (&true.into(), &1.5015.into()));
        }
    }
    #[tokio::test]
    async fn a_failed_job_has_its_error() {
        let error = Some(JobError { code: "cancelled".into(), message: "it was cancelled".into() });
        let body = rendered(Job { state: JobState::Failed, error, ..job("key_1") }, NOW).await;
        assert_eq!(body["status"], "error");
        assert_eq!(body["error"], json!({ "code": "cancelled", "message": "it was cancelled" }));
        assert!(body.get("result_url").is_none() && body.get("output_seconds").is_none());
    }
}
