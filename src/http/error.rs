//! What callers are told when something fails: one closed set of codes, and every domain error's place in it.
//!
//! The matches below have no wildcard arm, so that a new way to fail cannot ship without a code. An error carries the
//! public sentence; its private cause goes to the log under the same request id.

use super::body::BodyError;
use super::multipart::MultipartError;
use super::response::{self, Reply};
use super::upload_memory::no_room;
use crate::account::rate::whole_seconds;
use crate::account::{LedgerError, WriteError};
use crate::codec::{DecodeError, EncodeError};
use crate::engine::EngineError;
use crate::generate::{ProviderError, UpstreamError};
use crate::pipeline::{AuxImage, PipelineError};
use crate::recipe::{BG_FILE, FieldError};
use crate::source::{FetchError, FetchFailure};
use crate::store::{ChangeError, OpenError};
use crate::telemetry::{metrics, with_causes};
use crate::video::VideoError;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{StatusCode, header};
use serde_json::json;
use std::time::Duration;
use tracing::{debug, error};

/// Everything that `error.code` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A value, a missing or unknown field, a malformed body.
    InvalidParameter,
    /// The bytes are not a readable image.
    InvalidImage,
    /// `/estimate` does not know the endpoint.
    InvalidEndpoint,
    /// No key, or not a working one.
    Unauthorized,
    /// The plan does not cover it.
    PaymentRequired,
    /// Not open to this account.
    Forbidden,
    /// No such path or record.
    NotFound,
    /// The path has other methods.
    MethodNotAllowed,
    /// The request body stopped coming.
    RequestTimeout,
    /// The name is taken.
    Conflict,
    /// One `Idempotency-Key`, two requests.
    IdempotencyConflict,
    /// Too many bytes or pixels.
    PayloadTooLarge,
    /// The result would have too many pixels.
    OutputTooLarge,
    /// Not a picture format, or not a request format, that is read here.
    UnsupportedMediaType,
    /// No foreground.
    NoSubjectDetected,
    /// No face.
    NoFaceDetected,
    /// The source URL could not be fetched.
    FetchFailed,
    /// Too many requests, of this caller or of all.
    RateLimitExceeded,
    /// The head of the request is too large.
    HeadersTooLarge,
    /// Our fault.
    InternalError,
    /// Another service failed.
    UpstreamFailed,
    /// Not now.
    Unavailable,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: &'static [Self] = &[
        Self::InvalidParameter,
        Self::InvalidImage,
        Self::InvalidEndpoint,
        Self::Unauthorized,
        Self::PaymentRequired,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::Conflict,
        Self::IdempotencyConflict,
        Self::PayloadTooLarge,
        Self::OutputTooLarge,
        Self::UnsupportedMediaType,
        Self::NoSubjectDetected,
        Self::NoFaceDetected,
        Self::FetchFailed,
        Self::RateLimitExceeded,
        Self::HeadersTooLarge,
        Self::InternalError,
        Self::UpstreamFailed,
        Self::Unavailable,
    ];

    /// As it stands in `error.code`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidParameter => "invalid_parameter",
            Self::InvalidImage => "invalid_image",
            Self::InvalidEndpoint => "invalid_endpoint",
            Self::Unauthorized => "unauthorized",
            Self::PaymentRequired => "payment_required",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::Conflict => "conflict",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::PayloadTooLarge => "payload_too_large",
            Self::OutputTooLarge => "output_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::NoSubjectDetected => "no_subject_detected",
            Self::NoFaceDetected => "no_face_detected",
            Self::FetchFailed => "fetch_failed",
            Self::RateLimitExceeded => "rate_limit_exceeded",
            Self::HeadersTooLarge => "headers_too_large",
            Self::InternalError => "internal_error",
            Self::UpstreamFailed => "upstream_failed",
            Self::Unavailable => "unavailable",
        }
    }

    /// The status it always comes with.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidParameter | Self::InvalidImage | Self::InvalidEndpoint => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::PaymentRequired => StatusCode::PAYMENT_REQUIRED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict | Self::IdempotencyConflict => StatusCode::CONFLICT,
            Self::PayloadTooLarge | Self::OutputTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NoSubjectDetected | Self::NoFaceDetected => StatusCode::UNPROCESSABLE_ENTITY,
            Self::FetchFailed => StatusCode::FAILED_DEPENDENCY,
            Self::RateLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::UpstreamFailed => StatusCode::BAD_GATEWAY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// A failure as the caller is told it.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) code: ErrorCode,
    message: String,
    param: Option<String>,
    /// One word that separates the cases of one code.
    reason: Option<&'static str>,
    headers: Box<HeaderMap>,
    /// For the log only.
    pub(super) cause: Option<String>,
}

