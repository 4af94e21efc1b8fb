//! Fields and recipe of the drop-in routes (remove.bg, rembg, Photoroom): region, crop margins, scale, position, pixel limit.
//!
//! `http::compat` translates the wire formats of those services into these fields; no route takes them directly.

use super::endpoint::{Endpoint, Input};
use super::params::{Group, Origin, fields};
use super::region::{Region, lengths, share};
use super::shared::{self, Common, UploadMarks, assemble};
use super::studio_shot::SHADOW;
use super::{BG_FILE, FieldError, Fields, Flag, Kind, Picture, Recipe, Source, TextSpec, Value, Whole, Work};
use crate::codec::Channels;
use crate::compose::{Background, Fit, Framing, Length, Margins, Placement, Scene};
use crate::image::color::Color;
use crate::image::{OutputFormat, SourceUrl};
use crate::matting::Method;
use std::sync::LazyLock;

fields! {
    struct DropInFields {
        /// Format of the result; without a background a `jpg` is on white.
        format: OutputFormat = Some("png");
        /// `rgba` is the picture, `alpha` its matte as 8-bit grey.
        channels: Channels = Some("rgba");
        /// `closed-form`: fine edges. `none`: faster, rougher.
        matting: Method = Some("closed-form");
        /// Colour of the background.
        bg_color: Color = Some("transparent");
        /// Address of a background picture.
        bg_url: SourceUrl = None;
        /// Pixels of the result at most; a larger one is scaled down.
        max_pixels: Whole<1, { u32::MAX }> = None;
        /// Region of the source that holds the subject; everything outside is background.
        roi: Region = None;
        /// Crops the result to the subject.
        crop: Flag = Some("false");
        /// Room around a cropped subject: 1, 2 (vertical, horizontal) or 4 (top, right, bottom, left) lengths.
        crop_margin: Margins = None;
        /// Share of the canvas that the subject fills.
        scale: SubjectScale = None;
        /// Position of the subject; its default is where it is, or the middle with `scale`.
        position: Position = None;
        /// A soft shadow.
        add_shadow: Flag = Some("false");
        /// Detects faces, to classify the subject.
        classify: Flag = Some("false");
    }
}

type DropIn = (DropInFields, Common, UploadMarks);

/// The subject on transparency or a colour, billed as `/remove`.
pub static DROP_IN: LazyLock<Endpoint> = LazyLock::new(|| endpoint("/remove", Input::File));

/// The subject on a background picture, billed as `/replace-bg`.
pub static DROP_IN_BACKGROUND: LazyLock<Endpoint> = LazyLock::new(|| endpoint("/replace-bg", Input::FileAndBackground));

fn endpoint(path: &'static str, input: Input) -> Endpoint {
    let about = "A cutout as another service's wire format describes it.";
    Endpoint::internal(path, Origin::Extension, about, input, DropIn::table(), recipe)
}

fn recipe(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = DropIn::read(fields)?;
    let is = |flag: Option<Flag>| flag.is_some_and(|Flag(yes)| yes);
    let format = own.format.unwrap_or(OutputFormat::Png);
    let channels = own.channels.unwrap_or_default();
    let source = if fields.has_file(BG_FILE) { Some(Source::Attached) } else { own.bg_url.map(Source::Url) };
    let color = own.bg_color.unwrap_or(Color::TRANSPARENT);
    // A JPEG has no alpha: a translucent colour is composited on white.
    let color =
        if format == OutputFormat::Jpeg && channels == Channels::Rgba { shared::on_white(color) } else { color };
    let background = match source {
        Some(_) => Background::Picture { fit: Fit::Cover, behind: Color::WHITE },
        None if color == Color::TRANSPARENT => Background::Clear,
        None => Background::Color(color),
    };
    let crop = is(own.crop).then(|| own.crop_margin.unwrap_or(Margins::NONE));
    let scale = own.scale.map(|SubjectScale(share)| share);
    let position = match own.position {
        Some(Position(position)) => position,
        None => scale.map(|_| (0.5, 0.5)),
    };
    let framing = match (crop, scale, position) {
        (None, None, None) => Framing::Whole,
        (crop, scale, position) => Framing::Placed(Placement { crop, scale, position }),
    };
    let mut cut = shared::cut(&common, &marks);
    cut.matting.method = own.matting.unwrap_or_default();
    cut.region = own.roi;
    let picture = if is(own.classify) { Picture::Classified } else { Picture::Cutout };
    let scene = Scene {
        framing,
        background: if channels == Channels::Alpha { Background::Clear } else { background },
        shadow: (is(own.add_shadow) && channels == Channels::Rgba).then_some(SHADOW),
        max_pixels: own.max_pixels.map(Whole::get),
        ..Scene::default()
    };
    let mut recipe = assemble(Work::Cut { cut, picture }, &common, &marks, format, scene);
    shared::set_channels(&mut recipe, channels);
    recipe.inputs.background = source.filter(|_| channels == Channels::Rgba);
    Ok(recipe)
}

