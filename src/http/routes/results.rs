//! `GET /results/{object}`: the result of a job, whole or a range, by its signed URL.

use crate::http::reply::error::{ApiError, ErrorCode};
use crate::http::reply::range::{self, RequestedRange};
use crate::http::reply::{self, Reply};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::jobs::results;
use crate::store::UnixSeconds;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, StatusCode};

/// Answers the file or a range of it.
pub(crate) async fn answer(state: &ApiState, context: &RequestContext, object: &str) -> Result<Reply, ApiError> {
    let query = context.uri.query().unwrap_or_default();
    let opened = state.app.results.open_signed(object, query, UnixSeconds::now()).await?;
    let result = opened.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, "no such result, or its hour is over; ask /jobs for where it is")
    })?;
    // A signed URL counts as a valid key.
    context.busy.mark_authenticated();
    // Results never change, so the name identifies the content.
    let tag = format!("\"{object}\"");
    let bytes = result.bytes;
    let (status, first, count) = match range::requested(&context.headers, bytes, &tag) {
        RequestedRange::Whole => (StatusCode::OK, 0, bytes),
        RequestedRange::Part { first, last } => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        RequestedRange::Unsatisfiable => return not_satisfiable(context, bytes),
    };
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: String| -> Result<(), ApiError> {
        let value = HeaderValue::from_str(&value).map_err(|error| ApiError::internal(error.to_string()))?;
        headers.insert(name, value);
        Ok(())
    };
    set(ETAG, tag)?;
    set(CONTENT_DISPOSITION, results::disposition(object))?;
    if status == StatusCode::PARTIAL_CONTENT {
        set(CONTENT_RANGE, format!("bytes {first}-{}/{bytes}", first + count - 1))?;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(result.media_type));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // HEAD sends no body, so the file is not read.
    let mut reply = if context.method == Method::HEAD {
        reply::head_of_file(count)
    } else {
        reply::file(count, result.read(first, count))
    };
    *reply.status_mut() = status;
    reply.headers_mut().extend(headers);
    Ok(reply)
}

/// 416, with the code of a malformed parameter: the closed set of codes has none for it.
fn not_satisfiable(context: &RequestContext, bytes: u64) -> Result<Reply, ApiError> {
    let error = ApiError::new(ErrorCode::InvalidParameter, format!("the result has {bytes} bytes")).param("Range");
    error.log();
    let mut reply = error.into_reply(&context.id);
    *reply.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
    let range = HeaderValue::from_str(&format!("bytes */{bytes}"));
    reply.headers_mut().insert(CONTENT_RANGE, range.map_err(|error| ApiError::internal(error.to_string()))?);
    Ok(reply)
}
