//! Gradient noise, fractal sums of it (fBm) and cellular (Worley) noise, for procedural materials.
//!
//! *Gradient noise*: Perlin, "Improving Noise", SIGGRAPH 2002, with gradients from an integer hash of the lattice point
//! in place of a table. With `f` the fraction of the coordinates, `s(t) = t³ (6t² - 15t + 10)`, and `g` the gradient of
//! each corner of the cell, components in -1..1,
//!
//! ```text
//! n(x, y) = 1.6 · lerp over both axes by s(f) of g(corner) · ((x, y) - corner)          about -1..1
//! ```
//!
//! *Fractal sums* add octaves, each at twice the frequency, times [`Fbm::gain`], and turned by 36.87° (3-4-5: the turn
//! is exact) so that the lattices do not line up. An octave with waves narrower than a sample's footprint
//! ([`Fbm::footprint`]) is faded out, so that nothing aliases at any distance of a surface:
//!
//! ```text
//! w(octave) = gain^octave · clamp((0.7 - frequency · footprint) / 0.4, 0, 1)
//! ```
//!
//! *Cells*: Worley, "A Cellular Texture Basis Function", SIGGRAPH 1996: one jittered point in each square of the
//! lattice; the distances to the nearest and second nearest point of the 3 × 3 squares around, and the nearest point's
//! hash.
//!
//! Coordinates: f32 of a magnitude below 2²². Integer hashes are equal on every machine, and no operation is fused, so
//! every instruction set gives equal bits.

pub mod cpu;

/// Maximum octaves of one sum.
pub const MAX_OCTAVES: u32 = 12;

/// Odd, well mixed multipliers of the lattice coordinates and of the mixing, by Teschner and lowbias32.
const ACROSS: u32 = 0x9E37_79B1;
const DOWN: u32 = 0x85EB_CA77;
const MIX: [u32; 2] = [0x2C1B_3C6D, 0x297A_2D39];
/// Added to the seed for the next octave.
const NEXT_OCTAVE: u32 = 0x68E3_1DA4;
/// Scales the values of one octave to mostly fill -1..1.
const AMPLITUDE: f32 = 1.6;
/// Scales half a hash, signed, and a 24-bit number to a magnitude of at most 1.
const PER_HALF: f32 = 1.0 / 32768.0;
const PER_NUMBER: f32 = 1.0 / 16_777_216.0;
/// Transform to the next octave: scaled by two, and turned.
const TURN: [f32; 2] = [1.6, 1.2];

/// A sum of octaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fbm {
    /// Seed of the hash.
    pub seed: u32,
    /// Number of octaves, up to [`MAX_OCTAVES`].
    pub octaves: u32,
    /// Weight of an octave relative to the previous one.
    pub gain: f32,
    /// Width of a sample, in units of the coordinates; 0 for a point.
    pub footprint: f32,
}

impl Fbm {
    /// The weights of the octaves, up to the last weight above 0.
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