/// The share of the canvas that a subject fills: 10 to 100 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SubjectScale(f32);

/// Position of the subject as shares of the canvas; `None` keeps its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position(Option<(f32, f32)>);

impl Value for Margins {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "1, 2 or 4 lengths such as 30px or 10%, each at most 50% or 500px",
        pattern: None,
        max_length: 64,
        examples: &["0", "10%", "10px 30px", "10% 20% 5% 0"],
    });

    fn parse(text: &str) -> Option<Self> {
        let all = lengths(text)?;
        let is_short = |length: &Length| match *length {
            Length::Pixels(pixels) => pixels <= 500,
            Length::Share(share) => share <= 0.5,
        };
        if !all.iter().all(is_short) {
            return None;
        }
        match all[..] {
            [all] => Some(Self { top: all, right: all, bottom: all, left: all }),
            [vertical, horizontal] => {
                Some(Self { top: vertical, right: horizontal, bottom: vertical, left: horizontal })
            }
            [top, right, bottom, left] => Some(Self { top, right, bottom, left }),
            _ => None,
        }
    }
}

impl Value for SubjectScale {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "a share from 10% to 100%",
        pattern: None,
        max_length: 16,
        examples: &["50%"],
    });

    fn parse(text: &str) -> Option<Self> {
        share(text).filter(|share| *share >= 0.1).map(Self)
    }
}

impl Value for Position {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "original, center, or one or two percentages such as 50% 20%",
        pattern: None,
        max_length: 32,
        examples: &["original", "center", "20%", "50% 20%"],
    });

    fn parse(text: &str) -> Option<Self> {
        match text {
            "original" => return Some(Self(None)),
            "center" => return Some(Self(Some((0.5, 0.5)))),
            _ => {}
        }
        let shares: Option<Vec<_>> = text.split_ascii_whitespace().map(share).collect();
        match shares?[..] {
            [both] => Some(Self(Some((both, both)))),
            [x, y] => Some(Self(Some((x, y)))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    fn made(pairs: &[(&str, &str)]) -> Recipe {
        DROP_IN.recipe(&fields(pairs)).expect("valid")
    }

    #[test]
    fn without_fields_the_recipe_equals_remove() {
        assert_eq!(format!("{:?}", made(&[])), format!("{:?}", Recipe::default()));
    }

    #[test]
    fn a_jpeg_is_on_white_and_a_matte_has_no_background() {
        let background = |pairs: &[(&str, &str)]| made(pairs).scene.background;
        assert_eq!(background(&[("format", "jpg")]), Background::Color(Color::WHITE));
        assert_eq!(
            background(&[("format", "jpg"), ("bg_color", "#00000080")]),
            Background::Color(Color([127, 127, 127, 255]))
        );
        assert_eq!(background(&[("bg_color", "#00000080")]), Background::Color(Color([0, 0, 0, 128])));
        let matte = made(&[("channels", "alpha"), ("bg_color", "red"), ("add_shadow", "true")]);
        assert_eq!((matte.scene.background, matte.scene.shadow), (Background::Clear, None));
        assert_eq!(made(&[("add_shadow", "true")]).scene.shadow, Some(SHADOW));
    }

    #[test]
    fn scale_puts_the_subject_in_the_middle_unless_a_position_is_sent() {
        let placed = |pairs: &[(&str, &str)]| {
            let framing = made(pairs).scene.framing;
            let Framing::Placed(placement) = framing else { panic!("{framing:?}") };
            placement
        };
        assert_eq!(placed(&[("scale", "50%")]).position, Some((0.5, 0.5)));
        assert_eq!(placed(&[("scale", "50%"), ("position", "original")]).position, None);
        assert_eq!(placed(&[("position", "10% 90%")]).position, Some((0.1, 0.9)));
        assert_eq!(placed(&[("crop", "true")]).crop, Some(Margins::NONE));
        assert_eq!(made(&[("position", "original"), ("crop_margin", "10%")]).scene.framing, Framing::Whole);
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (name, values) in [
            ("roi", &["0 0 10", "0 0 10 101%", "-1 0 10 10"][..]),
            ("crop_margin", &["51%", "501", "1 2 3"]),
            ("scale", &["9%", "101%", "50", "NaN%"]),
            ("position", &["left", "10px", "1% 2% 3%"]),
        ] {
            for &value in values {
                let sent = fields(&[("crop", "true"), (name, value)]);
                assert_eq!(DROP_IN.recipe(&sent).expect_err(value).param(), name, "{value}");
            }
        }
    }
}
