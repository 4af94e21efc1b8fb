//! The closed set of error codes (`error.code`), each with one HTTP status.

use hyper::StatusCode;

/// Everything that `error.code` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A value, a missing or unknown field, a malformed body.
    InvalidParameter,
    /// The bytes are not a readable image.
    InvalidImage,
    /// `/estimate` of an unknown endpoint.
    InvalidEndpoint,
    /// No API key, or one that is not valid.
    Unauthorized,
    /// The plan does not cover it.
    PaymentRequired,
    /// Not allowed for this account.
    Forbidden,
    /// No such path or record.
    NotFound,
    /// The path exists with other methods.
    MethodNotAllowed,
    /// The request body stopped arriving.
    RequestTimeout,
    /// The name is taken.
    Conflict,
    /// One `Idempotency-Key`, two requests.
    IdempotencyConflict,
    /// Too many bytes or pixels.
    PayloadTooLarge,
    /// The result would have too many pixels.
    OutputTooLarge,
    /// A picture format or request format that is not supported.
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
    /// A fault of this service.
    InternalError,
    /// Another service failed.
    UpstreamFailed,
    /// Temporarily not possible.
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

    /// The value of `error.code`.
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

    /// Its HTTP status.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_have_distinct_names_and_all_of_them_are_listed() {
        let names: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert!(ErrorCode::ALL.iter().all(|code| code.status().is_client_error() || code.status().is_server_error()));
    }
}
