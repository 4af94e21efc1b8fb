//! What a request may do and what it costs: model, allow-list, plan, quota, `Idempotency-Key`, cap of the day. Judged after the fields, before any work.

use super::Caller;
use super::error::{ApiError, ErrorCode};
use super::facade::Facade;
use super::idempotency::{Contents, Made};
use super::response::MODEL;
use super::routes::presets;
use super::submission::{Pictures, Submission};
use crate::account::plan::required_plan;
use crate::account::presets::LookupBy;
use crate::account::price::Call;
use crate::account::{BackdropReservation, Claim, ClaimGuard, IdempotencyKey, Reservation};
use crate::recipe::{Endpoint, Fields, Recipe};
use crate::store::{Plan, UnixSeconds};
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

/// `reason` of a 402: what the plan or the key has in a month is used up.
pub(super) const QUOTA_EXHAUSTED: &str = "quota_exhausted";

/// `reason` of a 402: the plan does not have the field or the endpoint.
pub(super) const PLAN_REQUIRED: &str = "plan_required";

/// The caller's own name for a request that it may repeat.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request that may be worked on.
#[derive(Debug)]
pub(super) struct Cover {
    pub(super) recipe: Recipe,
    /// Of one picture, in microdollars; 0 where nothing is billed.
    unit_price: u64,
    /// Whether the pictures count against the quota: those of a sandbox key do not, nor those with a backdrop that was
    /// made for them, which have a cap of their own.
    counts: bool,
    /// The pictures of the request.
    images: usize,
    /// Which of them were billed before, and what was fetched for them.
    pub(super) contents: Contents,
    reservation: Option<Reservation>,
    permit: Option<ClaimGuard>,
    place: Option<BackdropReservation>,
}

impl Facade {
    /// Judges model, allow-list, plan, preset, quota, `Idempotency-Key` and the cap of the day of a request whose fields are in order.
    pub(super) async fn cover(
        &self,
        endpoint: &'static Endpoint,
        caller: &Caller,
        headers: &HeaderMap,
        submission: &Submission,
    ) -> Result<Cover, ApiError> {
        if submission.fields.get("preset").is_none() {
            // Before the plan; what a preset makes of the request is known only behind it.
            self.choose_model(headers, caller, &mut endpoint.recipe(&submission.fields)?)?;
        }
        let key = idempotency_key(headers)?.map(|key| if caller.test { key.of_sandbox() } else { key });
        self.refuse_backdrop(endpoint, caller, &submission.fields)?;
        self.refuse_above_plan(endpoint.path, caller, &submission.fields)?;
        let fields = match submission.fields.get("preset") {
            Some(named) => {
                // Where one preset has the id of another as its name: the specification has names on `/remove-url`, and
                // ids on the others.
                let first = if endpoint.input.is_url() { LookupBy::Name } else { LookupBy::Id };
                let found = self.app.presets.find_by(&caller.account, named, first).await?.ok_or_else(|| {
                    ApiError::new(ErrorCode::NotFound, "this account has no such preset").param("preset")
                })?;
                let merged = submission.fields.clone().over(&presets::stored_fields(endpoint, &found));
                self.refuse_backdrop(endpoint, caller, &merged)?;
                self.refuse_above_plan(endpoint.path, caller, &merged)?;
                merged
            }
            None => submission.fields.clone(),
        };
        let mut recipe = endpoint.recipe(&fields)?;
        self.choose_model(headers, caller, &mut recipe)?;
        if caller.test {
            recipe.scene.stamp = Some("TEST");
        }
        let images = submission.pictures.count();
        let unit_price = self.app.prices.price(&Call::of(endpoint.path, &fields, images))?.unit_price;
        let counts = !caller.test && !endpoint.generates();
        let unit_price = if caller.test || (counts && is_free(caller)) { 0 } else { unit_price };
        let mut cover = Cover {
            recipe,
            unit_price,
            counts,
            images: images as usize,
            contents: Contents::default(),
            reservation: None,
            permit: None,
            place: None,
        };
        let mut is_repeated = false;
        if let Some(key) = key {
            let fingerprint = fingerprint(endpoint, &fields, submission, headers).await?;
            let begin = self.app.requests.claim(&caller.account, &key, fingerprint, UnixSeconds::now());
            // Whoever waits for the same request waits no longer than that may take.
            let begin = timeout(self.config.request_deadline, begin).await;
            match begin.map_err(|_| ApiError::unavailable("the same request is still being worked on"))? {
                Claim::New(permit) => {
                    cover.contents = Contents::of(permit.pictures().clone());
                    cover.permit = Some(permit);
                }
                Claim::Replay(pictures) => {
                    cover.contents = Contents::of(pictures);
                    is_repeated = true;
                }
                Claim::Conflict => return Err(other_request()),
            }
        }
        if is_repeated {
            cover.unit_price = 0;
        } else if cover.counts || cover.unit_price > 0 || cover.permit.is_some() {
            let billed = (0..cover.images).filter(|index| cover.contents.is_billed(*index)).count();
            let counted = if cover.counts { (cover.images - billed) as u64 } else { 0 };
            cover.reservation = Some(self.reserve(caller, counted)?);
        }
        if endpoint.generates() {
            // A repeated request too: it is made anew, and the cap is about what is made.
            cover.place = Some(self.take_backdrop()?);
        }
        Ok(cover)
    }

