//! Fields and recipe of `/shadow`: the cutout with a drop shadow.

use super::params::{Group, fields};
use super::shared::{Common, UploadMarks, composed, needs_alpha};
use super::{FieldError, Fields, Fraction, Recipe, RgbaOnly, Whole};
use crate::compose::{Anchor, Background, Framing, Scene, Shadow};
use crate::image::OutputFormat;
use crate::image::color::Color;

fields! {
    struct ShadowFields {
        /// Direction in which the shadow falls, in degrees: 0 to the right, 90 downwards.
        angle: Whole<0, 360> = Some("135");
        /// Blur radius of the shadow in pixels: twice the standard deviation (σ) of its Gaussian, as the blur radius of a CSS `box-shadow`. 20 is a σ of 10 pixels.
        blur: Whole<0, 100> = Some("20");
        /// Opacity of the shadow. It is mixed with the background in encoded (sRGB) values: 0.4 of black on white is 153.
        opacity: Fraction = Some("0.4");
        /// Colour of the shadow.
        color: Color = Some("#000000");
        /// Distance of the shadow from the subject in pixels.
        offset: Whole<0, 1000> = Some("12");
        /// Canvas of a subject that the photo's border cuts off: with `center` it grows wherever the shadow leaves it; with `auto` it ends at each border of the photo that cuts the subject off.
        anchor: Anchor = Some("center");
        /// Colour of the background.
        bg_color: Color = Some("transparent");
        /// Format of the result; `jpg` needs an opaque `bg_color`.
        format: OutputFormat = Some("png");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) type Cast = (ShadowFields, Common, UploadMarks);

pub(super) fn cast(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Cast::read(fields)?;
    let format = own.format.unwrap_or(OutputFormat::Png);
    let ground = own.bg_color.unwrap_or(Color::TRANSPARENT);
    if format == OutputFormat::Jpeg && !ground.is_opaque() {
        return Err(needs_alpha(format.name(), "`bg_color` is not opaque"));
    }
    let offset = own.offset.map_or(12, Whole::get) as f32;
    let (dx, dy) = direction(own.angle.map_or(135, Whole::get));
    let color = own.color.unwrap_or(Color::BLACK);
    let shadow = Shadow {
        color,
        opacity: own.opacity.map_or(0.4, |Fraction(opacity)| opacity) * f32::from(color.0[3]) / 255.0,
        dx: dx * offset,
        dy: dy * offset,
        sigma: own.blur.map_or(20, Whole::get) as f32 / 2.0,
    };
    let background = Background::Color(ground);
    let anchor = own.anchor.unwrap_or_default();
    let scene = Scene { framing: Framing::Expanded, anchor, background, shadow: Some(shadow), ..Scene::default() };
    Ok(composed(&common, &marks, format, scene))
}

/// Cosine and sine, exact at multiples of 90°, so that a shadow straight down has no sideways offset.
fn direction(degrees: u32) -> (f32, f32) {
    match degrees % 360 {
        0 => (1.0, 0.0),
        90 => (0.0, 1.0),
        180 => (-1.0, 0.0),
        270 => (0.0, -1.0),
        other => {
            let (sine, cosine) = f64::from(other).to_radians().sin_cos();
            (cosine as f32, sine as f32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    fn shadow(pairs: &[(&str, &str)]) -> Shadow {
        cast(&fields(pairs)).expect("valid").scene.shadow.expect("always one")
    }

    #[test]
    fn the_angle_turns_clockwise_from_the_right() {
        for (angle, expected) in [
            ("0", (12.0, 0.0)),
            ("90", (0.0, 12.0)),
            ("180", (-12.0, 0.0)),
            ("270", (0.0, -12.0)),
            ("360", (12.0, 0.0)),
        ] {
            let shadow = shadow(&[("angle", angle)]);
            assert_eq!((shadow.dx, shadow.dy), expected, "{angle}");
        }
        let usual = shadow(&[]);
        assert!((usual.dx + 8.485).abs() < 1e-3 && (usual.dy - 8.485).abs() < 1e-3, "{usual:?}");
        assert_eq!((usual.sigma, usual.opacity), (10.0, 0.4));
        assert_eq!(shadow(&[("blur", "7")]).sigma, 3.5, "half the blur");
    }

    #[test]
    fn a_jpeg_needs_an_opaque_background() {
        assert_eq!(cast(&fields(&[("format", "jpg")])).expect_err("no alpha").param(), "format");
        let white = cast(&fields(&[("format", "jpg"), ("bg_color", "white")])).expect("opaque");
        assert_eq!(white.encode.format, OutputFormat::Jpeg);
    }
}
