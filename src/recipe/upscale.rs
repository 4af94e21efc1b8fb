//! Fields and recipe of `/upscale`: super-resolution by a factor of two or four.

use super::params::{Group, fields};
use super::shared::{Common, UploadMarks, retouched};
use super::{FieldError, Fields, Recipe, Retouch, RgbaOnly, Scale};
use crate::image::OutputFormat;
use crate::model::Factor;

fields! {
    struct UpscaleFields {
        /// Factor of enlargement in width and height; neither side of the result exceeds 8192 pixels.
        scale: Scale = Some("2");
        /// Format of the result; `jpg` needs a picture without transparency.
        format: OutputFormat = Some("png");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) type Upscale = (UpscaleFields, Common, UploadMarks);

pub(super) fn upscale(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Upscale::read(fields)?;
    let factor = own.scale.map_or(Factor::Two, |Scale(factor)| factor);
    retouched(Retouch::Enlarge(factor), fields, &common, &marks, own.format.unwrap_or(OutputFormat::Png))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::{Framing, Scene};
    use crate::recipe::Work;
    use crate::recipe::tests::fields;

    #[test]
    fn the_picture_is_only_enlarged() {
        for (pairs, factor) in
            [(&[][..], Factor::Two), (&[("scale", "2")], Factor::Two), (&[("scale", "4")], Factor::Four)]
        {
            let recipe = upscale(&fields(pairs)).expect("valid");
            assert!(matches!(recipe.work, Work::Retouch(Retouch::Enlarge(by)) if by == factor));
            assert_eq!((&recipe.scene, recipe.encode.format), (&Scene::default(), OutputFormat::Png));
            assert!(recipe.cut().is_none() && recipe.scene.framing == Framing::Whole);
        }
    }

    #[test]
    fn fields_about_cutting_out_are_refused_with_the_reason() {
        for (name, value, usual) in [
            ("detect", "high_recall", "standard"),
            ("decontaminate", "true", "false"),
            ("engine", "product-v1", ""),
            ("despill", "50", "false"),
            ("keep_alpha", "false", "true"),
        ] {
            let refused = upscale(&fields(&[(name, value)])).expect_err(name);
            assert_eq!(refused.param(), name);
            assert!(refused.to_string().contains("because this endpoint keeps the whole picture"), "{refused}");
            assert!(usual.is_empty() || upscale(&fields(&[(name, usual)])).is_ok(), "{name}={usual} changes nothing");
        }
        assert_eq!(upscale(&fields(&[("strength", "1")])).expect_err("not here").param(), "strength");
    }
}
