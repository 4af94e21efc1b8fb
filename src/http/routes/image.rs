//! A picture in, a picture out: every endpoint of that kind, told apart by its recipe.

use crate::codec::Limits;
use crate::engine::Lane;
use crate::generate::GeneratedImage;
use crate::http::cover::Cover;
use crate::http::error::ApiError;
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::fetching::BesideFiles;
use crate::http::form::FILE;
use crate::http::response::{self, Reply};
use crate::http::submission::{self, Pictures, Submission, URL};
use crate::http::upload_memory::Share;
use crate::http::{Caller, Finished, backdrop, fetching, idempotency};
use crate::pipeline::{Call, Files, Output};
use crate::recipe::{BG_FILE, Endpoint, ModelId, Source};
use bytes::Bytes;
use hyper::header::HeaderMap;
use std::time::{Duration, Instant};

/// Reads the request to its end, judges every field, fetches what has to be, and only then starts the work.
pub(in crate::http) async fn answer(
    facade: &Facade,
    endpoint: &'static Endpoint,
    caller: &Caller,
    exchange: &mut Exchange,
) -> Result<Reply, ApiError> {
    let submission = submission::read(facade, endpoint, caller, exchange).await?;
    let received = exchange.body.received();
    let gathered = gathered(facade, endpoint, caller, &exchange.headers, submission).await?;
    let Done { output, cost, model } = finished(facade, caller, gathered, received, facade.limits).await?;
    let understood = output.understood.clone();
    let mut reply = response::image(output, cost, received.elapsed())?;
    if endpoint.generates() {
        backdrop::tell(&mut reply, model, understood.as_deref())?;
    }
    Ok(reply)
}

/// A covered request with all of its pictures, before any work on them.
pub(in crate::http) struct Gathered {
    pub(in crate::http) cover: Cover,
    pub(in crate::http) source: Bytes,
    /// The name under which the picture was sent.
    param: &'static str,
    share: Share,
    beside: BesideFiles,
    answered: idempotency::Made,
    fetching: Instant,
    was_fetched: bool,
}

/// A finished picture that is billed.
pub(in crate::http) struct Done {
    pub(in crate::http) output: Output,
    /// In microdollars.
    pub(in crate::http) cost: u64,
    /// The model that made its backdrop.
    model: Option<ModelId>,
}

/// Covers a request whose fields are in order, and fetches what has to be.
pub(in crate::http) async fn gathered(
    facade: &Facade,
    endpoint: &'static Endpoint,
    caller: &Caller,
    headers: &HeaderMap,
    submission: Submission,
) -> Result<Gathered, ApiError> {
    let cover = facade.cover(endpoint, caller, headers, &submission).await?;
    let recipe = &cover.recipe;
    let Submission { pictures, param, background, share, .. } = submission;
    let by_url = pictures.is_url();

    let fetching = Instant::now();
    let app = &facade.app;
    let memory = facade.uploads.of(&caller.account);
    let source = async {
        match pictures {
            Pictures::File(file) => Ok((file, share)),
            Pictures::Url(url) => fetching::fetch(app, &memory, &url, URL).await,
            Pictures::Files(_) | Pictures::Urls(_) => Err(ApiError::internal("a batch at an endpoint of one picture")),
        }
    };
    let beside = fetching::beside(app, &memory, recipe, background);
    let ((source, share), mut beside) = tokio::try_join!(source, beside)?;
    let [fetched_background, fetched_mark] = std::mem::take(&mut beside.fetched);
    let was_fetched = by_url || fetched_background.is_some() || fetched_mark.is_some();
    let fetched = [by_url.then(|| source.clone()), fetched_background, fetched_mark];
    let answered = cover.contents.compare(0, fetched).await?;
    Ok(Gathered { cover, source, param, share, beside, answered, fetching, was_fetched })
}

/// Does the work on a picture within `limits`, takes room for the reply and bills it.
pub(in crate::http) async fn finished(
    facade: &Facade,
    caller: &Caller,
    gathered: Gathered,
    received: Instant,
    limits: Limits,
) -> Result<Done, ApiError> {
    let Gathered { cover, source, param, share, beside, answered, fetching, was_fetched } = gathered;
    let (app, recipe) = (&facade.app, &cover.recipe);
    let made = facade.made_backdrop(recipe, caller, &source, received).await?;
    let fetch = if was_fetched || made.is_some() { fetching.elapsed() } else { Duration::ZERO };

    let deadline = received + facade.config.request_deadline;
    let call = Call { lane: Lane::Interactive, deadline, limits };
    let (made, made_share) = made.unzip();
    let (model, picture) = made.map(|GeneratedImage { model, bytes }| (model, bytes)).unzip();
    let files = Files { source, background: beside.background.or(picture), mark: beside.mark, fetch };
    let Finished { mut output, slot } = app.remover.run(files, recipe, &call).await.map_err(|error| {
        let error = ApiError::from(error).renamed(FILE, param);
        let is_url = matches!(recipe.inputs.background, Some(Source::Url(_)));
        if is_url { error.renamed(BG_FILE, "bg_url") } else { error }
    })?;
    // The files themselves went into the work and are gone.
    drop((share, beside.share, made_share));
    output.image.bytes = facade.replies.hold(&caller.account, output.image.bytes, call.deadline).await?;
    drop(slot);
    let cost = cover.settle(&[answered]).await?;
    Ok(Done { output, cost, model })
}
