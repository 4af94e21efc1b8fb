//! Maps an [`ApiError`] to the envelope, status and codes of another service.

#![expect(clippy::wildcard_enum_match_arm, reason = "codes grow; one without a counterpart keeps its own name")]

use super::dispatch::WireFormat;
use crate::http::reply::{self, ApiError, ErrorCode, Reply};
use crate::recipe::BG_FILE;
use hyper::StatusCode;
use hyper::header::WWW_AUTHENTICATE;
use serde_json::{Value, json};
use std::fmt::Display;

/// The parameter of a failure that concerns the number of pixels of a source and not its bytes.
pub(super) const RESOLUTION: &str = "resolution";

/// An invalid request with a code of the service, which is its reason: no other invalid parameter has a reason.
pub(super) fn invalid_request(code: &'static str, message: impl Display) -> ApiError {
    ApiError::new(ErrorCode::InvalidParameter, message).reason(code)
}

/// Logs and counts the error; returns the reply.
pub(super) fn refusal(error: ApiError, format: WireFormat, has_key: bool) -> Reply {
    error.log();
    let code = error.reason.filter(|_| error.code == ErrorCode::InvalidParameter);
    let status = status(format, &error, code);
    let message = match error.code {
        ErrorCode::Unauthorized if has_key => "API Key invalid",
        ErrorCode::Unauthorized => "Missing API Key",
        _ => &error.message,
    };
    let body = match format {
        WireFormat::RemoveBg => {
            let code = code.unwrap_or_else(|| removebg_code(&error));
            let title = title(code).unwrap_or(message);
            json!({ "errors": [{ "title": title, "code": code, "detail": message }] })
        }
        WireFormat::Rembg => json!({ "detail": rembg_detail(&error, message, status) }),
        WireFormat::Photoroom => {
            let code = code.unwrap_or_else(|| photoroom_code(&error));
            json!({ "detail": message, "status_code": status.as_u16(), "type": code })
        }
    };
    let mut reply = reply::json(status, &body);
    let mut headers = *error.headers;
    if status == StatusCode::FORBIDDEN {
        headers.remove(WWW_AUTHENTICATE);
    }
    reply.headers_mut().extend(headers);
    reply
}

/// The status of a reply. `code`: the code of the service that the error carries.
fn status(format: WireFormat, error: &ApiError, code: Option<&str>) -> StatusCode {
    let usual = error.code.status();
    match (format, usual) {
        // Neither service answers 401.
        (WireFormat::RemoveBg | WireFormat::Photoroom, StatusCode::UNAUTHORIZED) => StatusCode::FORBIDDEN,
        // Errors in a picture are 400.
        (
            _,
            StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::FAILED_DEPENDENCY,
        ) => StatusCode::BAD_REQUEST,
        // FastAPI, on which rembg's server is built, refuses parameters in its own validation.
        (WireFormat::Rembg, _)
            if error.code == ErrorCode::InvalidParameter && error.param.is_some() && code.is_none() =>
        {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        _ => usual,
    }
}

/// remove.bg's code.
fn removebg_code(error: &ApiError) -> &'static str {
    let param = error.param.as_deref().unwrap_or_default();
    match error.code {
        ErrorCode::InvalidParameter => match param {
            "url" => "invalid_image_url",
            "bg_url" => "invalid_bg_image_url",
            "bg_color" => "invalid_bg_color",
            "channels" => "invalid_channels",
            "crop_margin" => "invalid_crop_margin",
            "format" => "invalid_format",
            "position" => "invalid_position",
            "roi" => "invalid_roi",
            "scale" => "invalid_scale",
            _ => error.code.name(),
        },
        ErrorCode::InvalidImage => "failed_to_read_image",
        ErrorCode::UnsupportedMediaType => "invalid_file_type",
        ErrorCode::PayloadTooLarge if param == RESOLUTION => "resolution_too_high",
        ErrorCode::PayloadTooLarge => "file_too_large",
        ErrorCode::OutputTooLarge => "resolution_too_high",
        ErrorCode::NoSubjectDetected => "unknown_foreground",
        ErrorCode::FetchFailed if matches!(param, BG_FILE | "bg_url") => "failed_bg_download",
        ErrorCode::FetchFailed => "failed_image_download",
        ErrorCode::PaymentRequired => "insufficient_credits",
        ErrorCode::Unauthorized => "auth_failed",
        _ => error.code.name(),
    }
}

/// Titles that clients compare.
fn title(code: &str) -> Option<&'static str> {
    match code {
        "insufficient_credits" => Some("Insufficient credits"),
        "rate_limit_exceeded" => Some("Rate limit exceeded"),
        "unknown_foreground" => Some("Could not identify foreground in image"),
        _ => None,
    }
}

