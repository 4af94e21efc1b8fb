//! `x-service-model` on a request: the caller's picture is worked on by this model, or not at all.

use super::error::ApiError;
use super::facade::Facade;
use super::response::MODEL;
use crate::recipe::{FieldError, Recipe};
use hyper::header::HeaderMap;

impl Facade {
    /// Refuses a request that names another model than the one that does what `recipe` asks for, or names one twice.
    pub(super) fn judge_pin(&self, headers: &HeaderMap, recipe: &Recipe) -> Result<(), ApiError> {
        judge(headers, || self.app.remover.model_of(recipe))
    }

    /// The same for a clip, which can be told before it is sent.
    pub(super) fn judge_pin_of_clip(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        judge(headers, || self.app.remover.model())
    }
}

fn judge(headers: &HeaderMap, model: impl FnOnce() -> String) -> Result<(), ApiError> {
    let mut values = headers.get_all(MODEL).iter();
    let Some(pinned) = values.next() else { return Ok(()) };
    let model = model();
    if values.next().is_none() && pinned.to_str().is_ok_and(|pinned| names(pinned, &model)) {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(pinned.as_bytes());
    let expected = format!("{} or {model}, once", name_of(&model));
    Err(FieldError::invalid(MODEL.as_str(), &shown, expected).into())
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
