//! Selects the model of a request: the one that `x-service-model` names, else the account's, else the daemon's.
//!
//! An unknown name is refused (400) rather than replaced by a default.

use super::app::App;
use super::caller::Caller;
use super::error::ApiError;
use super::reply::MODEL;
use crate::recipe::{FieldError, InferenceMode, Recipe};
use hyper::header::HeaderMap;

/// Sets the model of `recipe`. Refuses a request that names an unknown model, or more than one.
pub(super) fn select_model(
    app: &App,
    headers: &HeaderMap,
    caller: &Caller,
    recipe: &mut Recipe,
) -> Result<(), ApiError> {
    let default = caller.model.unwrap_or(app.model);
    let models = InferenceMode::ALL.map(|mode| {
        recipe.cut_out_by(mode);
        (mode, app.processor.model_of(recipe))
    });
    recipe.cut_out_by(requested(headers, &models)?.unwrap_or(default));
    Ok(())
}

/// Refuses a clip for a model that does not process clips, before the clip is read.
pub(super) fn require_clip_model(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    requested(headers, &[(InferenceMode::Standard, app.processor.model())]).map(|_| ())
}

/// The one of `models` that a request names, if it names any.
fn requested(headers: &HeaderMap, models: &[(InferenceMode, String)]) -> Result<Option<InferenceMode>, ApiError> {
    let mut values = headers.get_all(MODEL).iter();
    let Some(sent) = values.next() else { return Ok(None) };
    let text = sent.to_str().ok().filter(|_| values.next().is_none());
    let found = text.and_then(|text| models.iter().find(|(_, model)| matches(text, model)));
    if let Some(&(mode, _)) = found {
        return Ok(Some(mode));
    }
    let shown = String::from_utf8_lossy(sent.as_bytes());
    let mut models: Vec<_> = models.iter().map(|(_, model)| model).collect();
    // Recipes without segmentation have one model in all modes.
    models.dedup();
    let known: Vec<_> = models.iter().flat_map(|model| [name_of(model), model.as_str()]).collect();
    Err(FieldError::invalid(MODEL.as_str(), &shown, format!("{}, once", known.join(" or "))).into())
}

/// Whether `sent` is the name of `model`, with or without the version.
fn matches(sent: &str, model: &str) -> bool {
    sent == model || sent == name_of(model)
}

/// `fgnet-384` of `fgnet-384/1`.
fn name_of(model: &str) -> &str {
    model.rsplit_once('/').map_or(model, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_model_is_named_with_or_without_its_version_and_not_otherwise() {
        for good in ["fgnet-384", "fgnet-384/1"] {
            assert!(matches(good, "fgnet-384/1"), "{good}");
        }
        for bad in ["", "fgnet", "fgnet-384/", "fgnet-384/2", "fgnet-384/1/1", "FGNET-384", "1", "fgnet-384 1"] {
            assert!(!matches(bad, "fgnet-384/1"), "{bad}");
        }
        assert!(matches("own", "own"), "a model without a version");
    }
}
