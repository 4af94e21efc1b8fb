//! `POST /video/remove`: stores a clip on disk while it arrives, checks it, and creates a job.
//!
//! The checks, in order: `Idempotency-Key` syntax (400), model (400). A form: fields that precede the clip (400), plan
//! (402), ffmpeg installed (503), upload slot (429), announced size (413), disk space (503), received size (413), all fields
//! (400), plan again. JSON with a URL: all fields, plan, ffmpeg. Then the request under the `Idempotency-Key` (the same job, or
//! 409), for a URL slot, disk space and fetching (424), content by ffprobe (400, 415, 422, 413; 503 where too many clips wait for it),
//! quota (402), and the key's number of jobs (429).

use crate::account::price::Call;
use crate::codec::DecodeError;
use crate::http::admission::{
    Caller, MODEL_FIELD, Share, clip_model, is_free, require_clip_model, require_plan, reserve_quota,
};
use crate::http::reply::{ApiError, MODEL, Reply, Result};
use crate::http::request::body::{content_type, require_uncompressed, unsupported};
use crate::http::request::clip_upload::{self, ClipFile, StoredClip, clip_too_large};
use crate::http::request::fingerprint::{self, hash, texts};
use crate::http::request::input_names::{FILE, URL};
use crate::http::request::multipart::{self, Multipart, Part};
use crate::http::request::{form, image_request, json};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::image::SourceUrl;
use crate::jobs::{Created, IncomingClip, JobView, NewJob, NewWebhook};
use crate::recipe::{FieldError, Fields, Guidance, Network, VIDEO_FIELDS, VIDEO_PATH, Value, VideoRecipe, webhook_url};
use crate::source::FetchError;
use crate::telemetry::metrics;
use crate::video::VideoError;
use hyper::header::HeaderValue;
use std::time::Duration;

use super::jobs::{self, job_document};

/// The time for a clip to arrive, as a multiple of that for a picture; a clip may be twenty times as large.
const BODY_TIMEOUT_FACTOR: u32 = 5;

/// A request that was read to its end.
struct ClipRequest {
    fields: Fields,
    recipe: VideoRecipe,
    clip: ClipSource,
}

/// Where the clip is.
enum ClipSource {
    /// On disk.
    Uploaded(Upload),
    /// To be fetched.
    Url(SourceUrl),
}

/// A clip on disk, with its slot among the uploads in flight.
struct Upload {
    incoming: IncomingClip,
    stored: StoredClip,
    _share: Share,
}

