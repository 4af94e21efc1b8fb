//! A picture in, a picture out: every endpoint of that kind, told apart by its recipe.

use crate::engine::Lane;
use crate::generate::Made;
use crate::http::error::ApiError;
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::form::FILE;
use crate::http::response::{self, Reply};
use crate::http::submission::{self, Pictures, Submission, URL};
use crate::http::{Caller, backdrop, fetching};
use crate::pipeline::{Call, Files};
use crate::recipe::{BG_FILE, Endpoint, Source};
use std::time::{Duration, Instant};

/// Reads the request to its end, judges every field, fetches what has to be, and only then starts the work.
pub(in crate::http) async fn answer(
    facade: &Facade,
    endpoint: &'static Endpoint,
    caller: &Caller,
    exchange: &mut Exchange,
) -> Result<Reply, ApiError> {
    let submission = submission::read(facade, endpoint, exchange).await?;
    let received = exchange.body.received();
    let cover = facade.cover(endpoint, caller, &exchange.headers, &submission).await?;
    let recipe = &cover.recipe;
    let Submission { pictures, background, share, .. } = submission;

    let fetching = Instant::now();
    let app = &facade.app;
    let source = async {
        match pictures {
            Pictures::File(file) => Ok((file, share)),
            Pictures::Url(url) => fetching::fetch(app, &facade.uploads, &url, URL).await,
            Pictures::Files(_) | Pictures::Urls(_) => Err(ApiError::internal("a batch at an endpoint of one picture")),
        }
    };
    let beside = fetching::beside(app, &facade.uploads, recipe, background);
    let ((source, share), beside) = tokio::try_join!(source, beside)?;
    let made = facade.made_backdrop(recipe, caller, &source, received).await?;
    let fetch =
        if beside.fetched || endpoint.input.is_url() || made.is_some() { fetching.elapsed() } else { Duration::ZERO };

    let call = Call { lane: Lane::Interactive, deadline: received + facade.config.request_deadline };
    let (made, made_share) = made.unzip();
    let (model, picture) = made.map(|Made { model, picture }| (model, picture)).unzip();
    let files = Files { source, background: beside.background.or(picture), mark: beside.mark, fetch };
    let output = app.remover.run(files, recipe, &call).await.map_err(|error| {
        let error = ApiError::from(error);
        let error = if endpoint.input.is_url() { error.renamed(FILE, URL) } else { error };
        let is_url = matches!(recipe.wants.background, Some(Source::Url(_)));
        if is_url { error.renamed(BG_FILE, "bg_url") } else { error }
    })?;
    // The files themselves went into the work and are gone.
    drop((share, beside.share, made_share));
    let cost = cover.settle(1).await?;
    let understood = output.understood.clone();
    let mut reply = response::image(output, cost, received.elapsed())?;
    if endpoint.generates() {
        backdrop::tell(&mut reply, model, understood.as_deref())?;
    }
    Ok(reply)
}
