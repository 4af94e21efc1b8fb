//! Fields and recipe of `/studio-shot`: the subject centred on a plain canvas, with a soft shadow.

use super::params::{Group, fields};
use super::shared::{Common, UploadMarks, composed, needs_alpha};
use super::{Blur, EnhanceStrength, FieldError, Fields, Flag, Recipe, RgbaOnly};
use crate::compose::{Anchor, Aspect, Background, Enhance, Framing, Padding, Resize, Scene, Shadow};
use crate::image::OutputFormat;
use crate::image::color::Color;

pub(super) const DESCRIPTION: &str = "\
The shadow is black, of 35 % opacity, 8 pixels to the right and 12 down, and blurred with a standard deviation of 10 pixels; it is
mixed with the background in encoded (sRGB) values. A step of `bg_blur` is a standard deviation of 0.05 % of the picture's longer side.";

fields! {
    struct StudioFields {
        /// Colour of the background.
        bg_color: Color = Some("#FFFFFF");
        /// Padding on each side of the subject: pixels of the result, or a percentage of its side.
        padding: Padding = Some("10%");
        /// Adds a soft shadow below the subject.
        shadow: Flag = Some("true");
        /// Blur strength, 2 to 100; keeps the photo's own background. `true` and 1 mean 50.
        bg_blur: Blur = Some("false");
        /// Keeps the background transparent; `bg_color`, `bg_blur` and `shadow` then have no effect, and a `jpg` becomes a PNG.
        transparent: Flag = Some("false");
        /// Aspect ratio of the result, width to height. Default: the ratio of `width` and `height` if both are sent.
        aspect: Aspect = Some("1:1");
        /// Placement of a subject that the photo's border cuts off: `center` has padding on all sides; `auto` puts each cut side against the same border of the canvas, without padding there. Where opposite sides are cut, both touch if the aspect ratio allows it, else the side with the longer cut.
        anchor: Anchor = Some("center");
        /// Raises brightness and saturation of the subject slightly.
        enhance: Flag = Some("false");
        /// Strength of `enhance`, when it is on.
        enhance_strength: EnhanceStrength = Some("0.15");
        /// Format of the result.
        format: OutputFormat = Some("jpg");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) type Studio = (StudioFields, Common, UploadMarks);

/// The shadow of the interface specification. Its σ equals the default of `/shadow`.
pub(super) const SHADOW: Shadow = Shadow { color: Color::BLACK, opacity: 0.35, dx: 8.0, dy: 12.0, sigma: 10.0 };

const PADDING: Padding = Padding::Share(0.1);

/// The scene of a studio shot on a plain colour, with defaults otherwise.
pub(super) fn plain(color: Color, aspect: Option<Aspect>) -> Scene {
    Scene {
        framing: Framing::Padded { aspect, padding: PADDING },
        background: Background::Color(color),
        shadow: Some(SHADOW),
        ..Scene::default()
    }
}

pub(super) fn studio(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Studio::read(fields)?;
    let is = |flag: Option<Flag>| flag.map(|Flag(yes)| yes);
    let color = own.bg_color.unwrap_or(Color::WHITE);
    let padding = own.padding.unwrap_or(PADDING);
    let resize = common.resize();
    if let Padding::Pixels(pixels) = padding
        && shorter_side(&resize, own.aspect).is_some_and(|side| u64::from(pixels) * 2 >= u64::from(side))
    {
        let expected = "less than half of the result's shorter side, so that the subject has room";
        return Err(FieldError::invalid("padding", fields.get("padding").unwrap_or_default(), expected));
    }
    let transparent = is(own.transparent).unwrap_or(false);
    let format = own.format.unwrap_or(OutputFormat::Jpeg);
    let (background, format) = match own.bg_blur {
        _ if transparent => (Background::Clear, if format == OutputFormat::Jpeg { OutputFormat::Png } else { format }),
        _ if format == OutputFormat::Jpeg && !color.is_opaque() => {
            return Err(needs_alpha(format.name(), "`bg_color` is not opaque"));
        }
        Some(Blur(Some(intensity))) => (Background::Blurred { intensity, behind: color }, format),
        Some(Blur(None)) | None => (Background::Color(color), format),
    };
    let scene = Scene {
        framing: Framing::Padded { aspect: own.aspect, padding },
        anchor: own.anchor.unwrap_or_default(),
        background,
        shadow: (is(own.shadow).unwrap_or(true) && !transparent).then_some(SHADOW),
        enhance: is(own.enhance).unwrap_or(false).then(|| Enhance(own.enhance_strength.map_or(0.15, |lift| lift.0))),
        ..Scene::default()
    };
    Ok(composed(&common, &marks, format, scene))
}

/// The shorter side of the largest canvas of these sizes; `None` if it depends on the subject.
fn shorter_side(resize: &Resize, aspect: Option<Aspect>) -> Option<u32> {
    let aspect = aspect.unwrap_or(Aspect::SQUARE);
    let across = |width: u32| (f64::from(width) * f64::from(aspect.height()) / f64::from(aspect.width())) as u32;
    let along = |height: u32| (f64::from(height) * f64::from(aspect.width()) / f64::from(aspect.height())) as u32;
    let sides = match (resize.width, resize.height) {
        (Some(width), Some(height)) => Some((width, height)),
        (Some(width), None) => Some((width, across(width))),
        (None, Some(height)) => Some((along(height), height)),
        (None, None) => None,
    };
    let clamped = |max: u32| match sides {
        Some((width, height)) if width.max(height) <= max => (width, height),
        Some((width, height)) => {
            let scale = f64::from(max) / f64::from(width.max(height));
            ((f64::from(width) * scale) as u32, (f64::from(height) * scale) as u32)
        }
        None if aspect.width() >= aspect.height() => (max, across(max)),
        None => (along(max), max),
    };
    resize.max_dim.map(clamped).or(sides).map(|(width, height)| width.min(height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    fn recipe(pairs: &[(&str, &str)]) -> Recipe {
        studio(&fields(pairs)).expect("valid")
    }

    #[test]
    fn transparent_ignores_colour_and_shadow_and_makes_a_jpeg_a_png() {
        let clear = recipe(&[("transparent", "true"), ("format", "jpg"), ("bg_color", "red"), ("bg_blur", "50")]);
        assert_eq!(clear.encode.format, OutputFormat::Png);
        assert_eq!((clear.scene.background, clear.scene.shadow), (Background::Clear, None));
        assert_eq!(recipe(&[("transparent", "1"), ("format", "webp")]).encode.format, OutputFormat::WebP);
    }

    #[test]
    fn a_blur_of_one_means_true() {
        let background = |blur| recipe(&[("bg_blur", blur)]).scene.background;
        assert_eq!(background("1"), background("true"));
        assert_eq!(background("2"), Background::Blurred { intensity: 2, behind: Color::WHITE });
        assert_eq!(background("0"), Background::Color(Color::WHITE));
    }

    #[test]
    fn enhance_has_its_strength_only_when_it_is_on() {
        assert_eq!(recipe(&[("enhance_strength", "0.4")]).scene.enhance, None);
        assert_eq!(recipe(&[("enhance", "true")]).scene.enhance, Some(Enhance(0.15)));
        assert_eq!(recipe(&[("enhance", "true"), ("enhance_strength", "0")]).scene.enhance, Some(Enhance(0.0)));
    }

    #[test]
    fn padding_that_leaves_no_room_for_the_subject_is_refused() {
        let padding = |pairs: &[(&str, &str)]| studio(&fields(pairs)).map_err(|error| error.param().to_owned());
        for (pairs, fits) in [
            (&[("padding", "49"), ("width", "100")][..], true),
            (&[("padding", "50"), ("width", "100")], false),
            (&[("padding", "40"), ("width", "100"), ("height", "80")], false),
            (&[("padding", "39"), ("width", "100"), ("height", "80")], true),
            (&[("padding", "50"), ("width", "100"), ("aspect", "1:2")], false),
            (&[("padding", "50"), ("height", "101"), ("aspect", "1:1")], true),
            (&[("padding", "50"), ("max_dim", "100")], false),
            (&[("padding", "30"), ("max_dim", "100"), ("aspect", "2:1")], false),
            (&[("padding", "4000")], true),
        ] {
            match padding(pairs) {
                Ok(_) => assert!(fits, "{pairs:?}"),
                Err(param) => assert!(!fits && param == "padding", "{pairs:?}"),
            }
        }
    }
}