impl ApiError {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None, reason: None, headers: Box::default(), cause: None }
    }

    /// Something that must not happen did; what it was is for the log.
    pub(super) fn internal(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(ErrorCode::InternalError, "something went wrong on our side") }
    }

    /// Not now; later.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message).retry_after(Duration::from_secs(5))
    }

    /// With what is for the log only.
    pub(super) fn because(self, cause: String) -> Self {
        Self { cause: Some(cause), ..self }
    }

    pub(super) fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    pub(super) fn reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Blames `to` for what is blamed on `from`: the same picture may have come as a file or by its address.
    pub(super) fn renamed(self, from: &str, to: &str) -> Self {
        if self.param.as_deref() == Some(from) { self.param(to) } else { self }
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(super) fn retry_after(self, wait: Duration) -> Self {
        self.header(RETRY_AFTER, whole_seconds(wait).into())
    }

    /// The body is left unread and the connection is of no use any more.
    pub(super) fn closing(self) -> Self {
        self.header(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// Tells the metrics and the log, which also hears what the caller is not told.
    pub(super) fn log(&self) {
        metrics::error_answered(self.code.name());
        match &self.cause {
            Some(cause) if self.code.status().is_server_error() => error!(code = self.code.name(), cause, "failed"),
            cause => debug!(code = self.code.name(), message = self.message, ?cause, "refused"),
        }
    }

    /// The public sentence.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The field at fault.
    pub(super) fn given_param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// The headers of its reply.
    pub(super) fn into_headers(self) -> HeaderMap {
        *self.headers
    }

    /// The word beside the code.
    pub(super) const fn given_reason(&self) -> Option<&'static str> {
        self.reason
    }

    /// The envelope.
    pub(super) fn into_reply(self, request_id: &str) -> Reply {
        let mut error = json!({ "code": self.code.name(), "message": self.message });
        if let Some(param) = self.param {
            error["param"] = param.into();
        }
        if let Some(reason) = self.reason {
            error["reason"] = reason.into();
        }
        let mut reply = response::json(self.code.status(), &json!({ "error": error, "request_id": request_id }));
        reply.headers_mut().extend(*self.headers);
        reply
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        Self::new(ErrorCode::InvalidParameter, error.to_string()).param(error.param())
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooSlow => Self::new(ErrorCode::RequestTimeout, "the request body came too slowly").closing(),
            // Nobody is left to read this; the log and the metrics still tell what became of the request.
            BodyError::Broken(cause) => {
                Self { cause: Some(cause), ..Self::new(ErrorCode::InvalidParameter, "the request body is incomplete") }
            }
        }
    }
}

impl From<MultipartError> for ApiError {
    fn from(error: MultipartError) -> Self {
        match error {
            MultipartError::Malformed(what) => {
                Self::new(ErrorCode::InvalidParameter, format!("malformed multipart body: {what}"))
            }
            MultipartError::BodyTooLarge => Self::new(ErrorCode::PayloadTooLarge, "the request body is too large"),
            MultipartError::Body(error) => error.into(),
        }
    }
}

