//! What a request for pictures may do and what it costs: model, key syntax, allow-list, plan (402), preset (404), idempotency (409), quota.
//!
//! ```text
//! x-service-model (400)          the selected model exists and can process the recipe; with a preset, after it
//! Idempotency-Key, syntax (400)
//! /replace-bg-ai: allow-list and model of the backdrop (403)
//! plan (402)                     of every field that is sent
//! preset (404)                   its fields are merged; allow-list, plan, fields and model are checked again
//! Idempotency-Key (409)          a new request, a repetition, or a conflict
//! quota (402)                    reserved here, billed picture by picture by `Authorized::bill`
//! /replace-bg-ai: cap of the day (429)
//! ```
//!
//! Before it: path and method (`router`), key, rate and scope (`authenticate`), all fields (`image_request`). After it:
//! fetching (`fetching`), the pictures' headers and the work (`routes`).

use super::caller::Caller;
use super::model_select::select_model;
use crate::account::IdempotencyKey;
use crate::account::plan::required_plan;
use crate::account::presets::LookupBy;
use crate::account::price::Call;
use crate::generate::{ProviderError, UpstreamError};
use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::http::request::fingerprint::{self, EarlierPictures, PictureDigest};
use crate::http::request::image_request::{ImageRequest, Inputs};
use crate::http::request::preset_fields;
use crate::http::state::ApiState;
use crate::recipe::{Endpoint, Fields, ModelChoice, Recipe, Value};
use crate::store::{
    BackdropReservation, Billed, BillingError, ChangeError, Claim, ClaimGuard, Plan, Reservation, UnixSeconds,
};
use hyper::header::HeaderMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// `reason` of a 402: the month's quota of the plan or the key is used up.
pub(crate) const QUOTA_EXHAUSTED: &str = "quota_exhausted";

/// `reason` of a 402: the plan does not include the field.
pub(crate) const PLAN_REQUIRED: &str = "plan_required";

/// A request that may be processed, with what is reserved for it. Dropped, it returns everything that is reserved.
#[derive(Debug)]
pub(crate) struct Authorized {
    pub(crate) recipe: Recipe,
    /// Price of a picture in microdollars; 0 if nothing is billed.
    unit_price: u64,
    /// Whether the pictures count against the quota. Pictures of a sandbox key do not, nor generated backdrops, which have a separate
    /// cap.
    counts: bool,
    /// The number of pictures of the request.
    images: usize,
    /// The pictures that were billed before under the same `Idempotency-Key`.
    pub(crate) earlier: EarlierPictures,
    reservation: Option<Reservation>,
    claim_guard: Option<ClaimGuard>,
    /// The reservation in the day's cap of generated backdrops.
    pub(crate) backdrop: Option<BackdropReservation>,
}

/// Checks a request whose fields are valid, and reserves what it costs.
pub(crate) async fn authorize(
    state: &ApiState,
    endpoint: &'static Endpoint,
    caller: &Caller,
    headers: &HeaderMap,
    request: ImageRequest,
) -> Result<(Authorized, Inputs)> {
    let ImageRequest { mut fields, mut recipe, inputs } = request;
    let preset = fields.get("preset").map(str::to_owned);
    if preset.is_none() {
        select_model(&state.app, headers, caller, &mut recipe)?;
    }
    let key = fingerprint::key(headers)?.map(|key| if caller.test { key.of_sandbox() } else { key });
    require_backdrop_access(state, endpoint, caller, &fields)?;
    require_plan(endpoint.path, caller, &fields)?;
    if let Some(preset) = preset {
        fields = merge_preset(state, endpoint, caller, fields, &preset).await?;
        require_backdrop_access(state, endpoint, caller, &fields)?;
        require_plan(endpoint.path, caller, &fields)?;
        recipe = endpoint.recipe(&fields)?;
        select_model(&state.app, headers, caller, &mut recipe)?;
    }
    if caller.test {
        recipe.scene.stamp = Some("TEST");
    }
    let images = inputs.pictures.count();
    let call = Call::of(endpoint.path, &fields, images);
    let price = state.app.prices.price(&call)?.unit_price;
    let counts = !caller.test && !endpoint.generates();
    let mut authorized = Authorized {
        recipe,
        unit_price: if caller.test || (counts && is_free(caller)) { 0 } else { price },
        counts,
        images: images as usize,
        earlier: EarlierPictures::default(),
        reservation: None,
        claim_guard: None,
        backdrop: None,
    };
    let mut is_repeated = false;
    if let Some(key) = key {
        let fingerprint = fingerprint::fingerprint(endpoint, &fields, &inputs, headers).await?;
        is_repeated = authorized.claim(state, caller, &key, fingerprint).await?;
    }
    if is_repeated {
        authorized.unit_price = 0;
    } else if authorized.counts || authorized.unit_price > 0 || authorized.claim_guard.is_some() {
        let billed = (0..authorized.images).filter(|index| authorized.earlier.is_billed(*index)).count();
        let counted = if authorized.counts { (authorized.images - billed) as u64 } else { 0 };
        authorized.reservation = Some(reserve_quota(state, caller, counted)?);
    }
    if endpoint.generates() {
        // A repeated request generates again, so it counts against the cap too.
        authorized.backdrop = Some(take_backdrop(state).await?);
    }
    // Before the work: pictures that are not delivered are not billed, and count against the rate all the same.
    let more = (call.pictures_of_work() - 1).saturating_mul(images);
    state.app.store.count_work(&caller.key_id, more).await?;
    Ok((authorized, inputs))
}

