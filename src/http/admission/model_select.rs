//! Selects the model of a request: the one that `x-service-model` or the field `segmentation_model` names, else the account's, else the
//! daemon's.
//!
//! An unknown name is refused (400) rather than replaced by a default.

use super::caller::Caller;
use crate::http::app::App;
use crate::http::reply::{ApiError, ErrorCode, MODEL, Result};
use crate::model::added::{AddedModels, FindError};
use crate::recipe::{FieldError, InferenceMode, ModelRef, Network, Recipe, name_of, names};
use hyper::header::HeaderMap;

/// The field that names a model.
pub(crate) const MODEL_FIELD: &str = "segmentation_model";

/// Sets the model of `recipe`. Refuses a request that names an unknown model, or more than one.
pub(crate) fn select_model(app: &App, headers: &HeaderMap, caller: &Caller, recipe: &mut Recipe) -> Result<()> {
    let built_in = InferenceMode::ALL.map(|mode| {
        recipe.cut_out_by(mode);
        (mode, app.processor.model_of(recipe))
    });
    let Some(cut) = recipe.cut() else { return by_header(headers, &built_in, None).map(drop) };
    let selected = selected(app, headers, caller, cut.named_model.as_ref(), &built_in)?;
    recipe.cut_out_by(selected);
    Ok(())
}

/// The model of a clip.
pub(crate) fn clip_model(app: &App, headers: &HeaderMap, caller: &Caller, field: Option<&ModelRef>) -> Result<Network> {
    Ok(match selected(app, headers, caller, field, &clip_models(app))? {
        Network::BuiltIn(_) => Network::default(),
        added @ Network::Added(_) => added,
    })
}

/// The model of a request that has `field` in its fields and may name one of `built_in` and the added ones.
fn selected(
    app: &App,
    headers: &HeaderMap,
    caller: &Caller,
    field: Option<&ModelRef>,
    built_in: &[(InferenceMode, String)],
) -> Result<Network> {
    let added = Some(app.processor.added());
    let by_header = by_header(headers, built_in, added)?;
    let by_field = field.map(|ModelRef(name)| named(MODEL_FIELD, name, built_in, added)).transpose()?;
    if let (Some(header), Some(field)) = (&by_header, &by_field)
        && header != field
    {
        let expected = format!("the model of the header `{MODEL}`, or one of both");
        return Err(FieldError::invalid(MODEL_FIELD, &field.of(&app.processor.model()), expected).into());
    }
    by_header.or(by_field).map_or_else(|| default_model(app, caller), Ok)
}

/// The model of an account's pictures and clips for which the request names none.
pub(crate) fn default_model(app: &App, caller: &Caller) -> Result<Network> {
    match caller.model.as_ref().unwrap_or(&app.model) {
        Network::BuiltIn(mode) => Ok(Network::BuiltIn(*mode)),
        Network::Added(name) => {
            app.processor.added().find(name).map(|model| Network::Added(model.name)).map_err(|error| {
                let message =
                    format!("the default model of this account cannot be used: {error}; name another one in `{MODEL}`");
                ApiError::new(ErrorCode::InvalidParameter, message).param(MODEL.as_str())
            })
        }
    }
}

/// Refuses a clip whose header names an unknown model, before the clip is read.
pub(crate) fn require_clip_model(app: &App, headers: &HeaderMap) -> Result<()> {
    by_header(headers, &clip_models(app), Some(app.processor.added())).map(drop)
}

/// The built-in network has one mode for clips, the standard one.
fn clip_models(app: &App) -> [(InferenceMode, String); 1] {
    [(InferenceMode::Standard, app.processor.model())]
}

/// The network that the header of a request names.
fn by_header(
    headers: &HeaderMap,
    built_in: &[(InferenceMode, String)],
    added: Option<&AddedModels>,
) -> Result<Option<Network>> {
    let mut values = headers.get_all(MODEL).iter();
    let Some(sent) = values.next() else { return Ok(None) };
    let text = sent.to_str().ok().filter(|_| values.next().is_none());
    let refused = || FieldError::invalid(MODEL.as_str(), &String::from_utf8_lossy(sent.as_bytes()), "one model, once");
    named(MODEL.as_str(), text.ok_or_else(refused)?, built_in, added).map(Some)
}

/// The network that `name`, sent in `param`, means: one of `built_in`, or of the `added` ones.
fn named(
    param: &str,
    name: &str,
    built_in: &[(InferenceMode, String)],
    added: Option<&AddedModels>,
) -> Result<Network> {
    if let Some((mode, _)) = built_in.iter().find(|(_, model)| names(name, model)) {
        return Ok(Network::BuiltIn(*mode));
    }
    match added.zip(name.parse().ok()).map(|(added, name)| added.find(&name)) {
        Some(Ok(model)) => return Ok(Network::Added(model.name)),
        Some(Err(error @ FindError::Damaged { .. })) => {
            return Err(ApiError::new(ErrorCode::InvalidParameter, &error).param(param));
        }
        Some(Err(FindError::Unknown { .. } | FindError::OtherVersion { .. })) | None => {}
    }
    let mut models: Vec<_> = built_in.iter().map(|(_, model)| model.clone()).collect();
    // Recipes without segmentation have one model in all modes.
    models.dedup();
    models.extend(added.iter().flat_map(|added| added.list()).flatten().map(|model| model.name.to_string()));
    let known: Vec<_> = models.iter().flat_map(|model| [name_of(model), model.as_str()]).collect();
    Err(FieldError::invalid(param, name, format!("{}, once", known.join(" or "))).into())
}
