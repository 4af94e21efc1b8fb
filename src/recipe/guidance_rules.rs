//! Completes a recipe with the caller's mask, and refuses guidance fields that contradict each other or the sent file.

use super::guidance::{MASK_FILE, MASK_URL, MaskMode, MaskSource, OF_ONE_PICTURE};
use super::work::{Picture, Recipe, Work};
use super::{FieldError, Fields};

/// Completes the recipe of `fields` with the file that was sent, and refuses contradictions. `is_complete` is false
/// while the fields of a preset are still to be added.
pub(super) fn validate(
    recipe: &mut Recipe,
    fields: &Fields,
    is_single: bool,
    is_complete: bool,
) -> Result<(), FieldError> {
    let refuse = |param: &str, reason| Err(FieldError::not_taken(param, reason));
    if fields.has_file(MASK_FILE) {
        if fields.get(MASK_URL).is_some() {
            return refuse(MASK_URL, "there is a `mask_file`, and a picture has one mask");
        }
        recipe.inputs.mask = Some(MaskSource::Attached);
    }
    let Recipe { work: Work::Cut { cut, picture }, inputs, .. } = recipe else {
        return Ok(());
    };
    let Some(mask) = &inputs.mask else {
        // A preset may hold the mode alone: masks are sent with requests.
        let is_sent = cut.guidance.mask.take().is_some() && !fields.is_stored("mask_mode");
        return if is_sent {
            refuse("mask_mode", "there is no mask; send it as `mask_file` or `mask_url`")
        } else {
            Ok(())
        };
    };
    if !is_single {
        return refuse(mask.param(), OF_ONE_PICTURE);
    }
    if fields.is_stored(MASK_URL) {
        return refuse(MASK_URL, "a mask is of one picture, and a preset is of many");
    }
    let mode = *cut.guidance.mask.get_or_insert_default();
    let is_mode_open = !is_complete && fields.get("mask_mode").is_none();
    if mode == MaskMode::Hint || is_mode_open {
        return Ok(());
    }
    let marks = [("point", &cut.guidance.subject), ("not_point", &cut.guidance.background)];
    if let Some((param, _)) = marks.into_iter().find(|(_, points)| !points.is_empty()) {
        return refuse(param, "the mask is in place of the network's, which points mark; mask_mode=hint takes both");
    }
    if *picture == Picture::CleanMask {
        return refuse("stage", "the mask is in place of the network's, which it would answer");
    }
    Ok(())
}
