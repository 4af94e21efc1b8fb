//! Generates the backdrop of a `/replace-bg-ai` request with an upstream model, and reports the generator in reply headers.

use crate::generate::GeneratedImage;
use crate::http::admission::{Authorized, Caller};
use crate::http::reply::{Reply, Result};
use crate::http::state::ApiState;
use crate::image::{Rect, Size};
use crate::pipeline::{Call, PipelineError};
use crate::recipe::{ModelId, Recipe, Source};
use crate::store::BackdropReservation;
use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use std::fmt::Write;
use std::time::Instant;

const ENGINE: HeaderName = HeaderName::from_static("x-service-engine");
const BACKDROP_MODEL: HeaderName = HeaderName::from_static("x-service-backdrop-model");
const PROMPT_WORDS: HeaderName = HeaderName::from_static("x-service-prompt-words");

/// The one value of `x-service-engine`.
const STANDARD: HeaderValue = HeaderValue::from_static("standard");
/// The name of the built-in generator in the header of the model.
const BUILT_IN: &str = "procedural";
/// The list of recognised words when it is empty.
const NO_WORDS: &str = "none";

/// The backdrop that an upstream model generates for the recipe's prompt; `None` where the recipe has no prompt, or where the
/// built-in generator draws it during processing.
pub(crate) async fn generate(
    state: &ApiState,
    authorized: &mut Authorized,
    caller: &Caller,
    source: &Bytes,
    received: Instant,
) -> Result<Option<GeneratedImage>> {
    let recipe = &authorized.recipe;
    let Some(Source::Generated(prompt)) = &recipe.inputs.background else { return Ok(None) };
    let providers = &state.app.providers;
    if !providers.has_models_for(caller.scope()) {
        return Ok(None);
    }
    // First, so that an unusable source costs no upstream call.
    let call = Call::of_request(&caller.account, received + state.config.request_deadline, state.limits);
    let canvas = canvas_of(state, recipe, source.clone(), call).await?;
    let share = state.memory.of(&caller.account).share();
    share.wait_for(state.limits.max_bytes).await?;
    // A quarter of the deadline is left for the processing.
    let deadline = received + state.config.request_deadline.mul_f64(0.75);
    let mut calling = Calling(authorized.backdrop.take());
    let made = providers.generate(prompt, canvas, caller.scope(), deadline).await;
    authorized.backdrop = calling.0.take();
    let Some(made) = made? else { return Ok(None) };
    // The call is paid for, also if the picture fails.
    authorized.count_backdrop();
    Ok(Some(GeneratedImage { bytes: share.hold(made.bytes), ..made }))
}

/// The reservation in the day's cap during a call. When the client disconnects, it is counted, because the call may be paid for.
struct Calling(Option<BackdropReservation>);

impl Drop for Calling {
    fn drop(&mut self) {
        if let Some(backdrop) = self.0.take() {
            backdrop.keep();
        }
    }
}

/// Reports the generator of the backdrop: a model, or the built-in one with the words of the prompt that it recognised.
pub(crate) fn write_headers(reply: &mut Reply, made: Option<ModelId>, understood: Option<&[String]>) -> Result<()> {
    let headers = reply.headers_mut();
    headers.insert(ENGINE, STANDARD);
    headers.insert(BACKDROP_MODEL, HeaderValue::from_static(made.map_or(BUILT_IN, ModelId::as_str)));
    if let Some(words) = understood {
        headers.insert(PROMPT_WORDS, HeaderValue::try_from(listed(words))?);
    }
    Ok(())
}

/// Words separated by commas. Bytes that a header cannot carry, and commas and percent signs within a word, are
/// percent-encoded.
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

/// The size of the result, from the source's header and the recipe.
async fn canvas_of(state: &ApiState, recipe: &Recipe, source: Bytes, call: Call) -> Result<Size> {
    let size = state.app.processor.header_of(source, call).await?.size;
    if let Some(cut) = recipe.cut() {
        cut.guidance.located(size)?;
    }
    let layout = recipe.within(&state.limits).scene.layout(size, Rect::whole(size)).map_err(PipelineError::from)?;
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
