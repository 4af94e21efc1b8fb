//! Eight `f32` as one value, which the compiler turns into vector instructions.

use std::ops::{Add, Div, Mul, Sub};

pub(crate) const LANES: usize = 8;

#[derive(Clone, Copy)]
pub(crate) struct F32x8(pub(crate) [f32; LANES]);

impl F32x8 {
    pub(crate) const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    pub(crate) fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub(crate) fn load(from: &[f32], at: usize) -> Self {
        match from[at..].first_chunk() {
            Some(lanes) => Self(*lanes),
            None => panic!("planes are padded to whole blocks"),
        }
    }

    #[inline(always)]
    pub(crate) fn store(self, to: &mut [f32], at: usize) {
        match to[at..].first_chunk_mut() {
            Some(lanes) => *lanes = self.0,
            None => panic!("planes are padded to whole blocks"),
        }
    }

    #[inline(always)]
    pub(crate) fn abs(mut self) -> Self {
        for lane in &mut self.0 {
            *lane = lane.abs();
        }
        self
    }

    #[inline(always)]
    pub(crate) fn clamped(mut self) -> Self {
        for lane in &mut self.0 {
            *lane = lane.clamp(0.0, 1.0);
        }
        self
    }
}

macro_rules! lanewise {
    ($trait:ident, $name:ident, $op:tt) => {
        impl $trait for F32x8 {
            type Output = Self;
            #[inline(always)]
            fn $name(mut self, other: Self) -> Self {
                // A plain loop, because an adaptor's closure would not be compiled for the caller's instruction set.
                for lane in 0..LANES {
                    self.0[lane] $op other.0[lane];
                }
                self
            }
        }
    };
}
lanewise!(Add, add, +=);
lanewise!(Sub, sub, -=);
lanewise!(Mul, mul, *=);
lanewise!(Div, div, /=);
