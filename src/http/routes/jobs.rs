//! `/jobs`: what became of the clips that a key has sent. Other keys' jobs are none.

use super::presets::query;
use crate::http::Caller;
use crate::http::clip::{is_full, no_disk};
use crate::http::error::{ApiError, ErrorCode};
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::response::{self, Reply};
use crate::jobs::{JobView, JobsError, MAX_PAGE, Removed, job_json};
use crate::recipe::FieldError;
use crate::store::UnixSeconds;
use crate::telemetry::with_causes;
use hyper::StatusCode;
use hyper::header::{HOST, RETRY_AFTER};
use serde_json::{Value, json};
use std::time::Duration;

/// Seconds after which it is worth asking again.
pub(super) const ASK_AGAIN: u32 = 2;

/// Lists the key's jobs.
pub(in crate::http) async fn list(facade: &Facade, caller: &Caller, exchange: &Exchange) -> Result<Reply, ApiError> {
    let (mut limit, mut cursor) = (None, None);
    for (name, value) in query(exchange) {
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
    let page = facade.app.jobs.list(&caller.key_id, cursor.as_deref(), limit.unwrap_or(MAX_PAGE)).await?;
    let mut jobs = Vec::with_capacity(page.jobs.len());
    for shown in &page.jobs {
        jobs.push(facade.document(exchange, shown).await?);
    }
    let mut body = json!({ "jobs": jobs });
    if let Some(next) = page.next {
        body["next_cursor"] = next.into();
    }
    Ok(response::json(StatusCode::OK, &body))
}

/// Shows one job.
pub(in crate::http) async fn show(
    facade: &Facade,
    caller: &Caller,
    exchange: &Exchange,
    id: &str,
) -> Result<Reply, ApiError> {
    // A query, such as one that keeps caches from answering, has no meaning here.
    let shown = facade.app.jobs.get(&caller.key_id, id).await?.ok_or_else(no_such_job)?;
    facade.job(exchange, &shown, StatusCode::OK).await
}

/// Cancels a job, or deletes one that is over.
pub(in crate::http) async fn remove(
    facade: &Facade,
    caller: &Caller,
    exchange: &Exchange,
    id: &str,
) -> Result<Reply, ApiError> {
    refuse_query(exchange)?;
    match facade.app.jobs.remove(&caller.key_id, id).await?.ok_or_else(no_such_job)? {
        Removed::Cancelled(shown) => facade.job(exchange, &shown, StatusCode::OK).await,
        Removed::Deleted => Ok(response::json(StatusCode::OK, &json!({ "deleted": true, "job_id": id }))),
    }
}

fn refuse_query(exchange: &Exchange) -> Result<(), FieldError> {
    match query(exchange).next() {
        Some((name, _)) => Err(FieldError::Unknown { param: name.into_owned() }),
        None => Ok(()),
    }
}

fn no_such_job() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "this key has no such job").param("job_id")
}

impl Facade {
    /// What a job looks like to who asks for it here.
    pub(super) async fn document(&self, exchange: &Exchange, shown: &JobView) -> Result<Value, ApiError> {
        Ok(job_json(shown, &self.app.results, &self.base(exchange), UnixSeconds::now()).await?)
    }

    /// One job; while it is not over, with the advice when to ask again.
    async fn job(&self, exchange: &Exchange, shown: &JobView, status: StatusCode) -> Result<Reply, ApiError> {
        let mut reply = response::json(status, &self.document(exchange, shown).await?);
        if !shown.job.state.is_final() {
            reply.headers_mut().insert(RETRY_AFTER, ASK_AGAIN.into());
        }
        Ok(reply)
    }

    /// Scheme and host that addresses of ours begin with: as configured, or as the request has them.
    pub(super) fn base(&self, exchange: &Exchange) -> String {
        if let Some(url) = &self.config.public_url {
            return url.trim_end_matches('/').to_owned();
        }
        let scheme = if self.config.tls_cert.is_some() { "https" } else { "http" };
        // HTTP/2 has it in the target.
        let authority = exchange.uri.authority().map(|authority| authority.as_str());
        let host = || exchange.headers.get(HOST).and_then(|host| host.to_str().ok());
        match authority.or_else(host) {
            Some(host) => format!("{scheme}://{host}"),
            None => String::new(),
        }
    }
}

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        match error {
            JobsError::TooMany(_) => {
                Self::new(ErrorCode::RateLimitExceeded, error.to_string()).retry_after(Duration::from_secs(10))
            }
            JobsError::Cursor => Self::new(ErrorCode::InvalidParameter, error.to_string()).param("cursor"),
            JobsError::Io { ref source, .. } if is_full(source) => no_disk(with_causes(&error)),
            JobsError::DiskSpace(_) => no_disk(error.to_string()),
            JobsError::Write(error) => error.into(),
            JobsError::Read(error) => error.into(),
            JobsError::Io { .. } | JobsError::Results(_) => Self::internal(with_causes(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::WriteError;
    use crate::jobs::DiskSpaceError;
    use crate::store::{ChangeError, OpenError};
    use hyper::header::RETRY_AFTER;

    #[test]
    fn what_another_request_may_find_over_is_503_with_retry_after() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let change = |error: ChangeError| JobsError::Write(WriteError::Change(error));
        for error in [
            JobsError::DiskSpace(DiskSpaceError::MinFree { free: 1, wanted: 2, min_free: 3 }),
            JobsError::DiskSpace(DiskSpaceError::MaxBytes { used: 1, wanted: 2, max: 3 }),
            JobsError::Io { what: "a folder".into(), source: full() },
            change(ChangeError::Unavailable("/secret/path is full".into())),
            change(ChangeError::Busy),
            JobsError::Read(OpenError::Io { path: "/secret/path".into(), source: full() }),
        ] {
            let shown = format!("{error:?}");
            let error = ApiError::from(error);
            assert_eq!(error.code, ErrorCode::Unavailable, "{shown}");
            assert!(!error.message().contains("secret"), "{}", error.message());
            assert!(error.into_reply("req_1").headers().contains_key(RETRY_AFTER), "{shown}");
        }
        // Of these it is not known whether another request helps, or what it would do.
        for error in [change(ChangeError::Storage("lost".into())), JobsError::Write(WriteError::Closed)] {
            assert_eq!(ApiError::from(error).code, ErrorCode::InternalError);
        }
    }
}
