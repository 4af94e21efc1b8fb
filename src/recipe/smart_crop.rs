//! Fields and recipe of `/smart-crop`: the source cropped to its subject.

use super::params::{Group, fields};
use super::shared::{self, Common, Marks, UploadMarks, assemble};
use super::{CropFormat, FieldError, Fields, PaddingPx, Picture, Recipe, RgbaOnly, Work};
use crate::compose::{Aspect, Background, Framing, Scene};
use crate::image::OutputFormat;

fields! {
    struct CropFields {
        /// Padding around the subject in pixels of the source, within the picture. With `aspect` it is equal on opposite sides, within the picture on the farther side.
        padding: PaddingPx = Some("8");
        /// Aspect ratio of the result, width to height. The crop grows to it with the subject in its middle. The area beyond the picture takes the colour of the nearest edge pixel, or is transparent where the input is a cutout. Default: the ratio of `width` and `height` if both are sent.
        aspect: Aspect = None;
        /// Format of the result.
        format: CropFormat = Some("png");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) const KEEPS_BACKGROUND: &str = "The old background is kept: `despill` above 0 is refused.";

pub(super) type Crop = (CropFields, Common, UploadMarks);

pub(super) fn crop(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Crop::read(fields)?;
    // A crop keeps the old background, so its spill is no defect.
    if marks.despill() > 0.0 {
        let value = fields.get("despill").unwrap_or_default();
        return Err(FieldError::invalid("despill", value, "false, because this endpoint keeps the background"));
    }
    let padding = own.padding.map_or(8, PaddingPx::get);
    let scene = Scene {
        framing: Framing::Cropped { aspect: own.aspect, padding },
        background: Background::EdgeColor,
        ..Scene::default()
    };
    let work = Work::Cut { cut: shared::cut(&common, &marks), picture: Picture::Source };
    Ok(assemble(work, &common, &marks, own.format.map_or(OutputFormat::Png, |format| format.0), scene))
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
