//! The matting Laplacian and its product with a plane.
//!
//! Levin, Lischinski and Weiss, "A Closed-Form Solution to Natural Image Matting", PAMI 2008: in every 3×3 window
//! `k` lying inside the picture, alpha is taken to be a linear function of colour. The energy of a plane `p` is how far
//! it is from that, and its gradient is the product `L p`. As He, Sun and Tang ("Fast Matting Using Large Kernel
//! Matting Laplacian Matrices", CVPR 2010) show, one product needs no matrix: fit the line in each window, then sum the
//! residuals of the fits (the GPU's way; the CPU takes many steps with the same matrix and assembles its rows),
//!
//! ```text
//! a_k = (Σ_k + ε/9 · 1)⁻¹ · mean_k(p · (I - μ_k))            the line of window k
//! m_k = mean_k(p)
//! (L p)_i = Σ_{k ∋ i} ( p_i - m_k - a_k · (I_i - μ_k) )      the nine windows that hold pixel i
//! ```
//!
//! The inverse is kept as its factor, `(Σ + ε/9)⁻¹ = Wᵀ W` with `W` the inverse of Cholesky's triangle: where a window
//! has only two colours the inverse has entries of 10⁸ next to ones of 10², and rounded to 32 bits it would no longer be
//! positive, so conjugate gradients would diverge; a product of a matrix with its transpose always is.
//!
//! `I` is sRGB-encoded colour in 0..=1, `μ_k` and `Σ_k` its mean and covariance in window `k`. Colours are centred per
//! window before they are multiplied: in flat regions `p · I` and `m · μ` agree in their first five digits, and
//! 32-bit differences of the raw sums would be noise.
//!
//! Border rule: windows that would leave the picture do not exist (a corner pixel is in one window, not nine).

pub mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod passes;
mod runs;
pub mod solver;
#[cfg(feature = "gpu")]
pub mod solver_gpu;

/// Pixels in a window.
pub const WINDOW_AREA: f32 = 9.0;

/// ε of the paper: the regularisation of the colour line in flat windows. ε/9 is added to each variance of a window's colours; this is
/// the variance of rounding to eight bits, 1/12 of a squared step. With less, alpha follows the noise of flat windows.
pub const EPSILON: f32 = WINDOW_AREA / (12.0 * 255.0 * 255.0);
