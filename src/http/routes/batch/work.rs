//! Processes the rows of a batch, a few at a time, and yields them in order.
//!
//! Rows take their places and their reply memory in order, so that a row that waits for either never waits for a later one.

use super::row::{Item, Row, RowInput};
use crate::codec::Limits;
use crate::engine::Place;
use crate::http::admission::AccountMemory;
use crate::http::app::App;
use crate::http::reply::{ApiError, Result};
use crate::http::request::fetching;
use crate::http::request::fingerprint::{EarlierPictures, PictureDigest};
use crate::pipeline::{Call, Files, Output};
use crate::recipe::Recipe;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Rows of a batch that are processed, or that wait for earlier rows to be written.
const ROWS_AT_ONCE: usize = 4;

/// What all rows of a batch are processed with.
#[derive(Clone)]
pub(super) struct BatchContext {
    pub(super) app: App,
    pub(super) memory: AccountMemory,
    pub(super) account: String,
    pub(super) recipe: Arc<Recipe>,
    pub(super) mark: Option<Bytes>,
    pub(super) earlier: EarlierPictures,
    pub(super) limits: Limits,
    pub(super) deadline: Duration,
}

/// The rows, in order.
pub(super) fn rows(batch: BatchContext, items: Vec<Item>) -> impl Stream<Item = Row<PictureDigest>> + Send {
    let (mut last_done, mut last_entered) = (None, None);
    stream::iter(items.into_iter().enumerate())
        .map(move |(index, Item { label, input })| {
            let batch = batch.clone();
            let (done, is_done) = oneshot::channel();
            let (entered, has_entered) = oneshot::channel();
            let turn = Turn {
                previous_done: last_done.replace(is_done),
                _done: done,
                previous_entered: last_entered.replace(has_entered),
                entered: Some(entered),
            };
            // One task per row, so that it proceeds while earlier rows are being written. A set aborts its task when it is dropped.
            let mut work = JoinSet::new();
            work.spawn(async move { batch.work(index, input, turn).await });
            async move {
                let outcome = work.join_next().await.expect("the task of the row");
                let outcome = outcome.unwrap_or_else(|error| Err(ApiError::internal(format!("a row: {error}"))));
                Row { index, label, outcome }
            }
        })
        .buffered(ROWS_AT_ONCE)
}

/// The order in which rows enter the engine and take reply memory. A row that waits for an earlier one holds its slot of the
/// engine, so it enters only when all earlier rows have entered. Events are signalled by dropping the sender.
struct Turn {
    /// The previous row has its reply memory, or failed.
    previous_done: Option<oneshot::Receiver<Infallible>>,
    _done: oneshot::Sender<Infallible>,
    /// The previous row and all rows before it have a place in the engine, or failed.
    previous_entered: Option<oneshot::Receiver<Infallible>>,
    entered: Option<oneshot::Sender<Infallible>>,
}

impl Turn {
    /// Waits until all earlier rows have entered the engine.
    async fn wait_to_enter(&mut self) {
        if let Some(previous) = self.previous_entered.take() {
            let Err(_entered) = previous.await;
        }
    }

    /// Lets the next row enter.
    fn end_entry(&mut self) {
        self.entered = None;
    }

    /// Waits until all earlier rows have their reply memory.
    async fn wait_for_previous(&mut self) {
        if let Some(previous) = self.previous_done.take() {
            let Err(_done) = previous.await;
        }
    }
}

impl BatchContext {
    /// Processes one row; its result holds its reply memory.
    async fn work(&self, index: usize, input: RowInput, mut turn: Turn) -> Result<(Output, PictureDigest)> {
        let began = Instant::now();
        let finished = self.process(index, input, began, &mut turn).await;
        // A row that failed before its entry lets later rows enter only after the rows before it.
        turn.wait_to_enter().await;
        turn.end_entry();
        turn.wait_for_previous().await;
        let (mut output, place, digest) = finished?;
        let deadline = began + self.deadline;
        output.image.bytes = self.memory.hold(output.image.bytes, deadline).await?;
        drop(place);
        Ok((output, digest))
    }

    async fn process(
        &self,
        index: usize,
        input: RowInput,
        began: Instant,
        turn: &mut Turn,
    ) -> Result<(Output, Place, PictureDigest)> {
        let by_url = matches!(input, RowInput::Url(_));
        let (source, fetch) = match input {
            RowInput::File(file) => (file?, Duration::ZERO),
            RowInput::Url(url) => {
                let file = fetching::fetch(&*self.app.fetcher, &self.memory, &url?, "urls").await?;
                (file, began.elapsed())
            }
        };
        let fetched = [by_url.then(|| source.clone()), None, self.mark.clone(), None];
        let digest = self.earlier.compare(index, fetched).await?;
        let place = self.enter(turn).await?;
        let call = Call::of_request(&self.account, began + self.deadline, self.limits);
        let files = Files { source, background: None, mark: self.mark.clone(), mask: None, fetch };
        let output = self.app.processor.run(files, &self.recipe, &call).await?;
        Ok((output, place, digest))
    }

    /// A place in the engine, after all earlier rows. Where none is free, they may hold it: the batch was admitted whole, so this
    /// row waits for them before it is refused.
    async fn enter(&self, turn: &mut Turn) -> Result<Place> {
        turn.wait_to_enter().await;
        let admission = self.app.processor.admission();
        let place = match admission.try_place(&self.account) {
            Some(place) => place,
            None => {
                turn.wait_for_previous().await;
                admission.place(&self.account)?
            }
        };
        turn.end_entry();
        Ok(place)
    }
}
