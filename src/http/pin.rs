//! Which model works on a caller's picture: the one that `x-service-model` names on the request, or else the account's, or
//! else the daemon's. One that is not known here is refused: nobody's picture is worked on by another than was named.

use super::Caller;
use super::error::ApiError;
use super::facade::Facade;
use super::response::MODEL;
use crate::recipe::{FieldError, InferenceMode, Recipe};
use hyper::header::HeaderMap;

impl Facade {
    /// Gives `recipe` the model that does it. Refuses a request that names one that cannot, or names one twice.
    pub(super) fn choose_model(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        recipe: &mut Recipe,
    ) -> Result<(), ApiError> {
        let usual = caller.model.unwrap_or(self.app.model);
        let models = InferenceMode::ALL.map(|model| {
            recipe.cut_out_by(model);
            (model, self.app.remover.model_of(recipe))
        });
        recipe.cut_out_by(pinned(headers, &models)?.unwrap_or(usual));
        Ok(())
    }

    /// Refuses a clip for a model that does not work on clips, before it is sent.
    pub(super) fn judge_pin_of_clip(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        pinned(headers, &[(InferenceMode::Standard, self.app.remover.model())]).map(|_| ())
    }
}

/// The one of `models` that a request names, if it names any.
fn pinned(headers: &HeaderMap, models: &[(InferenceMode, String)]) -> Result<Option<InferenceMode>, ApiError> {
    let mut values = headers.get_all(MODEL).iter();
    let Some(pinned) = values.next() else { return Ok(None) };
    let text = pinned.to_str().ok().filter(|_| values.next().is_none());
    let found = text.and_then(|text| models.iter().find(|(_, model)| names(text, model)));
    if let Some(&(model, _)) = found {
        return Ok(Some(model));
    }
    let shown = String::from_utf8_lossy(pinned.as_bytes());
    let mut models: Vec<_> = models.iter().map(|(_, model)| model).collect();
    // Where nothing is cut out they are one.
    models.dedup();
    let known: Vec<_> = models.iter().flat_map(|model| [name_of(model), model.as_str()]).collect();
    Err(FieldError::invalid(MODEL.as_str(), &shown, format!("{}, once", known.join(" or "))).into())
}

/// Whether a caller means `model` by `pinned`: its name, with or without the version.
fn names(pinned: &str, model: &str) -> bool {
    pinned == model || pinned == name_of(model)
}

/// `fgnet-384` of `fgnet-384/1`.
fn name_of(model: &str) -> &str {
    model.rsplit_once('/').map_or(model, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_model_is_named_with_or_without_its_version_and_not_otherwise() {
        for good in ["fgnet-384", "fgnet-384/1"] {
            assert!(names(good, "fgnet-384/1"), "{good}");
        }
        for bad in ["", "fgnet", "fgnet-384/", "fgnet-384/2", "fgnet-384/1/1", "FGNET-384", "1", "fgnet-384 1"] {
            assert!(!names(bad, "fgnet-384/1"), "{bad}");
        }
        assert!(names("own", "own"), "a model without a version");
    }
}
