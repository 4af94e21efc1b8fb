//! `POST /video/remove`: a clip in, a job out.
//!
//! The clip goes to the disk as it comes. What can be refused before is refused before: fields that come ahead of it, a
//! plan, missing programs, an announced length. What is in it is looked at when it is whole, and before a job is
//! promised.

use crate::account::price::Call;
use crate::codec::DecodeError;
use crate::http::body::{content_type, uncompressed, unsupported};
use crate::http::clip::{self, ClipFile, Written, clip_too_large};
use crate::http::cover::{hash, idempotency_key, is_free, other_request, texts};
use crate::http::error::ApiError;
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::form::{self, FILE};
use crate::http::multipart::{self, Multipart, Part};
use crate::http::response::{self, Reply};
use crate::http::submission::{self, URL};
use crate::http::{Caller, json};
use crate::image::SourceUrl;
use crate::jobs::{Created, Incoming, NewJob, NewWebhook, Shown};
use crate::recipe::{FieldError, Fields, VIDEO_FIELDS, VIDEO_PATH, Value, VideoRecipe, webhook_url};
use crate::source::FetchError;
use crate::telemetry::metrics;
use crate::video::VideoError;
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use tokio::sync::OwnedSemaphorePermit;

use super::jobs::ASK_AGAIN;

/// How much longer than a picture a clip may take to arrive; it may be twenty times as large.
const PATIENCE: u32 = 5;

/// A request that was read to its end.
struct Sent {
    fields: Fields,
    recipe: VideoRecipe,
    clip: Source,
}

/// Where the clip is.
enum Source {
    /// On the disk.
    Here(Stored),
    /// To be fetched.
    There(SourceUrl),
}

/// A clip on the disk, which has a place there.
struct Stored {
    incoming: Incoming,
    written: Written,
    _place: OwnedSemaphorePermit,
}

/// Takes a clip and makes a job of it.
pub(in crate::http) async fn answer(
    facade: &Facade,
    caller: &Caller,
    exchange: &mut Exchange,
) -> Result<Reply, ApiError> {
    let name = idempotency_key(&exchange.headers)?;
    facade.judge_pin_of_clip(&exchange.headers)?;
    let sent = read(facade, caller, exchange).await?;
    let received = exchange.body.received();
    let Sent { fields, recipe, clip } = sent;
    let (param, fingerprint) = match &clip {
        Source::Here(stored) => (FILE, fingerprint(&fields, FILE, &stored.written.hash)),
        Source::There(url) => (URL, fingerprint(&fields, URL, url.to_string().as_bytes())),
    };
    if let Some(name) = &name
        && let Some(shown) = facade.app.jobs.named(&caller.key_id, name.as_str()).await?
    {
        if shown.job.fingerprint != fingerprint {
            return Err(other_request());
        }
        return accepted(facade, exchange, &shown, received.elapsed()).await;
    }
    let stored = match clip {
        Source::Here(stored) => stored,
        Source::There(url) => fetch(facade, &url).await?,
    };
    let seconds = look(facade, &stored).await.map_err(|error| judged(error, param))?;
    let reservation = if caller.test { None } else { Some(facade.reserve(caller, seconds)?) };
    let unit_price = facade.app.prices.price(&Call { endpoint: VIDEO_PATH, ..Call::default() })?.unit_price;
    let webhook = webhook_url(&fields).map(|url| NewWebhook { url: url.to_string(), base: facade.base(exchange) });
    let new = NewJob {
        key_id: caller.key_id.clone(),
        account: caller.account.clone(),
        test: caller.test,
        fields: fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        format: recipe.format.name(),
        name: name.map(|name| name.as_str().to_owned()),
        fingerprint,
        unit_price: if caller.test || is_free(caller) { 0 } else { unit_price },
        webhook,
        reservation,
    };
    match facade.app.jobs.create(new, stored.incoming).await? {
        Created::New(shown) | Created::Same(shown) => accepted(facade, exchange, &shown, received.elapsed()).await,
        Created::Conflict => Err(other_request()),
    }
}

/// 202.
async fn accepted(
    facade: &Facade,
    exchange: &Exchange,
    shown: &Shown,
    latency: std::time::Duration,
) -> Result<Reply, ApiError> {
    let status_url = format!("/jobs/{}", shown.job.id);
    let location = HeaderValue::from_str(&status_url).map_err(|error| ApiError::internal(error.to_string()))?;
    let mut body = facade.document(exchange, shown).await?;
    body["status_url"] = status_url.into();
    let mut reply = response::timed_json(StatusCode::ACCEPTED, &body, latency)?;
    reply.headers_mut().insert(LOCATION, location);
    if !shown.job.state.is_final() {
        reply.headers_mut().insert(RETRY_AFTER, ASK_AGAIN.into());
    }
    Ok(reply)
}

/// SHA-256 of all that the request says.
fn fingerprint(fields: &Fields, kind: &str, clip: &[u8]) -> [u8; 32] {
    let texts = texts(VIDEO_PATH, fields).into_iter().map(str::as_bytes);
    hash(texts.chain([kind.as_bytes(), clip]))
}

