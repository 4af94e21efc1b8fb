//! `GET /results/{object}`: the result of a job, whole or a range, by its signed URL.

use crate::http::reply::range::{self, RequestedRange};
use crate::http::reply::{self, ApiError, ErrorCode, Reply, Result};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::jobs::results;
use crate::store::UnixSeconds;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue,
};
use hyper::{Method, StatusCode};

/// Answers the file or a range of it.
pub(crate) async fn answer(state: &ApiState, context: &RequestContext, object: &str) -> Result<Reply> {
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
    let (media_type, disposition) = (result.media_type, HeaderValue::try_from(results::disposition(object))?);
    // HEAD sends no body, so the file is not read.
    let mut reply = if context.method == Method::HEAD {
        reply::empty(status)
    } else {
        reply::file(status, result.read(first, count))
    };
    let headers = reply.headers_mut();
    headers.insert(CONTENT_LENGTH, count.into());
    headers.insert(ETAG, HeaderValue::try_from(tag)?);
    headers.insert(CONTENT_DISPOSITION, disposition);
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {first}-{}/{bytes}", first + count - 1);
        headers.insert(CONTENT_RANGE, HeaderValue::try_from(range)?);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(reply)
}

/// 416, with the code of a malformed parameter: the closed set of codes has none for it.
fn not_satisfiable(context: &RequestContext, bytes: u64) -> Result<Reply> {
    let error = ApiError::new(ErrorCode::InvalidParameter, format!("the result has {bytes} bytes")).param("Range");
    error.log();
    let mut reply = error.into_reply(&context.id);
    *reply.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
    reply.headers_mut().insert(CONTENT_RANGE, HeaderValue::try_from(format!("bytes */{bytes}"))?);
    Ok(reply)
}
