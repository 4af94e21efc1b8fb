//! Procedural wood: planks with growth rings, pores and grain, by species.
//!
//! A board is a cut through rings around a wandering pith. In the middle of the board the cut is tangential and the
//! rings form cathedrals; at its sides they form lines. Early wood is light, late wood dark with a sharp end. Vessels
//! (pores) are fine dark strokes along the grain, fibres finer light ones.

use super::ShadingInput;
use crate::generate::falloff::smoothstep;
use crate::generate::linear_rgb::{Rgb, mix, scaled, srgb};
use crate::generate::render::span::{RgbSpan, fast_floor, line_coverage, per_pixel};
use crate::generate::surface::Species;
use backdrop_kernels::noise::cpu::random;

struct SpeciesParams {
    light: u32,
    dark: u32,
    /// Contrast of the rings, 0..1.
    rings: f32,
    /// Rings per picture height.
    density: f32,
    pores: f32,
    /// Boards per picture height.
    boards: f32,
    /// Brightness variation between boards.
    mixed: f32,
}

const fn params(species: Species) -> SpeciesParams {
    const fn of(light: u32, dark: u32, rings: f32, density: f32, pores: f32, boards: f32, mixed: f32) -> SpeciesParams {
        SpeciesParams { light, dark, rings, density, pores, boards, mixed }
    }
    match species {
        Species::Oak => of(0xD3_AE_7E, 0x9C_73_48, 0.6, 62.0, 0.5, 5.2, 0.14),
        Species::Walnut => of(0x8A_60_42, 0x46_2C_1C, 0.75, 54.0, 0.45, 5.2, 0.2),
        Species::Pine => of(0xE6_C5_90, 0xC2_8E_52, 0.8, 40.0, 0.1, 4.8, 0.1),
        Species::Birch => of(0xEB_D7_B6, 0xD2_B4_88, 0.45, 48.0, 0.15, 4.8, 0.07),
        Species::Cherry => of(0xB8_76_4C, 0x86_48_2A, 0.5, 56.0, 0.2, 5.0, 0.12),
        Species::Mahogany => of(0x7E_3D_25, 0x48_1D_12, 0.5, 60.0, 0.55, 5.0, 0.12),
        Species::Ebony => of(0x32_2A_26, 0x12_0E_0C, 0.6, 60.0, 0.3, 5.0, 0.1),
        Species::Bamboo => of(0xDD_BF_86, 0xBE_97_58, 0.2, 60.0, 0.35, 16.0, 0.14),
        Species::Barn => of(0xA2_9A_8F, 0x5C_54_4C, 0.8, 60.0, 0.7, 6.2, 0.22),
    }
}

/// Boards along x, stacked along y.
pub(super) fn wood(input: &ShadingInput<'_>, species: Species) -> RgbSpan {
    let params = params(species);
    let (early, late) = colors(input, &params);
    let at = input.at;
    let seed = input.seed(0);
    // A random offset in the noise gives each board different rings.
    let row = per_pixel(|i| fast_floor(at.y[i] * params.boards));
    let own = per_pixel(|i| random(row[i] as i32, 7, seed));
    let aside = per_pixel(|i| at.y[i] - (row[i] + 0.5) / params.boards);
    let mut stem = at.clone();
    stem.x = per_pixel(|i| at.x[i] + 41.0 * own[i]);
    stem.y = per_pixel(|i| aside[i] + 17.0 * own[i]);
    // The pith wanders along the board; rings are compressed and stretched.
    let sway = stem.fbm([0.75, 2.2], input.seed(1), 3, 0.45);
    let ripple = stem.fbm([4.0, 30.0], input.seed(2), 4, 0.6);
    let board = 1.0 / params.boards;
    let rings = per_pixel(|i| {
        let from_pith = aside[i] + (own[i] - 0.5) * 0.9 * board + 0.35 * board * sway[i];
        // The distance of the cut from the pith grows along the board: cathedrals.
        let depth = 0.22 * board + 0.03 * (at.x[i] * 1.3 + 5.0 * own[i]).abs().min(4.0);
        let radius = (from_pith * from_pith + depth * depth).sqrt();
        radius * params.density + 0.8 * sway[i] + 0.3 * ripple[i]
    });
    let footprint = at.footprint[1].max(0.35 * at.footprint[0]) * params.density;
    let clear = (1.0 - smoothstep(0.25, 0.7, footprint)) * params.rings;
    let late_share = per_pixel(|i| {
        let ring = fast_floor(rings[i]);
        let t = rings[i] - ring;
        // The contrast varies from ring to ring.
        let year = 0.35 + 0.9 * random(ring as i32, row[i] as i32, seed);
        let profile = year * (t * t * (1.0 - smoothstep(0.82, 1.0, t)) * 0.9 + 0.2 * t) + 0.12 * ripple[i];
        0.26 + clear * (profile - 0.26)
    });
    let mut light = RgbSpan::blend(early, late, |i| late_share[i]);
    // Fibres and pores, ten times finer.
    let fibres = stem.fbm([5.0, 130.0], input.seed(3), 3, 0.6);
    let pores = stem.fbm([9.0, 260.0], input.seed(4), 2, 0.6);
    let clouds = stem.fbm([0.9, 3.0], input.seed(5), 3, 0.5);
    light.mix_color(scaled(late, 0.45), |i| {
        params.pores * 0.75 * smoothstep(0.22, 0.6, pores[i]) * (0.45 + 0.55 * late_share[i])
    });
    let gap = |i: usize| line_coverage(0.5 * board - aside[i].abs(), 0.0022, at.footprint[1].max(0.0012));
    light.scale(|i| {
        let tone = 1.0 + params.mixed * 2.0 * (own[i] - 0.5) + 0.1 * fibres[i] + 0.12 * clouds[i];
        tone.max(0.1) * (1.0 - 0.72 * gap(i))
    });
    light
}

/// Colours of early and late wood; the surface's colour stains them and the rings stay visible.
fn colors(input: &ShadingInput<'_>, params: &SpeciesParams) -> (Rgb, Rgb) {
    let (early, late) = (srgb(params.light), srgb(params.dark));
    let (early, late) = match input.surface.color {
        None => (early, late),
        Some(stain) => (mix(early, stain, 0.82), mix(late, scaled(stain, 0.62), 0.82)),
    };
    let tone = input.surface.tone;
    (super::toned(early, tone), super::toned(late, tone * 0.8))
}