/// Reads the request to its end. A clip in it is on the disk then, and all fields are judged.
async fn read(facade: &Facade, caller: &Caller, exchange: &mut Exchange) -> Result<Sent, ApiError> {
    submission::refuse_query(&exchange.uri, "form fields or members of a JSON object")?;
    uncompressed(&exchange.headers)?;
    if let Some(boundary) = multipart::boundary(content_type(&exchange.headers))? {
        return read_form(facade, caller, exchange, &boundary).await;
    }
    if json::only(&exchange.headers).is_err() {
        return Err(unsupported("the request body must be multipart/form-data or application/json"));
    }
    let (fields, [url]) = json::read(&mut exchange.body).await?.split(&VIDEO_FIELDS, [URL])?;
    let recipe = judge(facade, &fields)?;
    let url = submission::url(&url.ok_or(FieldError::Missing { param: URL.to_owned() })?)?;
    facade.may_begin(caller, &fields).await?;
    Ok(Sent { fields, recipe, clip: Source::There(url) })
}

async fn read_form(
    facade: &Facade,
    caller: &Caller,
    exchange: &mut Exchange,
    boundary: &str,
) -> Result<Sent, ApiError> {
    let announced = exchange.body.announced();
    exchange.body.wait_longer(PATIENCE);
    let mut form = Multipart::new(&mut exchange.body, boundary, clip::max_body());
    let (mut fields, mut clip) = (Fields::default(), None);
    while let Some(Part { name, .. }) = form.next_part().await? {
        if name == FILE {
            if clip.is_some() {
                return Err(FieldError::Repeated { param: name }.into());
            }
            facade.may_begin(caller, &fields).await?;
            let place = facade.clips.enter()?;
            if announced.is_some_and(|length| length > clip::max_body() as u64) {
                return Err(clip_too_large());
            }
            let most = announced.unwrap_or(u64::MAX).min(clip::max_clip() as u64);
            let incoming = facade.app.jobs.incoming(most).await?;
            let written = clip::read_part(&mut form, incoming.input()).await?;
            clip = Some(Stored { incoming, written, _place: place });
        } else if let Some(field) = VIDEO_FIELDS.iter().find(|field| field.name == name) {
            let value = form::read_value(&mut form, &name).await?;
            fields.push(&name, &value)?;
            // Each alone, so that most mistakes are told before the clip is sent; what fits together shows at the end.
            if let Some(value) = fields.get(field.name) {
                VideoRecipe::validate_field(field.name, value)?;
            }
        } else {
            let known = VIDEO_FIELDS.iter().map(|field| field.name).chain([FILE]);
            return Err(FieldError::unknown(&name, known).into());
        }
    }
    let recipe = judge(facade, &fields)?;
    let clip = clip.ok_or(FieldError::Missing { param: FILE.to_owned() })?;
    if clip.written.bytes == 0 {
        return Err(DecodeError::Empty.into());
    }
    // Fields may have come behind the clip.
    facade.refuse_above_plan(VIDEO_PATH, caller, &fields)?;
    Ok(Sent { fields, recipe, clip: Source::Here(clip) })
}

/// Judges all fields together.
fn judge(facade: &Facade, fields: &Fields) -> Result<VideoRecipe, ApiError> {
    let recipe = VideoRecipe::of(fields)?;
    // A name may still lead to such an address; that shows at the delivery.
    if let Some(url) = webhook_url(fields).filter(|url| facade.app.fetcher.refuses(url)) {
        let expected = <SourceUrl as Value>::KIND.expected();
        return Err(FieldError::invalid("webhook_url", &url.to_string(), expected).into());
    }
    Ok(recipe)
}

/// Brings a clip onto the disk.
async fn fetch(facade: &Facade, url: &SourceUrl) -> Result<Stored, ApiError> {
    let place = facade.clips.enter()?;
    let incoming = facade.app.jobs.incoming(clip::max_clip() as u64).await?;
    let file = ClipFile::create(incoming.input());
    let fetched = facade.app.fetcher.fetch_clip(url, clip::max_clip(), file.pieces()).await;
    // Why nobody took the rest is the file's to tell.
    let written = match fetched {
        Ok(()) | Err(FetchError::NotTaken) => file.end().await?,
        Err(error) => {
            metrics::fetch_failed(error.reason());
            return Err(ApiError::from(error).param(URL));
        }
    };
    if written.bytes == 0 {
        return Err(ApiError::from(DecodeError::Empty).param(URL));
    }
    Ok(Stored { incoming, written, _place: place })
}

/// Looks at what was sent; how many seconds of it were begun.
async fn look(facade: &Facade, stored: &Stored) -> Result<u64, VideoError> {
    let clip = facade.app.inspector.probe(&stored.incoming.input()).await?;
    // Not negative and not beyond the type, whatever the file says: `as` saturates.
    Ok((clip.seconds.ceil() as u64).max(1))
}

/// What is wrong with a clip. The kind of a fetched file that is no clip is not reported.
fn judged(error: VideoError, param: &str) -> ApiError {
    let is_other = matches!(error, VideoError::Unreadable | VideoError::Unsupported(_) | VideoError::NoPicture);
    if param == URL && is_other {
        let message =
            "there is no video at the URL that is read here: mp4, mov, webm, mkv and gif with common codecs are";
        return unsupported(message).param(URL).because(error.to_string());
    }
    ApiError::from(error).renamed(FILE, param)
}

impl Facade {
    /// Whether a clip may come at all.
    async fn may_begin(&self, caller: &Caller, fields: &Fields) -> Result<(), ApiError> {
        self.refuse_above_plan(VIDEO_PATH, caller, fields)?;
        // Which program, and where it was looked for, is for the operator.
        let told = "clips cannot be worked on here: ffmpeg is not installed";
        let ready = self.app.inspector.ready().await;
        ready.map_err(|missing| ApiError::unavailable(told).because(missing.to_string()))
    }
}
