//! `POST /mask`: the matte alone; `/remove` with `channels=alpha`.

use super::params::params;
use super::{AlphaOnly, CutoutFormat, Flag, RemoveParams, Side};
use crate::codec::Channels;
use crate::image::Quality;
use crate::matting::{Edge, Method};

params! {
    /// What `/mask` takes.
    pub struct MaskParams {
        /// Format of the result.
        Extension format: CutoutFormat = Some("png");
        /// WebP quality; 100 is lossless. Ignored by PNG.
        Extension quality: Quality = Some("92");
        /// How the edge is found: `closed-form` solves the undecided pixels, `none` keeps the network's mask.
        Extension matting: Method = Some("closed-form");
        /// `soft` keeps partial coverage (hair, fur); `hard` decides every pixel (products).
        Extension edge: Edge = Some("soft");
        /// Longest side of the result in pixels; never enlarges.
        Extension max_dim: Side = None;
        /// Exact width in pixels; alone it keeps the aspect, with `height` it makes an exact box.
        Extension width: Side = None;
        /// Exact height in pixels; alone it keeps the aspect.
        Extension height: Side = None;
        /// Always the matte.
        Extension channels: AlphaOnly = Some("alpha");
        /// An input that already has real transparency keeps it as its matte.
        Extension keep_alpha: Flag = Some("true");
    }
    resolve(self) {
        let Self { format, quality, matting, edge, max_dim, width, height, channels: _, keep_alpha } = self;
        let channels = Some(Channels::Alpha);
        crate::recipe::Params::resolve(RemoveParams {
            format,
            quality,
            matting,
            edge,
            max_dim,
            width,
            height,
            channels,
            keep_alpha,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Fields, Params};

    #[test]
    fn the_mask_is_remove_with_the_alpha_channel() {
        let mut fields = Fields::default();
        fields.push("edge", "hard").expect("edge");
        fields.push("width", "64").expect("width");
        let mask = MaskParams::from_fields(&fields).expect("mask").resolve();
        fields.push("channels", "alpha").expect("channels");
        let remove = RemoveParams::from_fields(&fields).expect("remove").resolve();
        assert_eq!(format!("{mask:?}"), format!("{remove:?}"));
        assert_eq!(
            MaskParams::FIELDS.iter().map(|field| field.name).collect::<Vec<_>>(),
            RemoveParams::FIELDS.iter().map(|field| field.name).collect::<Vec<_>>(),
        );
    }

    #[test]
    fn a_mask_in_colour_is_refused_with_the_reason() {
        let mut fields = Fields::default();
        fields.push("channels", "rgba").expect("channels");
        let message = MaskParams::from_fields(&fields).expect_err("rgba").to_string();
        assert_eq!(
            message,
            r#"invalid `channels`: "rgba" (expected alpha, because this endpoint answers the matte alone)"#
        );
    }
}
