//! `/smart-crop`: the part of the picture that the subject is in.

use super::params::{Group, fields};
use super::shared::{self, Common, Marks, UploadMarks, finished};
use super::{CropFormat, FieldError, Fields, Picture, Recipe, RgbaOnly, Room, Work};
use crate::compose::{Aspect, Background, Framing, Scene};
use crate::image::OutputFormat;

fields! {
    /// What `/smart-crop` takes beside the shared fields.
    struct CropFields {
        /// Room around the subject in pixels of the source, as far as the picture goes; with `aspect` the same on opposite sides, as far as the picture goes on the farther one.
        padding: Room = Some("8");
        /// Aspect of the result, width to height. The crop grows to it with the subject in its middle. What lies beyond the picture has the colour of the nearest pixel of its edge, or is transparent where the input is a cutout. With both `width` and `height` and without this, theirs.
        aspect: Aspect = None;
        /// Format of the result.
        format: CropFormat = Some("png");
        /// Always the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

/// What `/smart-crop` takes.
pub(super) type Crop = (CropFields, Common, UploadMarks);

pub(super) fn crop(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Crop::read(fields)?;
    // On a crop of the source there is no new background for the old one's light to show against.
    if marks.despill() > 0.0 {
        let value = fields.get("despill").unwrap_or_default();
        return Err(FieldError::invalid("despill", value, "false, because this endpoint keeps the background"));
    }
    let padding = own.padding.map_or(8, Room::get);
    let scene = Scene {
        framing: Framing::Cropped { aspect: own.aspect, padding },
        background: Background::EdgeColor,
        ..Scene::default()
    };
    let work = Work::Cut { cut: shared::cut(&common, &marks), picture: Picture::Source };
    Ok(finished(work, &common, &marks, own.format.map_or(OutputFormat::Png, |format| format.0), scene))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    #[test]
    fn a_jpeg_is_refused_with_the_reason() {
        for format in ["jpg", "JPEG"] {
            let refused = crop(&fields(&[("format", format)])).expect_err("no alpha").to_string();
            let expected = "(expected png or webp, because the crop of a cutout keeps its transparency)";
            assert_eq!(refused, format!("invalid `format`: {format:?} {expected}"));
        }
        assert_eq!(crop(&fields(&[("format", "WEBP")])).expect("it has alpha").encode.format, OutputFormat::WebP);
    }
}