impl From<PipelineError> for ApiError {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Decode(error) => error.into(),
            PipelineError::AuxImage { which, error } => {
                let message = format!("{which}: {error}");
                let param = match which {
                    AuxImage::Background => BG_FILE,
                    AuxImage::Mark => "watermark",
                };
                Self { message, ..error.into() }.param(param)
            }
            PipelineError::OutputTooLarge(error) => Self::new(ErrorCode::OutputTooLarge, error.to_string()),
            PipelineError::NoSubject(error) => Self::new(ErrorCode::NoSubjectDetected, error.to_string()).param("file"),
            PipelineError::NoFace => Self::new(ErrorCode::NoFaceDetected, error.to_string()).param("file"),
            PipelineError::NoAlpha => Self::new(ErrorCode::InvalidParameter, error.to_string()).param("format"),
            PipelineError::Engine(error) => error.into(),
            PipelineError::Encode(error) => error.into(),
        }
    }
}

impl From<DecodeError> for ApiError {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::Empty | DecodeError::Corrupt(_) => ErrorCode::InvalidImage,
            DecodeError::Unsupported { .. } => ErrorCode::UnsupportedMediaType,
            DecodeError::TooManyBytes { .. }
            | DecodeError::TooManyPixels { .. }
            | DecodeError::TooManyMegapixels { .. } => ErrorCode::PayloadTooLarge,
        };
        Self::new(code, error.to_string()).param("file")
    }
}

impl From<FetchError> for ApiError {
    /// One sentence for each class of failures: more detail would make this service a scanner.
    fn from(error: FetchError) -> Self {
        let failed = |reason, message| Self::new(ErrorCode::FetchFailed, message).reason(reason);
        let answer = match error.failure() {
            FetchFailure::Address => failed("address", "the host of the URL has no public address that can be reached"),
            FetchFailure::Timeout => failed("timeout", "the host of the URL took too long"),
            FetchFailure::Tls => failed("tls", "the TLS handshake with the host of the URL failed"),
            FetchFailure::Status => failed("status", "the host of the URL did not answer with a file"),
            FetchFailure::TooLarge { limit } => DecodeError::TooManyBytes { limit }.into(),
            FetchFailure::NotAPicture => {
                let message = "there is no picture at the URL that is read here: send JPG, PNG, WebP or HEIC";
                Self::new(ErrorCode::UnsupportedMediaType, message)
            }
            FetchFailure::NoRoom => no_room(),
        };
        answer.because(with_causes(&error))
    }
}

impl From<ProviderError> for ApiError {
    /// Callers are told which model it was; what it said is the operator's to read.
    fn from(error: ProviderError) -> Self {
        let (model, cause) = (error.model, format!("model {}: {}", error.model, with_causes(&*error.error)));
        let failed = || Self::new(ErrorCode::UpstreamFailed, format!("model `{model}` made no backdrop"));
        let told = match &*error.error {
            UpstreamError::PromptRefused { .. } => {
                Self::new(ErrorCode::InvalidParameter, format!("model `{model}` refused the prompt")).param("prompt")
            }
            UpstreamError::NotOffered => {
                Self::new(ErrorCode::Forbidden, format!("model `{model}` is not available to this account"))
                    .param("model")
            }
            UpstreamError::CircuitOpen(wait) => failed().retry_after(*wait),
            UpstreamError::Status { .. }
            | UpstreamError::Http(_)
            | UpstreamError::TimedOut(_)
            | UpstreamError::TooLarge { .. }
            | UpstreamError::Malformed(_)
            | UpstreamError::Address(_)
            | UpstreamError::Fetch(_)
            | UpstreamError::Picture(_) => failed(),
        };
        told.because(cause)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::QueueFull { retry_after } => {
                Self::new(ErrorCode::RateLimitExceeded, "too many requests are being worked on")
                    .retry_after(retry_after)
            }
            EngineError::Stopped => Self::unavailable("the service is shutting down"),
            EngineError::DeadlineExceeded => Self::unavailable("the work took too long"),
            EngineError::Failed(_) => {
                Self { cause: Some(error.to_string()), ..Self::unavailable("the network could not be loaded") }
            }
            EngineError::Device(_) | EngineError::Panicked(_) => Self::internal(error.to_string()),
        }
    }
}

