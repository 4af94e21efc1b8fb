//! A few `f32` side by side, for kernels that the compiler shall turn into vector instructions.

use std::ops::{Add, Div, Mul, Sub};

/// Values that are worked on together.
pub(crate) const LANES: usize = 8;

#[derive(Clone, Copy)]
pub(crate) struct Lanes(pub(crate) [f32; LANES]);

impl Lanes {
    pub(crate) const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    pub(crate) fn all(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub(crate) fn load(from: &[f32], at: usize) -> Self {
        let mut lanes = [0.0; LANES];
        lanes.copy_from_slice(&from[at..at + LANES]);
        Self(lanes)
    }

    #[inline(always)]
    pub(crate) fn store(self, to: &mut [f32], at: usize) {
        to[at..at + LANES].copy_from_slice(&self.0);
    }

    #[inline(always)]
    pub(crate) fn abs(self) -> Self {
        Self(self.0.map(f32::abs))
    }

    #[inline(always)]
    pub(crate) fn clamped(self) -> Self {
        Self(self.0.map(|value| value.clamp(0.0, 1.0)))
    }
}

macro_rules! lanewise {
    ($trait:ident, $name:ident, $op:tt) => {
        impl $trait for Lanes {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(std::array::from_fn(|lane| self.0[lane] $op other.0[lane]))
            }
        }
    };
}
lanewise!(Add, add, +);
lanewise!(Sub, sub, -);
lanewise!(Mul, mul, *);
lanewise!(Div, div, /);
