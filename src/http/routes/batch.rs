//! Up to ten pictures in, a row for each out.
//!
//! Rows are worked on a few at a time, through the same batches as everything else, and written in order as they come
//! (`reply`): a finished picture waits in its file's form for the rows before it. It has its room among the replies by
//! then; rows take theirs in order, so that those that wait for room never wait for one behind them. The reply begins
//! when it is known not to be the one that says that nothing could be fetched.

mod accept;
mod archive;
mod file_names;
mod reply;

use crate::codec::Limits;
use crate::engine::Lane;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::fetching::{self, BesideFiles};
use crate::http::form::Upload;
use crate::http::idempotency::{Contents, Made};
use crate::http::reply_budget::ReplyBudget;
use crate::http::response::{self, Reply};
use crate::http::submission::{self, Pictures, Submission};
use crate::http::upload_memory::AccountMemory;
use crate::http::{App, Caller, Finished};
use crate::image::SourceUrl;
use crate::pipeline::{Call, Files, Output};
use crate::recipe::{Endpoint, FieldError, Recipe, Value};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use reply::{Head, Reason, Writer};
use serde::Serialize;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Rows of one batch in work, or done and waiting for their turn.
const ROWS_AT_ONCE: usize = 4;
/// Pieces that wait for the caller to read them.
const PIECES_AHEAD: usize = 4;
/// How an archive is saved.
const AS_ARCHIVE: HeaderValue = HeaderValue::from_static("attachment; filename=\"backdrop.zip\"");

/// One picture of a batch.
struct Item {
    index: usize,
    label: Label,
    picture: Given,
}

/// What a row is known by.
#[derive(Clone, Serialize)]
#[serde(rename_all = "lowercase")]
enum Label {
    Filename(Option<String>),
    Url(String),
}

enum Given {
    /// An error where the form's reader refused it.
    File(Result<Bytes, ApiError>),
    Url(Result<SourceUrl, FieldError>),
}

/// A picture of a batch, done or failed.
struct Row {
    index: usize,
    label: Label,
    outcome: Result<(Output, Made), ApiError>,
}

/// What every row of a batch is worked on with.
#[derive(Clone)]
struct Shop {
    app: App,
    memory: AccountMemory,
    replies: ReplyBudget,
    account: String,
    recipe: Arc<Recipe>,
    mark: Option<Bytes>,
    contents: Contents,
    limits: Limits,
    deadline: Duration,
}

/// Reads the request to its end, judges every field, and answers as the rows come.
pub(in crate::http) async fn answer(
    facade: &Facade,
    endpoint: &'static Endpoint,
    caller: &Caller,
    exchange: &mut Exchange,
) -> Result<Reply, ApiError> {
    let submission = submission::read(facade, endpoint, caller, exchange).await?;
    let received = exchange.body.received();
    let cover = facade.cover(endpoint, caller, &exchange.headers, &submission).await?;
    let recipe = cover.recipe.clone();
    let Submission { pictures, share, .. } = submission;
    let memory = facade.uploads.of(&caller.account);
    let BesideFiles { mark, share: beside_share, .. } = fetching::beside(&facade.app, &memory, &recipe, None).await?;
    let items = items(pictures)?;
    let count = items.len();
    let format = recipe.encode.format.name();
    let shop = Shop {
        app: facade.app.clone(),
        memory,
        replies: facade.replies.clone(),
        account: caller.account.clone(),
        recipe: Arc::new(recipe),
        mark,
        contents: cover.contents.clone(),
        limits: facade.limits,
        deadline: facade.config.request_deadline,
    };
    let model = shop.app.remover.model_of(&shop.recipe);
    let mut rows = Box::pin(rows(shop, items));

    let mut held = Vec::new();
    let mut fetched = false;
    while !fetched && let Some(row) = rows.next().await {
        fetched = !row.outcome.as_ref().is_err_and(|error| error.code == ErrorCode::FetchFailed);
        held.push(row);
    }
    let (status, error) =
        if fetched { (StatusCode::OK, None) } else { (ErrorCode::FetchFailed.status(), Some(Reason::of_all(&held))) };
    let costs = (0..count).map(|index| cover.cost_of(index)).collect();
    let (pieces, read) = mpsc::channel(PIECES_AHEAD);
    let archived = fetched && accept::prefers_zip(&exchange.headers);
    let writer = if archived { Writer::zip(pieces, costs) } else { Writer::json(pieces, costs) };
    let head = Head { count, format, error };
    let request_id = exchange.id.clone();
    let busy = exchange.busy.clone();
    tokio::spawn(async move {
        // An error means that the caller left, or was cut off because it took nothing: the rest is of no use.
        let succeeded = Mutex::new(Vec::new());
        let rows = stream::iter(held).chain(rows).inspect(|row| {
            let made = row.outcome.as_ref().ok().map(|(_, made)| *made);
            succeeded.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
        });
        let _ = writer.write(head, rows, &request_id).await;
        // What was made is billed, also where the caller did not wait to read it.
        if let Err(error) = cover.settle(&succeeded.into_inner().unwrap_or_else(PoisonError::into_inner)).await {
            error.log();
        }
        drop((busy, share, beside_share));
    });
    let media_type = if archived { "application/zip" } else { "application/json" };
    let mut reply = response::streamed(status, media_type, read, model, received.elapsed())?;
    if archived {
        reply.headers_mut().insert(CONTENT_DISPOSITION, AS_ARCHIVE);
    }
    Ok(reply)
}

