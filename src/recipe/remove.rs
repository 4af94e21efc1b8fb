//! Fields and recipe of `/remove`, `/remove-url`, their batches and `/mask`: the subject on transparency, or its matte.

use super::params::{Group, fields};
use super::shared::{self, Common, Marks, UploadMarks, UrlMarks, assemble};
use super::values::choice;
use super::{AlphaOnly, CutoutFormat, EdgeChoice, FieldError, Fields, Kind, Picture, Recipe, Value, Work};
use crate::codec::Channels;
use crate::compose::Scene;
use crate::matting::Method;

fields! {
    struct RemoveFields {
        /// Format of the result; both have alpha.
        format: CutoutFormat = Some("png");
        /// `closed-form`: fine edges. `none`: faster, rougher.
        matting: Method = Some("closed-form");
        /// `soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products). `auto` selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1` for an opaque, sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply with a single picture says which.
        edge: EdgeChoice = Some("soft");
        /// `rgba` is the cutout, `alpha` its matte as 8-bit grey.
        channels: Channels = Some("rgba");
    }
}

/// Result of `/mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Matte,
    /// The clean mask before matting.
    Mask,
}

choice!(Stage { "matte" => Self::Matte, "mask" => Self::Mask });

fields! {
    struct MaskFields {
        /// Format of the result.
        format: CutoutFormat = Some("png");
        /// `closed-form`: fine edges. `none`: faster, rougher.
        matting: Method = Some("closed-form");
        /// `soft` keeps partial coverage (hair, fur); `hard` makes every pixel foreground or background (products). `auto` selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1` for an opaque, sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply with a single picture says which.
        edge: EdgeChoice = Some("soft");
        /// Always `alpha`: the matte.
        channels: AlphaOnly = Some("alpha");
        /// `matte` is the coverage of each pixel, as /remove has it; `mask` the clean mask before matting, to be shown, painted over and sent back as `mask_file`.
        stage: Stage = Some("matte");
    }
}

pub(super) const OF_MANY_PICTURES: &str = "A mask is of one picture: `mask_url` and `mask_mode` are refused.";

/// Uploads, and batches of them.
pub(super) type Upload = (RemoveFields, Common, UploadMarks);
/// Addresses, and batches of them.
pub(super) type Url = (RemoveFields, Common, UrlMarks);
/// The matte of an upload.
pub(super) type Mask = (MaskFields, Common, UploadMarks);

pub(super) fn upload(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Upload::read(fields)?;
    Ok(cutout(&own, &common, &marks))
}

pub(super) fn url(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Url::read(fields)?;
    Ok(cutout(&own, &common, &marks))
}

pub(super) fn mask(fields: &Fields) -> Result<Recipe, FieldError> {
    let (own, common, marks) = Mask::read(fields)?;
    let MaskFields { format, matting, edge, channels: _, stage } = own;
    let own = RemoveFields { format, matting, edge, channels: Some(Channels::Alpha) };
    let mut recipe = cutout(&own, &common, &marks);
    if let (Some(Stage::Mask), Work::Cut { picture, .. }) = (stage, &mut recipe.work) {
        *picture = Picture::CleanMask;
    }
    Ok(recipe)
}

impl Default for Recipe {
    /// The options of `/remove` without fields.
    fn default() -> Self {
        upload(&Fields::default()).expect("every field has a default")
    }
}

