//! Gradient noise, fractal sums of it (fBm) and cellular (Worley) noise, for procedural materials.
//!
//! *Gradient noise*: Perlin, "Improving Noise", SIGGRAPH 2002, with gradients that come from an integer hash of the
//! lattice point, not from a table. With `f` the fraction of the coordinates, `s(t) = t³ (6t² - 15t + 10)`, and `g` the
//! gradient of each corner of the cell, components in -1..1,
//!
//! ```text
//! n(x, y) = 1.6 · lerp over both axes by s(f) of g(corner) · ((x, y) - corner)          about -1..1
//! ```
//!
//! *Fractal sums* add octaves of it, each at twice the frequency, turned by 36.87° (3-4-5: the turn is exact) so that the
//! lattices do not line up, times [`Fbm::gain`]. An octave whose waves are narrower than a sample's footprint
//! ([`Fbm::footprint`]) is faded out, so that nothing aliases, however distant a surface is:
//!
//! ```text
//! w(octave) = gain^octave · clamp((0.7 - frequency · footprint) / 0.4, 0, 1)
//! ```
//!
//! *Cells*: Worley, "A Cellular Texture Basis Function", SIGGRAPH 1996: one point in each square of the lattice,
//! jittered; the distances to the nearest and the second nearest of the 3 × 3 squares around, and the nearest point's hash.
//!
//! Coordinates: f32 of a magnitude below 2²². Integer hashes are the same on every machine, and no operation is fused, so
//! every instruction set gives the same bits.

pub mod cpu;

/// Octaves of one sum, at most.
pub const MAX_OCTAVES: u32 = 12;

/// Multipliers of the lattice coordinates and of the mixing: Teschner's and lowbias32's, odd and well mixed.
const ACROSS: u32 = 0x9E37_79B1;
const DOWN: u32 = 0x85EB_CA77;
const MIX: [u32; 2] = [0x2C1B_3C6D, 0x297A_2D39];
/// Added to the seed from one octave to the next.
const NEXT_OCTAVE: u32 = 0x68E3_1DA4;
/// So that the values of one octave mostly fill -1..1.
const AMPLITUDE: f32 = 1.6;
/// Scales half a hash, signed, and a number of 24 bits to a magnitude of at most 1.
const PER_HALF: f32 = 1.0 / 32768.0;
const PER_NUMBER: f32 = 1.0 / 16_777_216.0;
/// From one octave to the next: twice as fine, and turned.
const TURN: [f32; 2] = [1.6, 1.2];

/// A sum of octaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fbm {
    /// Seed of the hash.
    pub seed: u32,
    /// How many octaves, up to [`MAX_OCTAVES`].
    pub octaves: u32,
    /// Weight of an octave, as a share of the one before.
    pub gain: f32,
    /// Width of a sample, in units of the coordinates; 0 for a point.
    pub footprint: f32,
}

impl Fbm {
    /// The weights of the octaves, up to the last that is not 0.
    #[must_use]
    pub fn weights(&self) -> Vec<f32> {
        let mut weights = Vec::new();
        let (mut weight, mut frequency) = (1.0_f32, 1.0_f32);
        for _ in 0..self.octaves.min(MAX_OCTAVES) {
            let shows = ((0.7 - frequency * self.footprint) / 0.4).clamp(0.0, 1.0);
            if shows.is_nan() || shows <= 0.0 {
                break;
            }
            weights.push(weight * shows);
            weight *= self.gain;
            frequency *= 2.0;
        }
        weights
    }
}

/// A homography from the pixels of a plane to a flat surface in perspective: its matrix, row after row.
///
/// The centre of pixel `(i, j)` maps to `((a i + b j + c) / w, (d i + e j + f) / w)` with `w = g i + h j + 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mapping(pub [f32; 8]);
