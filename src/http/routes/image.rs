//! A form with a picture in, a picture out: every endpoint of that kind, told apart by its recipe.

use crate::codec::DecodeError;
use crate::engine::Lane;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::form;
use crate::http::multipart;
use crate::http::response::{self, Reply};
use crate::http::router::ImageEndpoint;
use crate::pipeline::Call;
use hyper::Uri;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use std::time::Instant;

/// Reads the form to its end, judges every field, and only then starts the work.
pub(in crate::http) async fn answer(
    facade: &Facade,
    endpoint: &ImageEndpoint,
    exchange: &mut Exchange,
) -> Result<Reply, ApiError> {
    refuse_query(&exchange.uri)?;
    let boundary = boundary(&exchange.headers)?;
    if exchange.body.announced().is_some_and(|length| length > form::max_body() as u64) {
        return Err(form::file_too_large());
    }
    let form = form::read(&mut exchange.body, &boundary, |name| endpoint.knows(name), &facade.uploads).await?;
    let received = exchange.body.ended().map_or_else(Instant::now, tokio::time::Instant::into_std);

    let recipe = (endpoint.plan)(&form.fields)?;
    let Some(file) = form.file else {
        return Err(ApiError::new(ErrorCode::InvalidParameter, "`file` is missing").param(form::FILE));
    };
    if file.is_empty() {
        return Err(DecodeError::Empty.into());
    }
    let call = Call { lane: Lane::Interactive, deadline: received + facade.config.request_deadline };
    let work = facade.app.remover.run(file, &recipe, &call);
    let output = work.await?;
    // The file itself went into the work and is gone.
    drop(form.share);
    response::image(output, received.elapsed())
}

/// A parameter in the query string would have no effect, which the caller would find out from the picture only.
fn refuse_query(uri: &Uri) -> Result<(), ApiError> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let name = query.split(['=', '&']).next().unwrap_or(query);
    let shown: String = name.chars().take(80).collect();
    let message = format!("`{shown}` was sent in the query string; this endpoint takes its parameters as form fields");
    Err(ApiError::new(ErrorCode::InvalidParameter, message).param(shown))
}

fn boundary(headers: &HeaderMap) -> Result<String, ApiError> {
    let unsupported = |message| Err(ApiError::new(ErrorCode::UnsupportedMediaType, message));
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return unsupported("a compressed request body is not taken; send it as it is");
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match multipart::boundary(content_type)? {
        Some(boundary) => Ok(boundary),
        None => unsupported("the request body must be multipart/form-data"),
    }
}
