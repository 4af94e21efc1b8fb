//! `GET /results/{object}`: the file that a job has made, for whoever has its signed address.

use crate::http::error::{ApiError, ErrorCode};
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::range::{self, Wanted};
use crate::http::response::{self, Reply};
use crate::jobs::results::{self, ResultsError};
use crate::store::UnixSeconds;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, StatusCode};

/// Answers the file or a part of it.
pub(in crate::http) async fn answer(facade: &Facade, exchange: &Exchange, object: &str) -> Result<Reply, ApiError> {
    let query = exchange.uri.query().unwrap_or_default();
    let opened = facade.app.results.open_signed(object, query, UnixSeconds::now()).await?;
    let result = opened.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, "no such result, or its hour is over; ask /jobs for where it is")
    })?;
    // A signed address stands for a key.
    exchange.busy.mark_authenticated();
    // A job is done once, and what it has made does not change.
    let tag = format!("\"{object}\"");
    let bytes = result.bytes;
    let (status, first, count) = match range::wanted(&exchange.headers, bytes, &tag) {
        Wanted::Whole => (StatusCode::OK, 0, bytes),
        Wanted::Part { first, last } => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Wanted::Nothing => return not_satisfiable(exchange, bytes),
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
    // What HEAD is answered with is not sent, so it is not read either.
    let mut reply = if exchange.method == Method::HEAD {
        response::headless(count)
    } else {
        response::file(count, result.read(first, count))
    };
    *reply.status_mut() = status;
    reply.headers_mut().extend(headers);
    Ok(reply)
}

/// 416. The codes of errors are a closed set without one for it; the status says it all.
fn not_satisfiable(exchange: &Exchange, bytes: u64) -> Result<Reply, ApiError> {
    let error = ApiError::new(ErrorCode::InvalidParameter, format!("the result has {bytes} bytes")).param("Range");
    error.log();
    let mut reply = error.into_reply(&exchange.id);
    *reply.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
    let range = HeaderValue::from_str(&format!("bytes */{bytes}"));
    reply.headers_mut().insert(CONTENT_RANGE, range.map_err(|error| ApiError::internal(error.to_string()))?);
    Ok(reply)
}

impl From<ResultsError> for ApiError {
    fn from(error: ResultsError) -> Self {
        match error {
            ResultsError::Store(_) => {
                Self::unavailable("the store of results cannot be asked right now").because(error.to_string())
            }
            ResultsError::Place(_) | ResultsError::Io { .. } | ResultsError::Name(_) => {
                Self::internal(error.to_string())
            }
        }
    }
}
