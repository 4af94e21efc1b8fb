//! Fields and recipe of `/sticker`: the cutout with an outline.

use super::params::{Group, fields};
use super::shared::{Common, UploadMarks, composed};
use super::{CutoutFormat, FieldError, Fields, PaddingPx, Recipe, RgbaOnly, Whole};
use crate::compose::{Anchor, Framing, Outline, Scene};
use crate::image::color::Color;

fields! {
    struct StickerFields {
        /// Width of the outline in pixels of the source. 0 draws no outline; the result then equals `/remove` unless `padding` is sent.
        stroke_width: Whole<0, 100> = Some("16");
        /// Colour of the outline.
        stroke_color: Color = Some("#FFFFFF");
        /// Transparent padding around the outlined subject in pixels of the source.
        padding: PaddingPx = Some("32");
        /// Placement of a subject that the photo's border cuts off: `center` has outline and padding on all sides; `auto` puts each cut side against the same border of the canvas, without outline and padding there. Where opposite sides are cut, both touch if `width` and `height` allow it, else the side with the longer cut.
        anchor: Anchor = Some("center");
        /// Format of the result.
        format: CutoutFormat = Some("png");
        /// Always `rgba`: the picture.
        channels: RgbaOnly = Some("rgba");
    }
}

pub(super) type Sticker = (StickerFields, Common, UploadMarks);

pub(super) fn sticker(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Sticker::read(fields)?;
    let color = own.stroke_color.unwrap_or(Color::WHITE);
    if !color.is_opaque() {
        let value = fields.get("stroke_color").unwrap_or_default();
        return Err(FieldError::invalid("stroke_color", value, "an opaque colour"));
    }
    let width = own.stroke_width.map_or(16, Whole::get);
    let outline = (width > 0).then_some(Outline { color, width: width as f32 });
    let framing = match (outline, own.padding) {
        (None, None) => Framing::Whole,
        (Some(_), padding) | (None, padding @ Some(_)) => {
            Framing::Trimmed { padding: padding.map_or(32, PaddingPx::get) }
        }
    };
    let scene = Scene { framing, anchor: own.anchor.unwrap_or_default(), outline, ..Scene::default() };
    Ok(composed(&common, &marks, own.format.unwrap_or_default().0, scene))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    #[test]
    fn no_stroke_equals_remove_unless_padding_is_sent() {
        let framing = |pairs: &[(&str, &str)]| sticker(&fields(pairs)).expect("valid").scene.framing;
        assert_eq!(framing(&[]), Framing::Trimmed { padding: 32 });
        assert_eq!(framing(&[("stroke_width", "0")]), Framing::Whole);
        assert_eq!(framing(&[("stroke_width", "0"), ("padding", "4")]), Framing::Trimmed { padding: 4 });
        assert_eq!(sticker(&fields(&[("stroke_width", "0")])).expect("valid").scene.outline, None);
    }

    #[test]
    fn a_translucent_stroke_is_refused() {
        let refused = sticker(&fields(&[("stroke_color", "#ffffff80")])).expect_err("not opaque");
        assert_eq!(refused.param(), "stroke_color");
    }
}
