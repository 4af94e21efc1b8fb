//! Maps every domain error to an [`ApiError`].
//!
//! The matches have no wildcard arm, so that a new error variant does not compile without a code.

use crate::account::presets::PresetError;
use crate::account::price::PriceError;
use crate::codec::{DecodeError, EncodeError};
use crate::engine::EngineError;
use crate::generate::{ProviderError, UpstreamError};
use crate::http::admission::{QUOTA_EXHAUSTED, uploads_full_error};
use crate::http::bulk_runs::BulkRefusal;
use crate::http::reply::{ApiError, ErrorCode};
use crate::http::request::body::BodyError;
use crate::http::request::clip_upload::{disk_full_error, is_disk_full};
use crate::http::request::fingerprint;
use crate::http::request::multipart::MultipartError;
use crate::jobs::JobsError;
use crate::jobs::results::ResultsError;
use crate::pipeline::{AuxImage, PipelineError};
use crate::recipe::{BG_FILE, FieldError, MASK_FILE};
use crate::source::{FetchError, FetchFailure};
use crate::store::{BillingError, ChangeError, OpenError, PRESETS_PER_ACCOUNT};
use crate::telemetry::with_causes;
use crate::video::VideoError;
use hyper::header::InvalidHeaderValue;
use std::time::Duration;
use tokio::task::JoinError;

impl From<JoinError> for ApiError {
    /// A task that panicked.
    fn from(error: JoinError) -> Self {
        Self::internal(&error)
    }
}

impl From<InvalidHeaderValue> for ApiError {
    fn from(error: InvalidHeaderValue) -> Self {
        Self::internal(&error)
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        Self::new(ErrorCode::InvalidParameter, &error).param(error.param())
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooSlow => Self::new(ErrorCode::RequestTimeout, "the request body came too slowly").closing(),
            // The client is gone; the message serves the log and the metrics.
            BodyError::Broken(cause) => {
                Self::new(ErrorCode::InvalidParameter, "the request body is incomplete").caused_by(cause)
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
                let param = match which {
                    AuxImage::Background => BG_FILE,
                    AuxImage::Mark => "watermark",
                    AuxImage::Mask => MASK_FILE,
                };
                Self::from(error).prefixed(which).param(param)
            }
            PipelineError::Guidance(error) => error.into(),
            PipelineError::OutputTooLarge(error) => Self::new(ErrorCode::OutputTooLarge, error),
            PipelineError::NoSubject(error) => Self::new(ErrorCode::NoSubjectDetected, error).param("file"),
            PipelineError::NoFace => Self::new(ErrorCode::NoFaceDetected, &error).param("file"),
            PipelineError::NoAlpha => Self::new(ErrorCode::InvalidParameter, &error).param("format"),
            PipelineError::Engine(error) => error.into(),
            PipelineError::Encode(error @ EncodeError::Encoder { .. }) => Self::internal(&error),
        }
    }
}

/// 413 for a file beyond a limit; names the operator's setting.
fn too_large_error(error: &DecodeError, setting: &str) -> ApiError {
    let message = format!("{error}; send a smaller one, or raise `{setting}` of the server");
    ApiError::new(ErrorCode::PayloadTooLarge, message).param("file")
}

impl From<DecodeError> for ApiError {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::Empty | DecodeError::Corrupt(_) => ErrorCode::InvalidImage,
            DecodeError::Unsupported { .. } => ErrorCode::UnsupportedMediaType,
            DecodeError::TooManyBytes { .. } => return too_large_error(&error, "limits.max_bytes"),
            DecodeError::TooManyPixels { .. } => return too_large_error(&error, "limits.max_side"),
            DecodeError::TooManyMegapixels { .. } => return too_large_error(&error, "limits.max_megapixels"),
            DecodeError::Worker(_) => return Self::internal(&error),
        };
        Self::new(code, &error).param("file")
    }
}

impl From<FetchError> for ApiError {
    /// One message for each class of failures: more detail would turn this service into a port scanner.
    fn from(error: FetchError) -> Self {
        let failed = |reason, message| Self::new(ErrorCode::FetchFailed, message).reason(reason);
        let answer = match error.failure() {
            FetchFailure::Address => failed("address", "the host of the URL has no public address that can be reached"),
            FetchFailure::Timeout => failed("timeout", "the host of the URL took too long"),
            FetchFailure::Tls => failed("tls", "the TLS handshake with the host of the URL failed"),
            FetchFailure::Status => failed("status", "the host of the URL did not answer with a file"),
            FetchFailure::Encoded => {
                failed("status", "the host of the URL answered with a compressed file (`content-encoding`)")
            }
            FetchFailure::TooLarge { limit } => DecodeError::TooManyBytes { limit }.into(),
            FetchFailure::NotAPicture => {
                let message = "there is no picture at the URL that is read here: send JPG, PNG, WebP or HEIC";
                Self::new(ErrorCode::UnsupportedMediaType, message)
            }
            FetchFailure::OutOfMemory => uploads_full_error(),
        };
        answer.caused_by(with_causes(&error))
    }
}

