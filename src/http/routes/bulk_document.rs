//! The JSON document of a bulk run as a job.

use crate::jobs::RECORD_SECONDS;
use crate::store::{BulkJob, JobState, UnixSeconds};
use serde_json::{Value, json};

/// A bulk run as the JSON of a job.
pub(super) fn job_document(job: &BulkJob) -> Value {
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
    // Written by this service.
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
    use crate::store::{BulkRunState, JobError};

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
        assert_eq!(job_document(&job)["progress"], 0, "the number of objects is not known yet");
        job.is_listed = true;
        let document = job_document(&job);
        assert_eq!((&document["status"], &document["progress"]), (&json!("processing"), &json!(50)));
        let run = &document["bulk"];
        assert_eq!((&run["done"], &run["failed"], &run["state"]), (&json!(96), &json!(4), &json!("paused")));
        job.finished = 200;
        assert_eq!(job_document(&job)["progress"], 99, "the report is not written yet");
        job.state = JobState::Done;
        job.summary = Some(r#"{"done":196}"#.into());
        let document = job_document(&job);
        assert_eq!((&document["progress"], &document["bulk"]["summary"]["done"]), (&json!(100), &json!(196)));
        job.state = JobState::Failed;
        job.error = Some(JobError { code: "cancelled".into(), message: "the run was cancelled".into() });
        assert_eq!(job_document(&job)["error"]["code"], "cancelled");
    }
}