fn items(pictures: Pictures) -> Result<Vec<Item>, ApiError> {
    let refuse = |text: &str| FieldError::invalid("urls", text, <SourceUrl as Value>::KIND.expected());
    let given: Vec<_> = match pictures {
        Pictures::Files(files) => files
            .into_iter()
            .map(|Upload { filename, bytes, refused, .. }| {
                (Label::Filename(filename), Given::File(refused.map_or(Ok(bytes), Err)))
            })
            .collect(),
        Pictures::Urls(urls) => urls
            .into_iter()
            .map(|url| {
                let parsed = SourceUrl::parse(&url).map_err(|_| refuse(&url));
                (Label::Url(url), Given::Url(parsed))
            })
            .collect(),
        Pictures::File(_) | Pictures::Url(_) => {
            return Err(ApiError::internal("one picture at an endpoint of batches"));
        }
    };
    let items = given.into_iter().enumerate();
    Ok(items.map(|(index, (label, picture))| Item { index, label, picture }).collect())
}

/// The rows, in order.
fn rows(shop: Shop, items: Vec<Item>) -> impl Stream<Item = Row> + Send {
    let (mut last, mut last_fetched) = (None, None);
    stream::iter(items)
        .map(move |Item { index, label, picture }| {
            let shop = shop.clone();
            let (over, ends) = oneshot::channel();
            let (fetched, is_fetched) = oneshot::channel();
            let turn = Turn {
                before: last.replace(ends),
                _over: over,
                fetched_before: last_fetched.replace(is_fetched),
                fetched: Some(fetched),
            };
            // A task of its own, so that it goes on while the rows before it are being written.
            let work = AbortOnDrop(tokio::spawn(async move { shop.work(index, picture, turn).await }));
            async move { Row { index, label, outcome: work.outcome().await } }
        })
        .buffered(ROWS_AT_ONCE)
}

/// Work that ends when nobody waits for it any more.
struct AbortOnDrop(JoinHandle<Result<(Output, Made), ApiError>>);

impl AbortOnDrop {
    async fn outcome(mut self) -> Result<(Output, Made), ApiError> {
        (&mut self.0).await.unwrap_or_else(|error| Err(ApiError::internal(format!("a row: {error}"))))
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The order in which rows enter the engine and take their room. A row that waits for an earlier one holds its slot, so it
/// enters only when the earlier ones are fetched.
struct Turn {
    /// Ends with the turn of the row before this one.
    before: Option<oneshot::Receiver<Infallible>>,
    _over: oneshot::Sender<Infallible>,
    /// Ends when the row before this one is fetched, and those before it.
    fetched_before: Option<oneshot::Receiver<Infallible>>,
    fetched: Option<oneshot::Sender<Infallible>>,
}

impl Turn {
    async fn enter(&mut self) {
        if let Some(before) = self.fetched_before.take() {
            let Err(_fetched) = before.await;
        }
        self.fetched = None;
    }

    async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            let Err(_over) = before.await;
        }
    }
}

impl Shop {
    async fn work(&self, index: usize, picture: Given, mut turn: Turn) -> Result<(Output, Made), ApiError> {
        let began = Instant::now();
        let finished = self.make(index, picture, began, &mut turn).await;
        turn.fetched = None;
        turn.come().await;
        let (Finished { mut output, slot }, made) = finished?;
        let deadline = began + self.deadline;
        output.image.bytes = self.replies.hold(&self.account, output.image.bytes, deadline).await?;
        drop(slot);
        Ok((output, made))
    }

    async fn make(
        &self,
        index: usize,
        picture: Given,
        began: Instant,
        turn: &mut Turn,
    ) -> Result<(Finished, Made), ApiError> {
        let by_url = matches!(picture, Given::Url(_));
        let (source, share, fetch) = match picture {
            Given::File(file) => (file?, self.memory.share(), Duration::ZERO),
            Given::Url(url) => {
                let (bytes, share) = fetching::fetch(&self.app, &self.memory, &url?, "urls").await?;
                (bytes, share, began.elapsed())
            }
        };
        let fetched = [by_url.then(|| source.clone()), None, self.mark.clone()];
        let made = self.contents.compare(index, fetched).await?;
        turn.enter().await;
        let call = Call { lane: Lane::Interactive, deadline: began + self.deadline, limits: self.limits };
        let files = Files { source, background: None, mark: self.mark.clone(), fetch };
        let finished = self.app.remover.run(files, &self.recipe, &call).await?;
        drop(share);
        Ok((finished, made))
    }
}
