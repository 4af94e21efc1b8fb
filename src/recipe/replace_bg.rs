//! Fields and recipe of `/replace-bg`: the subject on a colour or another picture.

use super::params::{Group, fields};
use super::shared::{Common, UploadMarks, composed, needs_alpha, on_white};
use super::{BG_FILE, FieldError, Fields, Recipe, RgbaOnly, Source};
use crate::compose::{Background, Fit, Scene};
use crate::image::color::Color;
use crate::image::{OutputFormat, SourceUrl};

fields! {
    struct ReplaceFields {
        /// Address of a background picture; used when there is no `bg_file`.
        bg_url: SourceUrl = None;
        /// Colour of the background; used when there is no picture, and behind one that does not fill the frame or has transparency.
        bg_color: Color = Some("#FFFFFF");
        /// How a background picture fills the frame: `cover` crops it, `contain` shows all of it, `stretch` distorts it.
        fit: Fit = Some("cover");
        /// Format of the result. With a background picture the default is `jpg`.
        format: OutputFormat = Some("png");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) type Replace = (ReplaceFields, Common, UploadMarks);

pub(super) fn replace(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Replace::read(fields)?;
    let color = own.bg_color.unwrap_or(Color::WHITE);
    let source = if fields.has_file(BG_FILE) { Some(Source::Attached) } else { own.bg_url.map(Source::Url) };
    let usual = if source.is_some() { OutputFormat::Jpeg } else { OutputFormat::Png };
    let format = own.format.unwrap_or(usual);
    let is_jpeg = format == OutputFormat::Jpeg;
    let background = match source {
        // The colour is only visible behind the picture.
        Some(_) => {
            let behind = if is_jpeg { on_white(color) } else { color };
            Background::Picture { fit: own.fit.unwrap_or_default(), behind }
        }
        None if is_jpeg && !color.is_opaque() => {
            return Err(needs_alpha(format.name(), "`bg_color` is not opaque"));
        }
        None => Background::Color(color),
    };
    let mut recipe = composed(&common, &marks, format, Scene { background, ..Scene::default() });
    recipe.inputs.background = source;
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    const URL: (&str, &str) = ("bg_url", "https://example.org/b.jpg");

    #[test]
    fn a_file_wins_over_an_address_which_wins_over_a_colour() {
        let mut all = fields(&[URL, ("bg_color", "red")]);
        let by_url = replace(&all).expect("valid");
        assert!(matches!(by_url.inputs.background, Some(Source::Url(_))));
        all.attach(BG_FILE);
        let by_file = replace(&all).expect("valid");
        assert_eq!(by_file.inputs.background, Some(Source::Attached));
        let by_color = replace(&fields(&[("bg_color", "red")])).expect("valid");
        assert_eq!(by_color.inputs.background, None);
        assert_eq!(by_color.scene.background, Background::Color(Color([255, 0, 0, 255])));
        let by_nothing = replace(&fields(&[])).expect("valid");
        assert_eq!(by_nothing.scene.background, Background::Color(Color::WHITE));
    }

    #[test]
    fn the_format_follows_the_background() {
        let format = |pairs: &[(&str, &str)]| replace(&fields(pairs)).expect("valid").encode.format;
        assert_eq!(format(&[]), OutputFormat::Png);
        assert_eq!(format(&[URL]), OutputFormat::Jpeg);
        assert_eq!(format(&[URL, ("format", "webp")]), OutputFormat::WebP);
        assert_eq!(format(&[("bg_color", "transparent")]), OutputFormat::Png);
    }

    #[test]
    fn the_colour_behind_a_transparent_picture_is_white_in_a_jpeg() {
        for (format, color, expected) in [
            ("jpg", "transparent", Color::WHITE),
            ("jpg", "#FF000080", Color([255, 127, 127, 255])),
            ("png", "transparent", Color::TRANSPARENT),
        ] {
            let recipe = replace(&fields(&[URL, ("bg_color", color), ("format", format)])).expect("valid");
            let Background::Picture { behind, .. } = recipe.scene.background else { panic!("a picture") };
            assert_eq!(behind, expected, "{format} {color}");
        }
    }

    #[test]
    fn a_jpeg_of_a_transparent_background_is_refused_with_the_reason() {
        let refused = replace(&fields(&[("bg_color", "transparent"), ("format", "jpg")])).expect_err("no alpha");
        assert_eq!(refused.param(), "format");
        assert!(refused.to_string().contains("`bg_color` is not opaque"), "{refused}");
    }
}