impl From<ProviderError> for ApiError {
    /// Names the model to the caller; the upstream's own message goes to the log.
    fn from(error: ProviderError) -> Self {
        let (model, cause) = (error.model, format!("model {}: {}", error.model, with_causes(&*error.error)));
        let failed = || Self::new(ErrorCode::UpstreamFailed, format!("model `{model}` made no backdrop"));
        let public = match &*error.error {
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
        public.caused_by(cause)
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
            EngineError::Failed(_) => Self::unavailable("the network could not be loaded").caused_by(&error),
            EngineError::Device(_) | EngineError::Panicked(_) => Self::internal(&error),
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
        Self::new(code, &error).param("file")
    }
}

impl From<ChangeError> for ApiError {
    /// 503 if the store cannot write at present or lost its database; 500 otherwise.
    fn from(error: ChangeError) -> Self {
        let cause = with_causes(&error);
        if matches!(error, ChangeError::Unavailable(_) | ChangeError::Interrupted(_) | ChangeError::Busy) {
            no_store(cause)
        } else {
            Self::internal(cause)
        }
    }
}

impl From<BillingError> for ApiError {
    fn from(error: BillingError) -> Self {
        match error {
            BillingError::MoreThanReserved { .. } => Self::internal(&error),
            BillingError::Exhausted(error) => Self::new(ErrorCode::PaymentRequired, error).reason(QUOTA_EXHAUSTED),
            BillingError::Conflict => fingerprint::conflict(),
            BillingError::Repeated => Self::unavailable(&error),
            BillingError::Write(error) => error.into(),
        }
    }
}

impl From<BulkRefusal> for ApiError {
    fn from(refusal: BulkRefusal) -> Self {
        match refusal {
            BulkRefusal::Parameter { param, message } => Self::new(ErrorCode::InvalidParameter, message).param(param),
            BulkRefusal::Forbidden { param } => {
                let message = "the operator of this service has not allowed this place to the account";
                Self::new(ErrorCode::Forbidden, message).param(param)
            }
            BulkRefusal::Internal(cause) => Self::internal(cause),
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
    ApiError::unavailable("the service's records are not available right now").caused_by(cause)
}

impl From<PresetError> for ApiError {
    fn from(error: PresetError) -> Self {
        match error {
            PresetError::Field(error) => error.into(),
            PresetError::Write(ChangeError::NoSuchPreset(_)) => {
                Self::new(ErrorCode::NotFound, "this account has no such preset").param("id")
            }
            PresetError::Write(ChangeError::PresetNameTaken(_)) => Self::new(ErrorCode::Conflict, &error).param("name"),
            PresetError::Write(ChangeError::TooManyPresets(_)) => {
                let message = format!("an account has at most {PRESETS_PER_ACCOUNT} presets; delete one first");
                Self::new(ErrorCode::Conflict, message)
            }
            PresetError::Write(error) => error.into(),
            PresetError::Read(error) => error.into(),
        }
    }
}

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        match error {
            JobsError::TooMany(_) => {
                Self::new(ErrorCode::RateLimitExceeded, &error).retry_after(Duration::from_secs(10))
            }
            JobsError::Share { .. } => {
                Self::new(ErrorCode::RateLimitExceeded, &error).retry_after(Duration::from_secs(60))
            }
            JobsError::Quota(_) => Self::new(ErrorCode::PaymentRequired, &error).reason(QUOTA_EXHAUSTED),
            JobsError::Cursor => Self::new(ErrorCode::InvalidParameter, &error).param("cursor"),
            JobsError::Io { ref source, .. } if is_disk_full(source) => disk_full_error(with_causes(&error)),
            JobsError::DiskSpace(_) => disk_full_error(error.to_string()),
            JobsError::Write(error) => error.into(),
            JobsError::Read(OpenError::Corrupt { .. }) => {
                Self::new(ErrorCode::InternalError, "records of jobs cannot be read").caused_by(with_causes(&error))
            }
            JobsError::Read(error) => error.into(),
            JobsError::Results(_) => {
                let message = "the place of the service's results is not available right now";
                Self::unavailable(message).caused_by(with_causes(&error))
            }
            JobsError::Io { .. } => Self::internal(with_causes(&error)),
        }
    }
}

impl From<ResultsError> for ApiError {
    fn from(error: ResultsError) -> Self {
        match error {
            ResultsError::Store(_) => {
                Self::unavailable("the store of results is not available right now").caused_by(&error)
            }
            ResultsError::Place(_) | ResultsError::Io { .. } | ResultsError::Name(_) => Self::internal(&error),
        }
    }
}

impl From<PriceError> for ApiError {
    fn from(error: PriceError) -> Self {
        match error {
            PriceError::UnknownEndpoint(_) => Self::new(ErrorCode::InvalidEndpoint, &error).param("endpoint"),
            PriceError::Field(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::DiskSpaceError;
    use http_body_util::BodyExt;
    use hyper::StatusCode;
    use hyper::header::RETRY_AFTER;
    use std::io;

    /// The reply's body as text.
    async fn body_of(error: FetchError) -> String {
        let body = ApiError::from(error).param("url").into_reply("req_1").into_body();
        String::from_utf8(body.collect().await.expect("in memory").to_bytes().to_vec()).expect("JSON")
    }

    #[tokio::test]
    async fn failures_that_concern_the_address_get_the_same_reply() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let expected = body_of(FetchError::NoAddress).await;
        assert!(expected.contains(r#""code":"fetch_failed""#) && expected.contains(r#""reason":"address""#));
        for error in [
            FetchError::Resolve(refused()),
            FetchError::PrivateAddress([10, 1, 2, 3].into()),
            FetchError::Connect(refused()),
            FetchError::Connect(io::ErrorKind::NetworkUnreachable.into()),
            FetchError::HostName,
        ] {
            assert_eq!(body_of(error).await, expected);
        }
    }

    #[tokio::test]
    async fn failures_of_an_origin_are_answered_by_class_without_detail() {
        let type_of = |found| FetchError::NotAPicture(DecodeError::Unsupported { found: Some(found) });
        assert_eq!(body_of(type_of("a PDF")).await, body_of(type_of("HTML")).await);
        assert_eq!(body_of(type_of("GIF")).await, body_of(FetchError::NotAPicture(DecodeError::Empty)).await);
        let status = body_of(FetchError::Status(StatusCode::NOT_FOUND)).await;
        for error in [FetchError::Status(StatusCode::FORBIDDEN), FetchError::RedirectedTwice] {
            assert_eq!(body_of(error).await, status);
        }
        let timeout = body_of(FetchError::TimedOut(Duration::from_secs(1))).await;
        assert_eq!(body_of(FetchError::Connect(io::ErrorKind::TimedOut.into())).await, timeout);
        let tls = body_of(FetchError::Tls(io::Error::other("expired"))).await;
        for (answer, reason) in [(&timeout, "timeout"), (&tls, "tls"), (&status, "status")] {
            assert!(answer.contains(&format!(r#""reason":"{reason}""#)), "{answer}");
            assert!(FetchFailure::REASONS.contains(&reason));
        }
        assert!(!tls.contains("expired") && !status.contains("404"));
    }

    #[test]
    fn temporary_failures_of_jobs_are_503_or_429_with_retry_after_and_others_are_not() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let change = JobsError::Write;
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
            assert!(!error.message.contains("secret"), "{}", error.message);
            assert!(error.into_reply("req_1").headers().contains_key(RETRY_AFTER), "{shown}");
        }
        for error in [JobsError::TooMany(20), JobsError::Share { used: 1, wanted: 2, max: 3 }] {
            let reply = ApiError::from(error).into_reply("req_1");
            assert_eq!(reply.status(), StatusCode::TOO_MANY_REQUESTS);
            assert!(reply.headers().contains_key(RETRY_AFTER));
        }
        // Whether these are safe to retry is not known.
        for error in [change(ChangeError::Storage("lost".into())), JobsError::Write(ChangeError::Closed)] {
            assert_eq!(ApiError::from(error).code, ErrorCode::InternalError);
        }
        let reason = "job job_1: malformed record".to_owned();
        let error = ApiError::from(JobsError::Read(OpenError::Corrupt { path: "/secret/path".into(), reason }));
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::InternalError, "records of jobs cannot be read"));
    }
}
