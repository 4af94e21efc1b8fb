//! `ApiError`: a failed request, and its reply with the error envelope.
//!
//! It carries the public message; its private cause goes to the log under the same request id. The mapping of every
//! domain error to a code is in `error_mapping`.

pub use super::error_code::ErrorCode;

use crate::http::reply::{self, Reply};
use crate::store::whole_seconds;
use crate::telemetry::{metrics, without_secrets};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::json;
use std::fmt::Display;
use std::time::Duration;
use tracing::{debug, error};

/// A failed request: the public message with its code, and the private cause for the log.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    message: String,
    param: Option<String>,
    /// One word that separates the cases of one code.
    reason: Option<&'static str>,
    headers: Box<HeaderMap>,
    /// For the log only.
    cause: Option<String>,
}

impl ApiError {
    /// Without parameter, reason, headers and cause.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None, reason: None, headers: Box::default(), cause: None }
    }

    /// 500 with a fixed message; `cause` goes to the log.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(ErrorCode::InternalError, "something went wrong on our side") }
    }

    /// 503 with `Retry-After`.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message).retry_after(Duration::from_secs(5))
    }

    /// With a cause for the log.
    pub(crate) fn caused_by(self, cause: String) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// With `prefix` before the message.
    pub(crate) fn prefixed(self, prefix: impl Display) -> Self {
        Self { message: format!("{prefix}: {}", self.message), ..self }
    }

    /// With another message.
    pub(crate) fn worded(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// With the field at fault.
    pub(crate) fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// With the word beside the code.
    pub(crate) fn reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Replaces the parameter `from` by `to`: the same picture may have been sent as a file or by its URL.
    pub(crate) fn renamed(self, from: &str, to: &str) -> Self {
        if self.param.as_deref() == Some(from) { self.param(to) } else { self }
    }

    /// With a header of its reply.
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With `Retry-After`, in whole seconds.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        self.header(RETRY_AFTER, whole_seconds(wait).into())
    }

    /// With `Connection: close`, because the request body is left unread.
    pub(crate) fn closing(self) -> Self {
        self.header(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// Counts it in the metrics and logs it with its private cause.
    pub(crate) fn log(&self) {
        metrics::error_answered(self.code.name());
        match &self.cause {
            Some(cause) if self.code.status().is_server_error() => error!(code = self.code.name(), cause, "failed"),
            // Under any name but `message` the text is quoted: it may have line breaks of the request.
            cause => {
                let reason = without_secrets(&self.message);
                debug!(code = self.code.name(), reason = &*reason, ?cause, "refused");
            }
        }
    }

    /// The public message.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The field at fault.
    pub(crate) fn param_name(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// The headers of its reply.
    pub(crate) fn into_headers(self) -> HeaderMap {
        *self.headers
    }

    /// The word beside the code.
    pub(crate) const fn reason_name(&self) -> Option<&'static str> {
        self.reason
    }

    /// The reply with the error envelope.
    pub(crate) fn into_reply(self, request_id: &str) -> Reply {
        let mut error = json!({ "code": self.code.name(), "message": self.message });
        if let Some(param) = self.param {
            error["param"] = param.into();
        }
        if let Some(reason) = self.reason {
            error["reason"] = reason.into();
        }
        let mut reply = reply::json(self.code.status(), &json!({ "error": error, "request_id": request_id }));
        reply.headers_mut().extend(*self.headers);
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[test]
    fn waiting_times_are_rounded_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds, "{millis} ms");
        }
    }

    #[test]
    fn a_message_with_a_line_break_is_one_line_of_the_log() {
        let file = tempfile::NamedTempFile::new().expect("a writable folder");
        let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
        let lines = lines.with_writer(file.reopen().expect("just created")).finish();
        let error = ApiError::new(ErrorCode::InvalidParameter, "refused\nERROR forged");
        tracing::subscriber::with_default(lines, || error.log());
        let log = std::fs::read_to_string(file.path()).expect("UTF-8");
        assert!(log.lines().count() == 1 && log.contains(r"refused\nERROR forged"), "{log}");
    }

    #[tokio::test]
    async fn the_private_cause_stays_out_of_the_envelope() {
        let reply = ApiError::internal("secret path").into_reply("req_1");
        assert_eq!(reply.status(), 500);
        let body = reply.into_body().collect().await.expect("in memory").to_bytes();
        assert_eq!(
            std::str::from_utf8(&body).expect("JSON"),
            r#"{"error":{"code":"internal_error","message":"something went wrong on our side"},"request_id":"req_1"}"#
        );
    }
}