/// Answers 202 with the job.
pub(crate) async fn answer(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<Reply> {
    let key = fingerprint::key(&context.headers)?;
    require_clip_model(&state.app, &context.headers)?;
    let request = read(state, caller, context).await?;
    let received = context.body.received();
    let ClipRequest { fields, recipe, clip } = request;
    let (param, fingerprint) = match &clip {
        ClipSource::Uploaded(upload) => (FILE, fingerprint(context, &fields, FILE, &upload.stored.hash)),
        ClipSource::Url(url) => (URL, fingerprint(context, &fields, URL, url.to_string().as_bytes())),
    };
    if let Some(key) = &key
        && let Some(shown) = state.app.jobs.named(&caller.key_id, key.as_str()).await?
    {
        if shown.job.fingerprint != fingerprint {
            return Err(fingerprint::conflict());
        }
        return accepted(state, context, &shown, received.elapsed()).await;
    }
    let upload = match clip {
        ClipSource::Uploaded(upload) => upload,
        ClipSource::Url(url) => fetch(state, &caller.account, &url).await?,
    };
    let clip = state.app.inspector.probe(&caller.account, &upload.incoming.input()).await;
    // In started seconds; `as` saturates, so that no duration overflows.
    let seconds = (clip.map_err(|error| clip_error(error, param))?.seconds.ceil() as u64).max(1);
    let reservation = if caller.test { None } else { Some(reserve_quota(state, caller, seconds)?) };
    let unit_price = state.app.prices.price(&Call { endpoint: VIDEO_PATH, ..Call::default() })?.unit_price;
    let base = context.base_url(&state.config);
    let webhook = webhook_url(&fields).map(|url| NewWebhook { url: url.to_string(), base });
    let new = NewJob {
        key_id: caller.key_id.clone(),
        account: caller.account.clone(),
        test: caller.test,
        fields: job_fields(&fields, &recipe.network),
        format: recipe.format.name(),
        name: key.map(|key| key.as_str().to_owned()),
        fingerprint,
        unit_price: if caller.test || is_free(caller) { 0 } else { unit_price },
        webhook,
        reservation,
    };
    match state.app.jobs.create(new, upload.incoming).await? {
        Created::New(shown) | Created::Same(shown) => accepted(state, context, &shown, received.elapsed()).await,
        Created::Conflict => Err(fingerprint::conflict()),
    }
}

/// 202 with a job.
async fn accepted(state: &ApiState, context: &RequestContext, shown: &JobView, latency: Duration) -> Result<Reply> {
    let document = job_document(state, context, shown).await?;
    jobs::accepted(&shown.job.id, document, shown.job.state, latency)
}

/// The request's fields, and the added model with its version that cuts out all frames.
fn job_fields(fields: &Fields, network: &Network) -> Vec<(String, String)> {
    let sent = fields.iter().filter(|(name, _)| *name != MODEL_FIELD);
    let sent = sent.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let model = (*network != Network::default()).then(|| (MODEL_FIELD.to_owned(), network.to_string()));
    sent.chain(model).collect()
}

/// SHA-256 of fields, clip and the model that the header names.
fn fingerprint(context: &RequestContext, fields: &Fields, kind: &str, clip: &[u8]) -> [u8; 32] {
    let texts = texts(VIDEO_PATH, fields).into_iter().map(str::as_bytes);
    let model = context.headers.get(MODEL).map(HeaderValue::as_bytes);
    hash(texts.chain([kind.as_bytes(), clip]).chain(model))
}

/// Reads the request to its end: an uploaded clip is then on disk, and all fields are valid.
async fn read(state: &ApiState, caller: &Caller, context: &mut RequestContext) -> Result<ClipRequest> {
    image_request::refuse_query(&context.uri, "form fields or members of a JSON object")?;
    require_uncompressed(&context.headers)?;
    if let Some(boundary) = multipart::boundary(content_type(&context.headers))? {
        return read_form(state, caller, context, &boundary).await;
    }
    if json::syntax(&context.headers).is_err() {
        return Err(unsupported("the request body must be multipart/form-data or application/json"));
    }
    let object = json::read(&context.headers, &mut context.body).await?;
    let (fields, [url]) = object.split(&VIDEO_FIELDS, [URL]).map_err(Guidance::unknown_of_clip)?;
    let recipe = validate(state, caller, context, &fields)?;
    let url = image_request::url(&url.ok_or(FieldError::Missing { param: URL.to_owned() })?)?;
    require_upload_allowed(state, caller, &fields).await?;
    Ok(ClipRequest { fields, recipe, clip: ClipSource::Url(url) })
}

async fn read_form(
    state: &ApiState,
    caller: &Caller,
    context: &mut RequestContext,
    boundary: &str,
) -> Result<ClipRequest> {
    let content_length = context.body.content_length();
    context.body.extend_timeout(BODY_TIMEOUT_FACTOR);
    let mut form = Multipart::new(&mut context.body, boundary, clip_upload::max_body());
    let (mut fields, mut clip) = (Fields::default(), None);
    while let Some(Part { name, .. }) = form.next_part().await? {
        if name == FILE {
            if clip.is_some() {
                return Err(FieldError::Repeated { param: name }.into());
            }
            require_upload_allowed(state, caller, &fields).await?;
            let share = state.memory.of(&caller.account).clip()?;
            if content_length.is_some_and(|length| length > clip_upload::max_body() as u64) {
                return Err(clip_too_large());
            }
            let most = content_length.unwrap_or(u64::MAX).min(clip_upload::max_clip() as u64);
            let incoming = state.app.jobs.incoming(&caller.account, most).await?;
            let stored = clip_upload::read_part(&mut form, incoming.input()).await?;
            clip = Some(Upload { incoming, stored, _share: share });
        } else if let Some(field) = VIDEO_FIELDS.iter().find(|field| field.name == name) {
            let value = form::read_value(&mut form, &name).await?;
            fields.push(&name, &value)?;
            // Each field is validated alone first, so that most errors are reported before the clip is sent; combinations are
            // validated at the end.
            if let Some(value) = fields.get(field.name) {
                VideoRecipe::validate_field(field.name, value)?;
            }
        } else {
            let known = VIDEO_FIELDS.iter().map(|field| field.name).chain([FILE]);
            return Err(Guidance::unknown_of_clip(FieldError::unknown(&name, known)).into());
        }
    }
    let recipe = validate(state, caller, context, &fields)?;
    let clip = clip.ok_or(FieldError::Missing { param: FILE.to_owned() })?;
    if clip.stored.bytes == 0 {
        return Err(DecodeError::Empty.into());
    }
    // Fields may follow the clip.
    require_plan(VIDEO_PATH, caller, &fields)?;
    Ok(ClipRequest { fields, recipe, clip: ClipSource::Uploaded(clip) })
}

/// Validates all fields together.
fn validate(state: &ApiState, caller: &Caller, context: &RequestContext, fields: &Fields) -> Result<VideoRecipe> {
    let mut recipe = VideoRecipe::of(fields)?;
    recipe.network = clip_model(&state.app, &context.headers, caller, recipe.named_model.as_ref())?;
    // A host name may still resolve to such an address; that is refused at delivery.
    if let Some(url) = webhook_url(fields).filter(|url| state.app.fetcher.refuses(url)) {
        let expected = <SourceUrl as Value>::KIND.expected();
        return Err(FieldError::invalid("webhook_url", &url.to_string(), expected).into());
    }
    Ok(recipe)
}

/// Fetches a clip to disk.
async fn fetch(state: &ApiState, account: &str, url: &SourceUrl) -> Result<Upload> {
    let share = state.memory.of(account).clip()?;
    let incoming = state.app.jobs.incoming(account, clip_upload::max_clip() as u64).await?;
    let file = ClipFile::create(incoming.input());
    let fetched = state.app.fetcher.fetch_clip(url, clip_upload::max_clip(), file.pieces()).await;
    // Where the file stopped taking pieces, its own error says why.
    let stored = match fetched {
        Ok(()) | Err(FetchError::ReceiverClosed) => file.finish().await?,
        Err(error) => {
            metrics::fetch_failed(error.reason());
            return Err(ApiError::from(error).param(URL));
        }
    };
    if stored.bytes == 0 {
        return Err(ApiError::from(DecodeError::Empty).param(URL));
    }
    Ok(Upload { incoming, stored, _share: share })
}

/// The error for an unusable clip. The type of a fetched file that is no video is not reported.
fn clip_error(error: VideoError, param: &str) -> ApiError {
    let is_other = matches!(error, VideoError::Unreadable | VideoError::Unsupported(_) | VideoError::NoPicture);
    if param == URL && is_other {
        let message =
            "there is no video at the URL that is read here: mp4, mov, webm, mkv and gif with common codecs are";
        return unsupported(message).param(URL).caused_by(&error);
    }
    ApiError::from(error).renamed(FILE, param)
}

/// Checks before a clip is read: plan (402), ffmpeg (503).
async fn require_upload_allowed(state: &ApiState, caller: &Caller, fields: &Fields) -> Result<()> {
    require_plan(VIDEO_PATH, caller, fields)?;
    // Which program is missing, and where it was searched, goes to the log only.
    let message = "clips cannot be worked on here: ffmpeg is not installed";
    let ready = state.app.inspector.ready().await;
    ready.map_err(|missing| ApiError::unavailable(message).caused_by(&missing))
}