/// Photoroom's type.
fn photoroom_code(error: &ApiError) -> &'static str {
    match error.code {
        ErrorCode::Unauthorized => "auth_failed",
        ErrorCode::PaymentRequired => "insufficient_credits",
        _ => error.code.name(),
    }
}

/// rembg's detail: a sentence, or a list of one entry for a parameter that FastAPI refuses.
fn rembg_detail(error: &ApiError, message: &str, status: StatusCode) -> Value {
    match error.param.as_deref() {
        Some(param) if status == StatusCode::UNPROCESSABLE_ENTITY => {
            let place = if param == "url" { "query" } else { "body" };
            json!([{ "loc": [place, param], "msg": message, "type": "value_error" }])
        }
        _ => message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::FieldError;
    use http_body_util::BodyExt;

    fn invalid(param: &str) -> ApiError {
        FieldError::invalid(param, "x", "y").into()
    }

    fn of(code: ErrorCode, param: &str) -> ApiError {
        ApiError::new(code, "m").param(param)
    }

    async fn answered(error: ApiError, format: WireFormat) -> (u16, Value) {
        let reply = refusal(error, format, true);
        let status = reply.status().as_u16();
        assert!(reply.headers().get(WWW_AUTHENTICATE).is_none() || status == 401);
        let body = reply.into_body().collect().await.expect("in memory").to_bytes();
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    #[tokio::test]
    async fn every_failure_has_its_code_at_remove_bg() {
        for (error, status, code) in [
            (invalid("roi"), 400, "invalid_roi"),
            (invalid("bg_url"), 400, "invalid_bg_image_url"),
            (invalid("url"), 400, "invalid_image_url"),
            (invalid("crop"), 400, "invalid_parameter"),
            (invalid_request("missing_source", "m"), 400, "missing_source"),
            (of(ErrorCode::InvalidImage, "file"), 400, "failed_to_read_image"),
            (of(ErrorCode::UnsupportedMediaType, "file"), 400, "invalid_file_type"),
            (of(ErrorCode::PayloadTooLarge, "file"), 400, "file_too_large"),
            (of(ErrorCode::PayloadTooLarge, RESOLUTION), 400, "resolution_too_high"),
            (of(ErrorCode::OutputTooLarge, ""), 400, "resolution_too_high"),
            (of(ErrorCode::NoSubjectDetected, "file"), 400, "unknown_foreground"),
            (of(ErrorCode::FetchFailed, "url"), 400, "failed_image_download"),
            (of(ErrorCode::FetchFailed, "bg_url"), 400, "failed_bg_download"),
            (of(ErrorCode::PaymentRequired, ""), 402, "insufficient_credits"),
            (of(ErrorCode::Unauthorized, ""), 403, "auth_failed"),
            (of(ErrorCode::RateLimitExceeded, ""), 429, "rate_limit_exceeded"),
            (of(ErrorCode::NotFound, ""), 404, "not_found"),
            (ApiError::internal("secret"), 500, "internal_error"),
        ] {
            let (answered, body) = answered(error, WireFormat::RemoveBg).await;
            let error = &body["errors"][0];
            assert_eq!((answered, error["code"].as_str()), (status, Some(code)), "{body}");
            assert!(error["title"].as_str().is_some_and(|title| !title.is_empty() && !title.contains("secret")));
            assert!(error["detail"].is_string());
        }
    }

    #[tokio::test]
    async fn rembg_has_lists_for_parameters_and_sentences_for_the_rest() {
        let (status, body) = answered(FieldError::Missing { param: "file".into() }.into(), WireFormat::Rembg).await;
        assert_eq!((status, &body["detail"][0]["loc"]), (422, &json!(["body", "file"])));
        for (error, expected) in [
            (invalid_request("invalid_model", "m"), 400),
            (of(ErrorCode::InvalidImage, "file"), 400),
            (of(ErrorCode::NoSubjectDetected, "file"), 400),
            (of(ErrorCode::Unauthorized, ""), 401),
            (of(ErrorCode::PaymentRequired, ""), 402),
        ] {
            let (status, body) = answered(error, WireFormat::Rembg).await;
            assert_eq!((status, body["detail"].is_string()), (expected, true), "{body}");
        }
    }

    #[tokio::test]
    async fn photoroom_repeats_the_status_in_the_body() {
        let (status, body) = answered(invalid_request("missing_image", "m"), WireFormat::Photoroom).await;
        assert_eq!((status, body), (400, json!({ "detail": "m", "status_code": 400, "type": "missing_image" })));
        assert_eq!(answered(of(ErrorCode::Unauthorized, ""), WireFormat::Photoroom).await.1["status_code"], 403);
    }
}