impl From<VideoError> for ApiError {
    fn from(error: VideoError) -> Self {
        let code = match error {
            VideoError::Unreadable => ErrorCode::InvalidImage,
            VideoError::Unsupported(_) => ErrorCode::UnsupportedMediaType,
            VideoError::NoPicture => ErrorCode::NoSubjectDetected,
            VideoError::TooLarge(_) | VideoError::Exhausted(_) => ErrorCode::PayloadTooLarge,
            VideoError::Engine(error) => return error.into(),
            VideoError::Io { .. } | VideoError::Tool(_) => return Self::internal(with_causes(&error)),
        };
        Self::new(code, error.to_string()).param("file")
    }
}

impl From<WriteError> for ApiError {
    /// A change that did not happen because the store cannot write now is worth another request.
    fn from(error: WriteError) -> Self {
        let cause = with_causes(&error);
        if matches!(error, WriteError::Change(ChangeError::Unavailable(_) | ChangeError::Busy)) {
            no_store(cause)
        } else {
            Self::internal(cause)
        }
    }
}

impl From<LedgerError> for ApiError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::MoreThanReserved { .. } => Self::internal(error.to_string()),
            LedgerError::Write(error) => error.into(),
        }
    }
}

impl From<OpenError> for ApiError {
    fn from(error: OpenError) -> Self {
        let cause = with_causes(&error);
        if matches!(error, OpenError::Io { .. }) { no_store(cause) } else { Self::internal(cause) }
    }
}

/// The store cannot be read or written at present.
fn no_store(cause: String) -> ApiError {
    ApiError::unavailable("the service's records are not available right now").because(cause)
}

impl From<EncodeError> for ApiError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Encoder { .. } => Self::internal(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::collections::HashSet;
    use std::io;

    #[test]
    fn codes_have_distinct_names_and_all_of_them_are_listed() {
        let names: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert!(ErrorCode::ALL.iter().all(|code| code.status().is_client_error() || code.status().is_server_error()));
    }

    #[test]
    fn waiting_times_are_rounded_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds, "{millis} ms");
        }
    }

    /// What a caller is answered, as text.
    async fn answered(error: FetchError) -> String {
        let body = ApiError::from(error).param("url").into_reply("req_1").into_body();
        String::from_utf8(body.collect().await.expect("in memory").to_bytes().to_vec()).expect("JSON")
    }

    #[tokio::test]
    async fn all_that_concerns_an_address_is_answered_alike() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let expected = answered(FetchError::NoAddress).await;
        assert!(expected.contains(r#""code":"fetch_failed""#) && expected.contains(r#""reason":"address""#));
        for error in [
            FetchError::Resolve(refused()),
            FetchError::PrivateAddress([10, 1, 2, 3].into()),
            FetchError::Connect(refused()),
            FetchError::Connect(io::ErrorKind::NetworkUnreachable.into()),
            FetchError::HostName,
        ] {
            assert_eq!(answered(error).await, expected);
        }
    }

    #[tokio::test]
    async fn what_an_origin_did_is_answered_by_its_class_and_without_detail() {
        let type_of = |found| FetchError::NotAPicture(DecodeError::Unsupported { found: Some(found) });
        assert_eq!(answered(type_of("a PDF")).await, answered(type_of("HTML")).await);
        assert_eq!(answered(type_of("GIF")).await, answered(FetchError::NotAPicture(DecodeError::Empty)).await);
        let status = answered(FetchError::Status(StatusCode::NOT_FOUND)).await;
        for error in [FetchError::Status(StatusCode::FORBIDDEN), FetchError::RedirectedTwice] {
            assert_eq!(answered(error).await, status);
        }
        let timeout = answered(FetchError::TimedOut(Duration::from_secs(1))).await;
        assert_eq!(answered(FetchError::Connect(io::ErrorKind::TimedOut.into())).await, timeout);
        let tls = answered(FetchError::Tls(io::Error::other("expired"))).await;
        for (answer, reason) in [(&timeout, "timeout"), (&tls, "tls"), (&status, "status")] {
            assert!(answer.contains(&format!(r#""reason":"{reason}""#)), "{answer}");
            assert!(FetchFailure::REASONS.contains(&reason));
        }
        assert!(!tls.contains("expired") && !status.contains("404"));
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
