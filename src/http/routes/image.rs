//! Every endpoint with one picture in and one picture out; they differ by recipe.

use super::backdrop;
use crate::codec::Limits;
use crate::generate::GeneratedImage;
use crate::http::admission::{Authorized, Caller, authorize};
use crate::http::reply::{ApiError, Reply, Result, picture_reply};
use crate::http::request::fetching::{self, AuxFiles};
use crate::http::request::fingerprint::PictureDigest;
use crate::http::request::image_request::{self, ImageRequest, Inputs, Pictures};
use crate::http::request::input_names::{FILE, URL};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::pipeline::{Call, Files, Output};
use crate::recipe::{BG_FILE, Endpoint, MASK_FILE, MaskSource, ModelId, Source};
use bytes::Bytes;
use hyper::header::HeaderMap;
use std::time::{Duration, Instant};

/// Reads and validates the request, authorizes it, fetches its files, processes and bills the picture.
pub(crate) async fn answer(
    state: &ApiState,
    endpoint: &'static Endpoint,
    caller: &Caller,
    context: &mut RequestContext,
) -> Result<Reply> {
    let request = image_request::read(state, endpoint, caller, context).await?;
    let received = context.body.received();
    let prepared = prepare(state, endpoint, caller, &context.headers, request).await?;
    let FinishedImage { output, model, bill } = process(state, caller, prepared, received, state.limits).await?;
    let cost = bill.pay().await?;
    let words = output.understood.clone();
    let mut reply = picture_reply::image(output, cost, received.elapsed())?;
    if endpoint.generates() {
        backdrop::write_headers(&mut reply, model, words.as_deref())?;
    }
    Ok(reply)
}

/// An authorized request with all of its files.
pub(crate) struct PreparedImage {
    pub(crate) authorized: Authorized,
    pub(crate) source: Bytes,
    /// The field in which the picture was sent.
    param: &'static str,
    aux: AuxFiles,
    digest: PictureDigest,
    fetching: Instant,
    was_fetched: bool,
}

/// A finished picture, which holds its reply memory.
pub(crate) struct FinishedImage {
    pub(crate) output: Output,
    /// The upstream model that generated its backdrop.
    model: Option<ModelId>,
    pub(crate) bill: Bill,
}

/// The bill of a finished picture. Dropped unpaid, nothing is billed.
pub(crate) struct Bill {
    authorized: Authorized,
    digest: PictureDigest,
}

impl Bill {
    /// Whether the picture was billed before under the same `Idempotency-Key`.
    pub(crate) fn is_paid(&self) -> bool {
        self.authorized.earlier.is_billed(self.digest.index())
    }

    /// The cost in microdollars, once the bill is durable.
    pub(crate) async fn pay(mut self) -> Result<u64> {
        self.authorized.bill(self.digest).await
    }
}

/// Authorizes a request whose fields are valid, and fetches its files.
pub(crate) async fn prepare(
    state: &ApiState,
    endpoint: &'static Endpoint,
    caller: &Caller,
    headers: &HeaderMap,
    request: ImageRequest,
) -> Result<PreparedImage> {
    let (authorized, inputs) = authorize(state, endpoint, caller, headers, request).await?;
    authorized.require_billable()?;
    let Inputs { pictures, param, background, mask } = inputs;
    let by_url = pictures.is_url();

    let fetching = Instant::now();
    let fetcher = &*state.app.fetcher;
    let memory = state.memory.of(&caller.account);
    let source = async {
        match pictures {
            Pictures::File(file) => Ok(file),
            Pictures::Url(url) => fetching::fetch(fetcher, &memory, &url, URL).await,
            Pictures::Files(_) | Pictures::Urls(_) => Err(ApiError::internal("a batch at an endpoint of one picture")),
        }
    };
    let aux = fetching::fetch_aux_files(fetcher, &memory, &authorized.recipe);
    let (source, mut aux) = tokio::try_join!(source, aux)?;
    let fetched = [by_url.then(|| source.clone()), aux.background.clone(), aux.mark.clone(), aux.mask.clone()];
    let was_fetched = fetched.iter().any(Option::is_some);
    let digest = authorized.earlier.compare(0, fetched).await?;
    let wanted = &authorized.recipe.inputs;
    if matches!(wanted.background, Some(Source::Attached)) {
        aux.background = background;
    }
    if matches!(wanted.mask, Some(MaskSource::Attached)) {
        aux.mask = mask;
    }
    Ok(PreparedImage { authorized, source, param, aux, digest, fetching, was_fetched })
}

/// Processes a picture within `limits`, and waits for reply memory.
pub(crate) async fn process(
    state: &ApiState,
    caller: &Caller,
    prepared: PreparedImage,
    received: Instant,
    limits: Limits,
) -> Result<FinishedImage> {
    let PreparedImage { mut authorized, source, param, aux, digest, fetching, was_fetched } = prepared;
    // Before a backdrop is paid for.
    let place = state.app.processor.admission().place(&caller.account)?;
    let generated = backdrop::generate(state, &mut authorized, caller, &source, received).await;
    let recipe = &authorized.recipe;
    let generated = generated.map_err(|error| error.renamed(FILE, param))?;
    let fetch = if was_fetched || generated.is_some() { fetching.elapsed() } else { Duration::ZERO };

    let deadline = received + state.config.request_deadline;
    let call = Call::of_request(&caller.account, deadline, limits);
    let (model, picture) = generated.map(|GeneratedImage { model, bytes }| (model, bytes)).unzip();
    let AuxFiles { background, mark, mask } = aux;
    let files = Files { source, background: background.or(picture), mark, mask, fetch };
    let mut output = state.app.processor.run(files, recipe, &call).await.map_err(|error| {
        let error = ApiError::from(error).renamed(FILE, param);
        let error = error.renamed(MASK_FILE, recipe.inputs.mask.as_ref().map_or(MASK_FILE, MaskSource::param));
        let is_url = matches!(recipe.inputs.background, Some(Source::Url(_)));
        if is_url { error.renamed(BG_FILE, "bg_url") } else { error }
    })?;
    output.image.bytes = state.memory.of(&caller.account).hold(output.image.bytes, call.deadline).await?;
    drop(place);
    Ok(FinishedImage { output, model, bill: Bill { authorized, digest } })
}