fn cutout(own: &RemoveFields, common: &Common, marks: &impl Marks) -> Recipe {
    let mut cut = shared::cut(common, marks);
    cut.matting.method = own.matting.unwrap_or_default();
    match own.edge {
        Some(EdgeChoice::Always(edge)) => cut.matting.edge = edge,
        Some(EdgeChoice::Auto) => cut.edge_by_kind = true,
        None => {}
    }
    let work = Work::Cut { cut, picture: Picture::Cutout };
    let mut recipe = assemble(work, common, marks, own.format.unwrap_or_default().0, Scene::default());
    shared::set_channels(&mut recipe, own.channels.unwrap_or_default());
    recipe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::PngEffort;
    use crate::compose::{Mark, Resize, Watermark};
    use crate::image::OutputFormat;
    use crate::matting::{self, Edge};
    use crate::recipe::tests::fields;

    #[test]
    fn every_field_reaches_the_recipe() {
        let recipe = upload(&fields(&[
            ("format", "webp"),
            ("quality", "7"),
            ("compression", "best"),
            ("matting", "none"),
            ("edge", "hard"),
            ("max_dim", "100"),
            ("width", "20"),
            ("height", "30"),
            ("channels", "rgba"),
            ("keep_alpha", "0"),
            ("despill", "40"),
            ("watermark", "https://example.org/w.png"),
            ("watermark_opacity", "0.25"),
            ("decontaminate", "true"),
        ]))
        .expect("all valid");
        assert_eq!(recipe.encode.format, OutputFormat::WebP);
        assert_eq!(recipe.encode.quality.get(), 7);
        assert_eq!(recipe.encode.png, PngEffort::Best);
        let matting = matting::Options {
            method: Method::None,
            edge: Edge::Hard,
            despill: 0.4,
            decontaminate: true,
            opaque: false,
            hair: None,
        };
        let cut = recipe.cut().expect("it cuts");
        assert_eq!(cut.matting, matting);
        assert_eq!(recipe.scene.resize, Resize { width: Some(20), height: Some(30), max_dim: Some(100) });
        assert_eq!(recipe.encode.channels, Channels::Rgba);
        assert!(!cut.keep_alpha);
        assert_eq!(recipe.scene.watermark, Some(Watermark { mark: Mark::Picture, opacity: 0.25 }));
        assert_eq!(recipe.inputs.mark.expect("an address").to_string(), "https://example.org/w.png");
    }

    #[test]
    fn the_edge_is_soft_hard_or_follows_the_outline() {
        let cut = |sent: &[(&str, &str)]| upload(&fields(sent)).expect("valid").cut().expect("it cuts").clone();
        let edge = |sent: &[(&str, &str)]| (cut(sent).matting.edge, cut(sent).edge_by_kind);
        assert_eq!(edge(&[]), (Edge::Soft, false));
        assert_eq!(edge(&[("edge", "Soft")]), (Edge::Soft, false));
        assert_eq!(edge(&[("edge", "hard")]), (Edge::Hard, false));
        assert_eq!(edge(&[("edge", "AUTO")]), (Edge::Soft, true));
    }

    #[test]
    fn a_matte_has_no_watermark() {
        let watermark = ("watermark", "https://example.org/w.png");
        for recipe in [upload(&fields(&[watermark, ("channels", "alpha")])), mask(&fields(&[watermark]))] {
            let recipe = recipe.expect("all valid");
            assert_eq!(recipe.encode.channels, Channels::Alpha);
            assert!(recipe.scene.watermark.is_none() && recipe.inputs.mark.is_none());
        }
    }

    #[test]
    fn a_watermark_is_text_where_the_body_is_json() {
        let recipe = url(&fields(&[("watermark", "© us"), ("despill", "1")])).expect("all valid");
        assert_eq!(recipe.scene.watermark, Some(Watermark { mark: Mark::Text("© us".into()), opacity: 0.5 }));
        assert_eq!(recipe.inputs.mark, None);
        assert!((recipe.cut().expect("it cuts").matting.despill - 0.01).abs() < 1e-6);
    }

    #[test]
    fn the_watermark_of_a_preset_is_equal_at_every_endpoint() {
        let long = format!("https://example.org/{}.png", "w".repeat(300));
        for (stored, is_picture) in [
            ("https://example.org/w.png", true),
            ("HTTPS://EXAMPLE.ORG/w.png", true),
            (long.as_str(), true),
            ("© us", false),
            ("example.org", false),
        ] {
            let merged = || fields(&[("watermark_opacity", "0.25")]).over(&fields(&[("watermark", stored)]));
            let (upload, url) = (upload(&merged()).expect(stored), url(&merged()).expect(stored));
            assert_eq!(upload.scene.watermark, url.scene.watermark, "{stored}");
            assert_eq!(upload.inputs.mark, url.inputs.mark, "{stored}");
            let mark = if is_picture { Mark::Picture } else { Mark::Text(stored.to_owned()) };
            assert_eq!(url.scene.watermark, Some(Watermark { mark, opacity: 0.25 }));
            assert_eq!(url.inputs.mark.is_some(), is_picture, "{stored}");
        }
        let plain = Fields::default().over(&fields(&[("watermark", "http://example.org/w.png")]));
        assert_eq!(upload(&plain).expect_err("it is not https").param(), "watermark");
        assert!(url(&plain).is_ok(), "it was text there before");
    }

    #[test]
    fn a_sent_watermark_overrides_the_preset_and_is_read_by_its_endpoint() {
        let (text, address) = ([("watermark", "© us")], [("watermark", "https://example.org/w.png")]);
        let by_url = url(&fields(&address).over(&fields(&text))).expect("valid");
        assert_eq!(by_url.scene.watermark.map(|it| it.mark), Some(Mark::Text("https://example.org/w.png".into())));
        let by_upload = upload(&fields(&address).over(&fields(&text))).expect("valid");
        assert_eq!(by_upload.scene.watermark.map(|it| it.mark), Some(Mark::Picture));
        assert_eq!(upload(&fields(&text)).expect_err("no address").param(), "watermark");
    }

    #[test]
    fn a_bad_value_is_reported_with_the_expected_values() {
        let message = |name, value| upload(&fields(&[(name, value)])).expect_err(name).to_string();
        assert_eq!(message("edge", "fuzzy"), r#"invalid `edge`: "fuzzy" (expected soft, hard or auto)"#);
        assert_eq!(
            message("format", "jpg"),
            r#"invalid `format`: "jpg" (expected png or webp, because the result needs alpha)"#
        );
        assert_eq!(message("width", "8193"), r#"invalid `width`: "8193" (expected an integer from 1 to 8192)"#);
        assert_eq!(message("keep_alpha", "maybe"), r#"invalid `keep_alpha`: "maybe" (expected true or false)"#);
        assert_eq!(
            mask(&fields(&[("channels", "rgba")])).expect_err("a mask in colour").to_string(),
            r#"invalid `channels`: "rgba" (expected alpha, because this endpoint answers the matte alone)"#
        );
    }

    #[test]
    fn the_mask_is_remove_with_the_alpha_channel() {
        let sent = [("edge", "hard"), ("width", "64")];
        let mask = mask(&fields(&sent)).expect("mask");
        let remove = upload(&fields(&[sent[0], sent[1], ("channels", "alpha")])).expect("remove");
        assert_eq!(format!("{mask:?}"), format!("{remove:?}"));
    }
}
