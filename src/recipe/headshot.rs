//! Fields and recipe of `/headshot`: head and shoulders on a plain background, with the face restored.

use super::params::{Group, fields};
use super::shared::{self, Common, UploadMarks, assemble, needs_alpha};
use super::studio_shot;
use super::{FieldError, Fields, Flag, Picture, Portrait, Recipe, RgbaOnly, Work};
use crate::compose::Aspect;
use crate::image::OutputFormat;
use crate::image::color::Color;

fields! {
    struct HeadshotFields {
        /// Colour of the background.
        bg_color: Color = Some("#F4F4F5");
        /// Restores the face (sharper, less noise).
        restore_face: Flag = Some("true");
        /// Aspect ratio of the result, width to height. Default: the ratio of `width` and `height` if both are sent.
        aspect: Aspect = Some("1:1");
        /// Format of the result.
        format: OutputFormat = Some("jpg");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) type Headshot = (HeadshotFields, Common, UploadMarks);

const PAPER: Color = Color([0xF4, 0xF4, 0xF5, 255]);

/// The recipe. Its scene is a studio shot's, which is the result for a picture without a face.
pub(super) fn headshot(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Headshot::read(fields)?;
    let color = own.bg_color.unwrap_or(PAPER);
    let format = own.format.unwrap_or(OutputFormat::Jpeg);
    if format == OutputFormat::Jpeg && !color.is_opaque() {
        return Err(needs_alpha(format.name(), "`bg_color` is not opaque"));
    }
    let restore_face = own.restore_face.is_none_or(|Flag(yes)| yes);
    let portrait = Portrait { aspect: own.aspect, restore_face };
    let work = Work::Cut { cut: shared::cut(&common, &marks), picture: Picture::Portrait(portrait) };
    Ok(assemble(work, &common, &marks, format, studio_shot::plain(color, own.aspect)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::{Background, Framing, Head};
    use crate::image::Size;
    use crate::recipe::tests::fields;

    fn recipe(pairs: &[(&str, &str)]) -> Recipe {
        headshot(&fields(pairs)).expect("valid")
    }

    fn portrait(recipe: &Recipe) -> Portrait {
        match recipe.work {
            Work::Cut { picture: Picture::Portrait(portrait), .. } => portrait,
            Work::Cut { .. } | Work::Retouch(_) => panic!("{:?}", recipe.work),
        }
    }

    #[test]
    fn without_a_face_it_is_a_studio_shot_in_its_own_colour() {
        for more in
            [&[][..], &[("aspect", "4:5"), ("width", "300"), ("quality", "50")], &[("width", "90"), ("height", "80")]]
        {
            let headshot = recipe(more);
            let with_colour: Vec<_> = more.iter().copied().chain([("bg_color", "#F4F4F5")]).collect();
            let studio = studio_shot::studio(&fields(&with_colour)).expect("valid");
            assert_eq!(headshot.scene, studio.scene);
            assert_eq!(format!("{:?}", headshot.encode), format!("{:?}", studio.encode));
            assert_eq!(format!("{:?}", headshot.cut()), format!("{:?}", studio.cut()));
        }
    }

    #[test]
    fn with_a_face_it_is_framed_by_the_head_and_casts_no_shadow() {
        let recipe = recipe(&[("aspect", "4:5"), ("bg_color", "navy")]);
        let head = Head::anywhere(Size::new(30, 40));
        let scene = portrait(&recipe).scene(&recipe.scene, head);
        assert_eq!(scene.framing, Framing::Portrait { aspect: Aspect::new(4000, 5000), head });
        assert_eq!((scene.shadow, scene.background), (None, Background::Color(Color([0, 0, 128, 255]))));
    }

    #[test]
    fn the_face_is_restored_unless_that_is_switched_off() {
        let restored = |pairs: &[(&str, &str)]| portrait(&recipe(pairs)).restore_face;
        assert_eq!(
            [restored(&[]), restored(&[("restore_face", "1")]), restored(&[("restore_face", "0")])],
            [true, true, false]
        );
    }

    #[test]
    fn a_transparent_background_needs_a_format_with_alpha() {
        assert_eq!(headshot(&fields(&[("bg_color", "transparent")])).expect_err("a jpg").param(), "format");
        assert_eq!(recipe(&[("bg_color", "transparent"), ("format", "png")]).encode.format, OutputFormat::Png);
    }
}
