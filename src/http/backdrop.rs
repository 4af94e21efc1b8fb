//! Backdrops that are made from words: who may have one, how many there are in a day, and who makes it.

use super::Caller;
use super::error::{ApiError, ErrorCode};
use super::facade::Facade;
use super::response::Reply;
use super::upload_memory::Share;
use crate::account::{DayExhausted, Place};
use crate::codec::{self, DecodeError, Limits};
use crate::generate::{AccountScope, GeneratedImage, ProviderError, UpstreamError};
use crate::image::{Rect, Size};
use crate::pipeline::PipelineError;
use crate::recipe::{Endpoint, Fields, ModelId, Recipe, Source, Value, WantedModel};
use crate::store::UnixSeconds;
use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

const ENGINE: HeaderName = HeaderName::from_static("x-service-engine");
const BACKDROP_MODEL: HeaderName = HeaderName::from_static("x-service-backdrop-model");
const PROMPT_WORDS: HeaderName = HeaderName::from_static("x-service-prompt-words");

/// The one value of `x-service-engine`.
const STANDARD: HeaderValue = HeaderValue::from_static("standard");
/// What the built-in generator is called beside the models.
const BUILT_IN: &str = "procedural";
/// Of words that were understood, when there are none.
const NO_WORDS: &str = "none";

impl Facade {
    /// Refuses a backdrop to accounts that are not on the list, and models that the account has not.
    pub(super) fn refuse_backdrop(
        &self,
        endpoint: &Endpoint,
        caller: &Caller,
        fields: &Fields,
    ) -> Result<(), ApiError> {
        if !endpoint.generates() {
            return Ok(());
        }
        if !caller.generates {
            let message = "this account is not on the allow-list of /replace-bg-ai";
            return Err(ApiError::new(ErrorCode::Forbidden, message));
        }
        match fields.get("model").and_then(WantedModel::parse) {
            Some(WantedModel(Some(model))) if !self.app.providers.offers(model, account_scope(caller)) => {
                Err(ProviderError { model, error: Arc::new(UpstreamError::NotOffered) }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes one of the backdrops that the day has.
    pub(super) fn take_backdrop(&self) -> Result<Place, ApiError> {
        let now = UnixSeconds::now();
        self.app.daily.take(self.backdrops_per_day, now).map_err(|exhausted @ DayExhausted { resets_at }| {
            let wait = u64::try_from(resets_at.0.saturating_sub(now.0)).unwrap_or_default();
            ApiError::new(ErrorCode::RateLimitExceeded, exhausted.to_string()).retry_after(Duration::from_secs(wait))
        })
    }

    /// What an upstream makes of the recipe's wish; nothing where there is no wish, or the built-in generator draws it in
    /// the course of the work. The share goes with the picture.
    pub(super) async fn made_backdrop(
        &self,
        recipe: &Recipe,
        caller: &Caller,
        source: &Bytes,
        received: Instant,
    ) -> Result<Option<(GeneratedImage, Share)>, ApiError> {
        let Some(Source::Generated(wish)) = &recipe.inputs.background else { return Ok(None) };
        let providers = &self.app.providers;
        if !providers.has_models_for(account_scope(caller)) {
            return Ok(None);
        }
        // First, so that a picture that cannot be used costs no other.
        let canvas = canvas_of(recipe, source.clone(), self.limits).await?;
        let mut share = self.uploads.of(&caller.account).share();
        share.wait_for(self.limits.max_bytes).await?;
        // The work that follows has its part of the time.
        let deadline = received + self.config.request_deadline.mul_f64(0.75);
        let Some(made) = providers.generate(wish, canvas, account_scope(caller), deadline).await? else {
            return Ok(None);
        };
        share.shrink_to(made.bytes.len());
        Ok(Some((made, share)))
    }
}

/// Says on a reply who made the backdrop: a model, or the built-in generator with the words that it understood.
pub(super) fn tell(reply: &mut Reply, made: Option<ModelId>, understood: Option<&[String]>) -> Result<(), ApiError> {
    let headers = reply.headers_mut();
    headers.insert(ENGINE, STANDARD);
    headers.insert(BACKDROP_MODEL, HeaderValue::from_static(made.map_or(BUILT_IN, ModelId::as_str)));
    if let Some(words) = understood {
        let words = HeaderValue::from_str(&listed(words)).map_err(|error| ApiError::internal(error.to_string()))?;
        headers.insert(PROMPT_WORDS, words);
    }
    Ok(())
}

/// Words with commas between them. What a header cannot carry as it is, commas and percent signs in a word too, is
/// written as in URLs.
fn listed(words: &[String]) -> String {
    let mut list = String::new();
    for word in words {
        if !list.is_empty() {
            list.push_str(", ");
        }
        for byte in word.bytes() {
            if matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'%') {
                list.push(char::from(byte));
            } else {
                write!(list, "%{byte:02X}").expect("a string takes everything");
            }
        }
    }
    if list.is_empty() { NO_WORDS.to_owned() } else { list }
}

fn account_scope(caller: &Caller) -> AccountScope<'_> {
    AccountScope { account: &caller.account, plan: caller.plan }
}

/// The size of the result, as far as the source's header and the recipe say.
async fn canvas_of(recipe: &Recipe, source: Bytes, limits: Limits) -> Result<Size, ApiError> {
    let probe = move || codec::probe(&source, &limits).map(|header| header.size);
    let probed: Result<Size, DecodeError> =
        spawn_blocking(probe).await.map_err(|error| ApiError::internal(error.to_string()))?;
    let size = probed?;
    let layout = recipe.within(&limits).scene.layout(size, Rect::whole(size)).map_err(PipelineError::from)?;
    Ok(layout.canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_as_a_header_can_carry_them() {
        let list = |words: &[&str]| listed(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&[]), "none");
        assert_eq!(list(&["marble", "window light"]), "marble, window light");
        assert_eq!(list(&["wüste", "50%", "a,b", "\n"]), "w%C3%BCste, 50%25, a%2Cb, %0A");
        assert!(HeaderValue::from_str(&list(&["\u{0}…\u{7f}"])).is_ok());
    }
}
