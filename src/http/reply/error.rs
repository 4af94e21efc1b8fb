//! [`ErrorCode`], the codes of errors, and [`ApiError`], a failed request and its reply with the error envelope.
//!
//! An error carries the public message; its private cause goes to the log with the request id. The mapping of every
//! domain error to a code is in `error_mapping`.

use crate::http::reply::{self, Reply};
use crate::store::whole_seconds;
use crate::telemetry::{metrics, without_secrets};
use hyper::StatusCode;
use hyper::header::{ALLOW, CONNECTION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::json;
use std::fmt::Display;
use std::time::Duration;
use tracing::{debug, error};

macro_rules! codes {
    ($($code:ident $name:literal $status:ident $about:literal;)+) => {
        /// The closed set of values of `error.code`, each with one HTTP status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $about] $code,)+
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$code),+];

            /// The value of `error.code`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }

            /// Its HTTP status.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self {
                    $(Self::$code => StatusCode::$status,)+
                }
            }

            /// Its meaning, for `/docs`.
            pub(in crate::http) const fn about(self) -> &'static str {
                match self {
                    $(Self::$code => $about,)+
                }
            }
        }
    };
}

codes! {
    InvalidParameter "invalid_parameter" BAD_REQUEST "A value, a missing or unknown field, or a malformed body.";
    InvalidImage "invalid_image" BAD_REQUEST "The bytes are not a readable image.";
    InvalidEndpoint "invalid_endpoint" BAD_REQUEST "`/estimate` of an unknown endpoint.";
    Unauthorized "unauthorized" UNAUTHORIZED "No API key, or one that is not valid.";
    PaymentRequired "payment_required" PAYMENT_REQUIRED "The quota is used up, or the plan lacks the field; `reason` says which.";
    Forbidden "forbidden" FORBIDDEN "Not allowed for this account or key.";
    NotFound "not_found" NOT_FOUND "No such path or record.";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "The path exists with other methods, which `allow` lists.";
    RequestTimeout "request_timeout" REQUEST_TIMEOUT "The body stopped arriving.";
    Conflict "conflict" CONFLICT "The name is taken.";
    IdempotencyConflict "idempotency_conflict" CONFLICT "The `Idempotency-Key` was used for another request.";
    PayloadTooLarge "payload_too_large" PAYLOAD_TOO_LARGE "Too many bytes or pixels.";
    OutputTooLarge "output_too_large" PAYLOAD_TOO_LARGE "The result would have too many pixels.";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "A format of the picture or of the request that is not supported.";
    NoSubjectDetected "no_subject_detected" UNPROCESSABLE_ENTITY "The picture has no subject.";
    NoFaceDetected "no_face_detected" UNPROCESSABLE_ENTITY "The picture has no face.";
    FetchFailed "fetch_failed" FAILED_DEPENDENCY "The address could not be fetched; `reason` says why.";
    RateLimitExceeded "rate_limit_exceeded" TOO_MANY_REQUESTS "Too many requests; `retry-after` says when to repeat.";
    HeadersTooLarge "headers_too_large" REQUEST_HEADER_FIELDS_TOO_LARGE "The head of the request is too large.";
    InternalError "internal_error" INTERNAL_SERVER_ERROR "A fault of this service; quote the `request_id`.";
    UpstreamFailed "upstream_failed" BAD_GATEWAY "Another service failed.";
    Unavailable "unavailable" SERVICE_UNAVAILABLE "Temporarily not possible; `retry-after` says when to repeat.";
}

/// A failed request: the public message with its code, and the private cause for the log.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    /// The public message.
    pub(crate) message: String,
    /// The field at fault.
    pub(crate) param: Option<String>,
    /// A word that separates the cases of a code.
    pub(crate) reason: Option<&'static str>,
    /// Headers of its reply.
    pub(crate) headers: Box<HeaderMap>,
    /// For the log only.
    cause: Option<String>,
}

impl ApiError {
    /// Without parameter, reason, headers and cause.
    pub(crate) fn new(code: ErrorCode, message: impl Display) -> Self {
        Self { code, message: message.to_string(), param: None, reason: None, headers: Box::default(), cause: None }
    }

    /// 500 with a fixed message; `cause` goes to the log.
    pub(crate) fn internal(cause: impl Display) -> Self {
        Self::new(ErrorCode::InternalError, "something went wrong on our side").caused_by(cause)
    }

    /// 503 with `Retry-After`.
    pub(crate) fn unavailable(message: impl Display) -> Self {
        Self::new(ErrorCode::Unavailable, message).retry_after(Duration::from_secs(5))
    }

    /// 405 with `Allow`, the methods that the path takes, and this message.
    pub(crate) fn method_not_allowed(allowed: &str, message: impl Display) -> Self {
        let allowed = HeaderValue::from_str(allowed).expect("methods are ASCII");
        Self::new(ErrorCode::MethodNotAllowed, message).header(ALLOW, allowed)
    }

    /// With a cause for the log.
    pub(crate) fn caused_by(self, cause: impl Display) -> Self {
        Self { cause: Some(cause.to_string()), ..self }
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

    /// With the reason.
    pub(crate) fn reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Replaces the parameter `from` by `to`: a picture may have been sent as a file or by its URL.
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
        self.header(CONNECTION, HeaderValue::from_static("close"))
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
