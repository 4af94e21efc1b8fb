//! `POST /remove`: the subject on transparency.

use super::params::params;
use super::{CutoutFormat, Flag, Recipe, Side};
use crate::codec::{Channels, EncodeOptions, PngEffort};
use crate::compose::{Resize, Scene};
use crate::image::Quality;
use crate::matting::{self, Edge, Method};

params! {
    /// What `/remove` takes.
    pub struct RemoveParams {
        /// Format of the result; both have alpha.
        Specification format: CutoutFormat = Some("png");
        /// WebP quality; 100 is lossless. Ignored by PNG.
        Specification quality: Quality = Some("92");
        /// How the edge is found: `closed-form` solves the undecided pixels, `none` keeps the network's mask.
        Specification matting: Method = Some("closed-form");
        /// `soft` keeps partial transparency (hair, fur); `hard` decides every pixel (products).
        Specification edge: Edge = Some("soft");
        /// Longest side of the result in pixels; never enlarges.
        Specification max_dim: Side = None;
        /// Exact width in pixels; alone it keeps the aspect, with `height` it makes an exact box.
        Specification width: Side = None;
        /// Exact height in pixels; alone it keeps the aspect.
        Specification height: Side = None;
        /// `rgba` is the cutout, `alpha` its matte as 8-bit grey.
        Extension channels: Channels = Some("rgba");
        /// An input that already has real transparency keeps it as its matte.
        Extension keep_alpha: Flag = Some("true");
    }
    resolve(self) {
        Recipe {
            matting: matting::Options {
                method: self.matting.unwrap_or_default(),
                edge: self.edge.unwrap_or_default(),
            },
            scene: Scene {
                resize: Resize {
                    width: self.width.map(Side::get),
                    height: self.height.map(Side::get),
                    max_dim: self.max_dim.map(Side::get),
                },
                ..Scene::default()
            },
            encode: EncodeOptions {
                format: self.format.unwrap_or_default().0,
                quality: self.quality.unwrap_or_default(),
                png: PngEffort::default(),
                channels: self.channels.unwrap_or_default(),
            },
            keep_alpha: self.keep_alpha.is_none_or(|Flag(yes)| yes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::OutputFormat;
    use crate::recipe::{FieldError, Fields, Params};

    fn recipe(pairs: &[(&str, &str)]) -> Result<Recipe, FieldError> {
        let mut fields = Fields::default();
        for (name, value) in pairs {
            fields.push(name, value)?;
        }
        Ok(RemoveParams::from_fields(&fields)?.resolve())
    }

    #[test]
    fn every_documented_default_is_what_an_empty_request_gets() {
        let empty = format!("{:?}", recipe(&[]).expect("no fields"));
        let defaults: Vec<_> =
            RemoveParams::FIELDS.iter().filter_map(|field| field.default.map(|text| (field.name, text))).collect();
        assert!(!defaults.is_empty());
        for &(name, text) in &defaults {
            assert_eq!(format!("{:?}", recipe(&[(name, text)]).expect(name)), empty, "{name}={text}");
        }
        assert_eq!(format!("{:?}", recipe(&defaults).expect("all defaults")), empty);
    }

    #[test]
    fn every_field_reaches_the_recipe() {
        let recipe = recipe(&[
            ("format", "webp"),
            ("quality", "7"),
            ("matting", "none"),
            ("edge", "hard"),
            ("max_dim", "100"),
            ("width", "20"),
            ("height", "30"),
            ("channels", "alpha"),
            ("keep_alpha", "0"),
        ])
        .expect("all valid");
        assert_eq!(recipe.encode.format, OutputFormat::WebP);
        assert_eq!(recipe.encode.quality.get(), 7);
        assert_eq!(recipe.matting.method, Method::None);
        assert_eq!(recipe.matting.edge, Edge::Hard);
        assert_eq!(recipe.scene.resize, Resize { width: Some(20), height: Some(30), max_dim: Some(100) });
        assert_eq!(recipe.encode.channels, Channels::Alpha);
        assert!(!recipe.keep_alpha);
    }

    #[test]
    fn a_bad_value_is_named_together_with_what_was_expected() {
        let message = |name, value| recipe(&[(name, value)]).expect_err(name).to_string();
        assert_eq!(message("edge", "fuzzy"), r#"invalid `edge`: "fuzzy" (expected soft or hard)"#);
        assert_eq!(
            message("format", "jpg"),
            r#"invalid `format`: "jpg" (expected png or webp, because the result needs alpha)"#
        );
        assert_eq!(message("width", "8193"), r#"invalid `width`: "8193" (expected an integer from 1 to 8192)"#);
        assert_eq!(message("keep_alpha", ""), r#"invalid `keep_alpha`: "" (expected true or false)"#);
        assert_eq!(message("egde", "soft"), "unknown field `egde`");
    }
}
