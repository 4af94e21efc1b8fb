//! Endpoints of batches: up to ten pictures in, a row for each out.
//!
//! A few rows are processed at a time, through the same engine batches as all other requests, and written in order as
//! they finish (`reply`). The reply begins once a picture is fetched, or with 424 when none could be fetched. Each picture is billed
//! before it is written; a row whose bill fails has no picture. A batch whose bills are known to fail is refused.

mod accept;
mod archive;
mod file_names;
mod reply;
mod row;
mod work;

use crate::http::admission::{Caller, authorize};
use crate::http::reply::{ErrorCode, Reply, Result, picture_reply};
use crate::http::request::fetching;
use crate::http::request::image_request;
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::recipe::Endpoint;
use futures_util::{StreamExt, stream};
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use reply::{Head, RowError, Writer};
use std::sync::Arc;
use tokio::sync::mpsc;
use work::BatchContext;

/// Pieces of the reply that wait for the caller to read them.
const PIECES_AHEAD: usize = 4;

/// Saves an archive under a name.
const AS_ARCHIVE: HeaderValue = HeaderValue::from_static("attachment; filename=\"backdrop.zip\"");

/// Reads, validates and authorizes the request, and answers rows as they finish.
pub(crate) async fn answer(
    state: &ApiState,
    endpoint: &'static Endpoint,
    caller: &Caller,
    context: &mut RequestContext,
) -> Result<Reply> {
    let request = image_request::read(state, endpoint, caller, context).await?;
    let received = context.body.received();
    let (authorized, inputs) = authorize(state, endpoint, caller, &context.headers, request).await?;
    authorized.require_billable()?;
    let recipe = authorized.recipe.clone();
    let memory = state.memory.of(&caller.account);
    let aux = fetching::fetch_aux_files(&*state.app.fetcher, &memory, &recipe).await?;
    let items = row::items(inputs.pictures)?;
    let count = items.len();
    let format = recipe.encode.format.name();
    let batch = BatchContext {
        app: state.app.clone(),
        memory,
        account: caller.account.clone(),
        recipe: Arc::new(recipe),
        mark: aux.mark,
        earlier: authorized.earlier.clone(),
        limits: state.limits,
        deadline: state.config.request_deadline,
    };
    let model = batch.app.processor.model_of(&batch.recipe);
    let mut rows = Box::pin(work::rows(batch, items));

    let mut held = Vec::new();
    let mut fetched = false;
    while !fetched && let Some(row) = rows.next().await {
        fetched = !row.outcome.as_ref().is_err_and(|error| error.code == ErrorCode::FetchFailed);
        held.push(row);
    }
    let (status, error) =
        if fetched { (StatusCode::OK, None) } else { (ErrorCode::FetchFailed.status(), Some(RowError::of_all(&held))) };
    let (pieces, read) = mpsc::channel(PIECES_AHEAD);
    let archived = fetched && accept::prefers_zip(&context.headers);
    let mut writer = Writer::new(pieces, archived);
    let head = Head { count, format, error };
    let request_id = context.id.clone();
    let busy = context.busy.clone();
    tokio::spawn(async move {
        let rows = stream::iter(held).chain(rows);
        let billed = stream::unfold((Box::pin(rows), authorized), async |(mut rows, mut authorized)| {
            let row = rows.next().await?;
            Some((row.bill(&mut authorized).await, (rows, authorized)))
        });
        // An error means that the client disconnected or was cut off for not reading: the other rows are dropped.
        if writer.rows(head, billed).await.is_ok() {
            let _ = writer.finish(&request_id).await;
        }
        drop(busy);
    });
    let media_type = if archived { "application/zip" } else { "application/json" };
    let mut reply = picture_reply::streamed(status, media_type, read, model, received.elapsed())?;
    if archived {
        reply.headers_mut().insert(CONTENT_DISPOSITION, AS_ARCHIVE);
    }
    Ok(reply)
}
