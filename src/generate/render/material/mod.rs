//! Procedural material albedo with relief shading, per span of texture coordinates.

mod cloth;
mod masonry;
mod metal;
mod stone;
mod terrain;
mod wood;

use super::span::{RgbSpan, TexCoords, per_pixel};
use crate::generate::linear_rgb::{Rgb, luminance, mix, scaled, srgb};
use crate::generate::surface::{Material, Surface};

/// Input of every material shader: surface, texture coordinates, light direction along the surface (x right, y away).
pub(super) struct ShadingInput<'a> {
    pub(super) surface: &'a Surface,
    pub(super) at: &'a TexCoords,
    pub(super) light: [f32; 2],
    /// Row of the picture, and pixel size.
    pub(super) row: f32,
    pub(super) step: f32,
}

impl ShadingInput<'_> {
    /// A seed for the `index`th noise of this surface.
    fn seed(&self, index: u32) -> u32 {
        self.surface.seed.wrapping_add(index.wrapping_mul(0x9E37_79B9))
    }

    /// The surface's colour, or the material's default `own`, with the surface's tone applied.
    fn base(&self, own: u32) -> Rgb {
        toned(self.surface.color.unwrap_or_else(|| srgb(own)), self.surface.tone)
    }

    /// Single-colour material modulated by low-frequency noise, grain and relief.
    fn even(&self, own: u32, even: &Even) -> RgbSpan {
        let base = self.base(own);
        let clouds = self.at.fbm([even.cloud_scale; 2], self.seed(1), 4, 0.55);
        let grain = self.at.grain(even.grain_scale, self.seed(2));
        let mut light = RgbSpan::uniform(base);
        let mut factor = per_pixel(|at| 1.0 + even.clouds * clouds[at] + even.grain * grain[at]);
        if even.bumps > 0.0 {
            let relief = self.at.relief([even.bump_scale; 2], self.seed(3), 4, 0.5, self.light);
            factor = per_pixel(|at| factor[at] + even.bumps * relief[at]);
        }
        light.scale(|at| factor[at].max(0.05));
        light
    }
}

/// Amplitudes and frequencies (waves per picture height) of [`ShadingInput::even`].
struct Even {
    clouds: f32,
    cloud_scale: f32,
    grain: f32,
    grain_scale: f32,
    bumps: f32,
    bump_scale: f32,
}

const fn even(clouds: f32, cloud_scale: f32, grain: f32, grain_scale: f32, bumps: f32, bump_scale: f32) -> Even {
    Even { clouds, cloud_scale, grain, grain_scale, bumps, bump_scale }
}

/// Darkens or lightens `color` by `tone`, -1..1.
pub(super) fn toned(color: Rgb, tone: f32) -> Rgb {
    if tone < 0.0 {
        scaled(color, 1.0 + 0.78 * tone)
    } else {
        let light = luminance(color).max(0.02);
        let lifted = scaled(color, (0.62 / light).clamp(1.0, 3.0));
        mix(color, mix(lifted.map(|value| value.min(1.0)), [0.85; 3], 0.35), tone * 0.8)
    }
}

/// Shades `surface` along a span whose picture coordinates are `screen`.
pub(super) fn color(surface: &Surface, at: &TexCoords, light: [f32; 2], screen: &TexCoords) -> RgbSpan {
    let input = ShadingInput { surface, at, light, row: screen.y[0], step: screen.x[1] - screen.x[0] };
    match surface.material {
        Material::Plain => input.even(0xD9_D7_D3, &even(0.012, 0.8, 0.012, 260.0, 0.012, 60.0)),
        Material::Marble => stone::marble(&input),
        Material::Onyx => stone::onyx(&input),
        Material::Granite => stone::granite(&input),
        Material::Travertine => stone::travertine(&input),
        Material::Slate => input.even(0x4C_50_54, &even(0.18, 2.0, 0.1, 120.0, 0.22, 5.0)),
        Material::Sandstone => stone::sandstone(&input),
        Material::Concrete => stone::concrete(&input),
        Material::Plaster => input.even(0xDD_D6_CB, &even(0.035, 1.3, 0.02, 150.0, 0.05, 9.0)),
        Material::Terrazzo => stone::terrazzo(&input),
        Material::Brick => masonry::brick(&input),
        Material::Tiles => masonry::tiles(&input, [4.2, 4.2], 0.0),
        Material::SubwayTiles => masonry::tiles(&input, [4.6, 9.2], 0.5),
        Material::Mosaic => masonry::mosaic(&input),
        Material::Checker => masonry::checker(&input),
        Material::Cobbles => masonry::stones(&input, 7.0, 0x7D_79_74, 0.55),
        Material::Pebbles => masonry::stones(&input, 24.0, 0x9A_92_88, 1.0),
        Material::Wood(species) => wood::wood(&input, species),
        Material::Rattan => cloth::rattan(&input),
        Material::Linen => cloth::weave(&input, 0xD8_CD_BB, 62.0, 0.55),
        Material::Cotton => cloth::weave(&input, 0xE9_E6_E0, 95.0, 0.3),
        Material::Denim => cloth::weave(&input, 0x35_4C_70, 80.0, 0.6),
        Material::Burlap => cloth::weave(&input, 0xA8_8A_62, 38.0, 0.8),
        Material::Knit => cloth::knit(&input),
        Material::Felt => input.even(0x8C_8F_93, &even(0.05, 3.0, 0.09, 140.0, 0.05, 40.0)),
        Material::Velvet => cloth::velvet(&input),
        Material::Silk => cloth::silk(&input),
        Material::Curtain => cloth::curtain(&input),
        Material::Leather => cloth::leather(&input),
        Material::Fur => cloth::fur(&input),
        Material::Carpet => input.even(0xB4_A8_98, &even(0.05, 2.0, 0.22, 110.0, 0.16, 70.0)),
        Material::Paper => input.even(0xEF_EC_E5, &even(0.015, 2.0, 0.025, 200.0, 0.03, 90.0)),
        Material::Kraft => cloth::kraft(&input),
        Material::Crumpled => cloth::crumpled(&input),
        Material::Steel => metal::brushed(&input, 0xA9_AD_B1),
        Material::Gold => metal::brushed(&input, 0xD2_A2_4C),
        Material::Copper => metal::brushed(&input, 0xC0_77_52),
        Material::Rust => metal::rust(&input),
        Material::Glass => input.even(0x9F_B0_B4, &even(0.0, 1.0, 0.0, 1.0, 0.0, 1.0)),
        Material::Mirror => input.even(0x6E_74_78, &even(0.0, 1.0, 0.0, 1.0, 0.0, 1.0)),
        Material::Sand => terrain::sand(&input),
        Material::Snow => terrain::snow(&input),
        Material::Grass => terrain::grass(&input),
        Material::Moss => terrain::moss(&input),
        Material::Soil => input.even(0x5A_43_30, &even(0.25, 2.5, 0.25, 70.0, 0.4, 14.0)),
        Material::Leaves => terrain::leaves(&input),
        Material::Asphalt => terrain::asphalt(&input),
        Material::Water => terrain::water(&input),
        Material::Ice => terrain::ice(&input),
        Material::Chalkboard => terrain::chalkboard(&input),
        Material::Cork => stone::cork(&input),
        Material::Terracotta => input.even(0xB8_6A_48, &even(0.1, 2.2, 0.06, 130.0, 0.08, 9.0)),
        Material::Stripes => masonry::stripes(&input),
        Material::Dots => masonry::dots(&input),
        Material::Checks => masonry::checks(&input),
    }
}