    /// Takes `images` of what the account and the key have left this month.
    pub(super) fn reserve(&self, caller: &Caller, images: u64) -> Result<Reservation, ApiError> {
        let reserved = self.app.ledger.reserve_for(&caller.payer(), images, UnixSeconds::now());
        reserved.map_err(|exhausted| {
            ApiError::new(ErrorCode::PaymentRequired, exhausted.to_string()).reason(QUOTA_EXHAUSTED)
        })
    }

    /// Refuses fields that another plan is needed for.
    pub(super) fn refuse_above_plan(&self, path: &str, caller: &Caller, fields: &Fields) -> Result<(), ApiError> {
        match required_plan(path, fields).filter(|needs| needs.plan > caller.plan) {
            Some(needs) => {
                let message =
                    format!("`{}` needs the plan {}; this account has {}", needs.field, needs.plan, caller.plan);
                Err(ApiError::new(ErrorCode::PaymentRequired, message).param(needs.field).reason(PLAN_REQUIRED))
            }
            None => Ok(()),
        }
    }
}

impl Cover {
    /// What the picture at `index` costs once it is made, in microdollars; 0 where it was billed before.
    pub(super) fn cost_of(&self, index: usize) -> u64 {
        if self.contents.is_billed(index) { 0 } else { self.unit_price }
    }

    /// Bills those of `made` that were not billed before, and gives the rest of what was reserved back. Durable when it
    /// returns what they cost, in microdollars. Dropped instead, all of it is given back.
    pub(super) async fn settle(self, made: &[Made]) -> Result<u64, ApiError> {
        if let Some(place) = self.place.filter(|_| !made.is_empty()) {
            place.commit().await?;
        }
        let Some(reservation) = self.reservation else { return Ok(0) };
        let images = self.contents.new_among(made);
        let cost = self.unit_price.saturating_mul(images);
        // A batch of which nothing came may be sent again under its name.
        let permit = self.permit.filter(|_| images > 0);
        let permit = permit.map(|permit| permit.with_pictures(self.contents.with(made, self.images)));
        let counted = if self.counts { images } else { 0 };
        reservation.bill(counted, cost, permit).await?;
        Ok(cost)
    }
}

/// Whether the plan's quota covers what counts against it, so that it costs nothing.
pub(super) const fn is_free(caller: &Caller) -> bool {
    matches!(caller.plan, Plan::Free)
}

/// What a caller is told who used a name for something else before.
pub(super) fn other_request() -> ApiError {
    ApiError::new(ErrorCode::IdempotencyConflict, "this Idempotency-Key was used for another request")
}

/// The caller's name for the request, if it has one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().and_then(|text| IdempotencyKey::try_from(text).ok());
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key)),
        (Some(_) | None, _) => {
            let message = "an Idempotency-Key is sent once and has 1 to 255 visible ASCII characters";
            Err(ApiError::new(ErrorCode::InvalidParameter, message).param("Idempotency-Key"))
        }
    }
}

/// What a request says beside its pictures: its path, its fields whatever their order.
pub(super) fn texts<'a>(path: &'a str, fields: &'a Fields) -> Vec<&'a str> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable();
    std::iter::once(path).chain(fields.into_iter().flat_map(|(name, value)| [name, value])).collect()
}

/// SHA-256 of pieces, told apart by their lengths.
pub(super) fn hash(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.as_ref().len() as u64).to_le_bytes());
        hash.update(piece);
    }
    hash.finalize().into()
}

/// SHA-256 of all that a request says: its fields with those of its preset, its files and addresses, and the model that
/// it names, where it names one. What is behind the addresses is compared when it was fetched ([`Contents`]).
///
/// Ten pictures take a tenth of a second, which is too long for a thread that others wait for.
async fn fingerprint(
    endpoint: &Endpoint,
    fields: &Fields,
    submission: &Submission,
    headers: &HeaderMap,
) -> Result<[u8; 32], ApiError> {
    let texts = texts(endpoint.path, fields);
    let mut pieces: Vec<_> = texts.into_iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    pieces.push(submission.background.clone().unwrap_or_default());
    match &submission.pictures {
        Pictures::File(bytes) => pieces.push(bytes.clone()),
        Pictures::Files(files) => pieces.extend(files.iter().map(|file| file.bytes.clone())),
        Pictures::Url(url) => pieces.push(url.to_string().into()),
        Pictures::Urls(urls) => pieces.extend(urls.iter().cloned().map(Bytes::from)),
    }
    // An address is not the file with its text. Where pictures came in the usual way of the endpoint nothing is added: a
    // fingerprint is stored for a day, beyond an upgrade.
    if submission.pictures.is_url() != endpoint.input.is_url() {
        pieces.push(Bytes::from_static(if submission.pictures.is_url() { b"url" } else { b"file" }));
    }
    pieces.extend(headers.get(MODEL).map(|model| Bytes::copy_from_slice(model.as_bytes())));
    let hashed = tokio::task::spawn_blocking(move || hash(pieces));
    hashed.await.map_err(|error| ApiError::internal(error.to_string()))
}
