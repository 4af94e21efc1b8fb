//! Conjugate gradients on the band: `(L + Γ) α = Γ m` with a diagonal Γ, preconditioned by the diagonal (Hestenes and Stiefel 1952).
//!
//! The number of steps is given, so that it is equal on all devices. After convergence steps have length 0 (a select on
//! a device that cannot branch), because in 32 bits further steps would drift along rounding errors.

use super::cpu::{Band, zeros};
use super::passes;

/// Converged when the preconditioned residual of a pixel is this small: coverage is stored in steps of 1/255.
pub(super) const TOLERANCE: f64 = 2e-5;

/// The right-hand side, and the vectors of the method. Its memory is reused.
#[derive(Debug, Default)]
pub struct Solver {
    /// Expected alpha of the unknown pixels.
    pub expected: Vec<f32>,
    /// Γ: weight of the expected alpha of the unknown pixels.
    pub gamma: Vec<f32>,
    weights: Vec<f32>,
    scale: Vec<f32>,
    product: Vec<f32>,
    direction: Vec<f32>,
}

impl Solver {
    /// Resets the prior to weight 0.
    pub fn clear(&mut self, band: &Band) {
        zeros(&mut self.expected, band.unknown_len(), 0.0);
        zeros(&mut self.gamma, band.unknown_len(), 0.0);
    }

    /// Improves `alpha`, a plane of `band`, in `steps` steps. Overwrites the expected alpha.
    pub fn solve(&mut self, band: &Band, alpha: &mut [f32], steps: usize) {
        let Self { expected, gamma, weights, scale, product, direction } = self;
        band.preconditioner(gamma, weights, scale);
        zeros(product, band.unknown_len(), 0.0);
        zeros(direction, alpha.len(), 0.0);
        // The expected alpha is needed only for the first residual, which overwrites it.
        let residual = expected;
        residual.iter_mut().zip(&*gamma).for_each(|(value, gamma)| *value *= gamma);
        let runs = band.runs();
        band.multiply(alpha, weights, product);
        let mut energy = passes::begin(runs, scale, product, residual, direction);
        let enough = TOLERANCE * TOLERANCE * band.count() as f64;
        for _ in 0..steps {
            if energy <= enough {
                return;
            }
            let curvature = band.multiply(direction, weights, product);
            // Not positive: only rounding is left.
            if curvature <= 0.0 {
                return;
            }
            let previous = energy;
            let length = (energy / curvature) as f32;
            energy = passes::advance(runs, length, scale, product, direction, alpha, residual);
            passes::turn(runs, (energy / previous) as f32, scale, residual, direction);
        }
    }
}