impl Authorized {
    /// Claims the request's `Idempotency-Key`; true where all of its pictures were billed before under the key. While the
    /// same request is in flight, this waits for its end, at most for the deadline of a request.
    async fn claim(
        &mut self,
        state: &ApiState,
        caller: &Caller,
        key: &IdempotencyKey,
        fingerprint: [u8; 32],
    ) -> Result<bool> {
        let (now, lasts) = (UnixSeconds::now(), state.config.request_deadline);
        let claim = state.app.store.claim(&caller.account, key.as_str(), fingerprint, now, lasts);
        let claim = timeout(lasts, claim).await;
        match claim.map_err(|_| ApiError::unavailable("the same request is still being worked on"))?? {
            Claim::New(guard) => {
                self.earlier = EarlierPictures::of(guard.pictures().clone());
                self.claim_guard = Some(guard);
                Ok(false)
            }
            Claim::Replay(pictures) => {
                self.earlier = EarlierPictures::of(pictures);
                Ok(true)
            }
            Claim::Conflict => Err(fingerprint::conflict()),
        }
    }

    /// Refuses (503) a request whose bill is known to fail.
    pub(crate) fn require_billable(&self) -> Result<()> {
        self.reservation.as_ref().map_or(Ok(()), Reservation::require_billable).map_err(ApiError::from)
    }

    /// Keeps the backdrop counted in the day's cap.
    pub(crate) fn count_backdrop(&mut self) {
        if let Some(backdrop) = self.backdrop.take() {
            backdrop.keep();
        }
    }

    /// Bills a finished picture, unless it was billed before. Returns its price in microdollars when the bill is durable. To be
    /// called before the picture is delivered.
    pub(crate) async fn bill(&mut self, made: PictureDigest) -> Result<u64> {
        self.count_backdrop();
        let is_new = !self.earlier.is_billed(made.index());
        let Some(reservation) = self.reservation.as_mut().filter(|_| is_new) else { return Ok(0) };
        let counted = u64::from(self.counts);
        let claim = self.claim_guard.as_mut().map(|claim_guard| {
            let pictures = EarlierPictures::of(claim_guard.pictures()).with(made, self.images);
            (claim_guard, pictures)
        });
        match reservation.split(counted).bill(counted, self.unit_price, claim).await? {
            Billed::Now => Ok(self.unit_price),
            Billed::Before => Ok(0),
        }
    }
}

/// Refuses generated backdrops to accounts that are not on the allow-list, and models that the account may not use (403).
pub(crate) fn require_backdrop_access(
    state: &ApiState,
    endpoint: &Endpoint,
    caller: &Caller,
    fields: &Fields,
) -> Result<()> {
    if !endpoint.generates() {
        return Ok(());
    }
    if !caller.generates {
        let message = "this account may not generate backdrops; the operator allows it: `backdrop accounts set NAME --generates on`";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    match fields.get("model").and_then(ModelChoice::parse) {
        Some(ModelChoice(Some(model))) if !state.app.providers.is_configured(model) => {
            let message = format!("no image API is configured for `{model}`; `auto` draws the backdrop itself");
            Err(ApiError::new(ErrorCode::Forbidden, message).param("model"))
        }
        Some(ModelChoice(Some(model))) if !state.app.providers.offers(model, caller.scope()) => {
            Err(ProviderError { model, error: Arc::new(UpstreamError::NotOffered) }.into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses fields that need a larger plan (402).
pub(crate) fn require_plan(path: &str, caller: &Caller, fields: &Fields) -> Result<()> {
    match required_plan(path, fields).filter(|(plan, _)| *plan > caller.plan) {
        Some((plan, field)) => {
            let message = format!("`{field}` needs the plan {plan}; this account has {}", caller.plan);
            Err(ApiError::new(ErrorCode::PaymentRequired, message).param(field).reason(PLAN_REQUIRED))
        }
        None => Ok(()),
    }
}

/// The sent fields, completed by the fields of the preset `named` (404).
pub(crate) async fn merge_preset(
    state: &ApiState,
    endpoint: &Endpoint,
    caller: &Caller,
    sent: Fields,
    named: &str,
) -> Result<Fields> {
    // The id of a preset may be the name of another: the specification has names on `/remove-url`, ids elsewhere.
    let first = if endpoint.input.is_url() { LookupBy::Name } else { LookupBy::Id };
    let found = state.app.presets.find(&caller.account, named, first).await?;
    let preset =
        found.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "this account has no such preset").param("preset"))?;
    Ok(sent.over(&preset_fields::for_endpoint(endpoint, &preset)))
}

/// Reserves `images` of the month's quota of the account and the key (402).
pub(crate) fn reserve_quota(state: &ApiState, caller: &Caller, images: u64) -> Result<Reservation> {
    let reserved = state.app.store.reserve(&caller.payer(), images, UnixSeconds::now());
    Ok(reserved.map_err(BillingError::from)?)
}

/// Takes a place in the day's cap of generated backdrops (429).
async fn take_backdrop(state: &ApiState) -> Result<BackdropReservation> {
    let now = UnixSeconds::now();
    let at_most = state.per_caller.backdrop_ai_per_day;
    state.app.store.take_backdrop(at_most, now).await.map_err(|error| {
        let ChangeError::GeneratedEnough { day } = error else { return error.into() };
        let wait = u64::try_from(day.ends().0.saturating_sub(now.0)).unwrap_or_default();
        ApiError::new(ErrorCode::RateLimitExceeded, &error).retry_after(Duration::from_secs(wait))
    })
}

/// Whether images that count against the plan's quota cost nothing.
pub(crate) const fn is_free(caller: &Caller) -> bool {
    matches!(caller.plan, Plan::Free)
}
