//! Sums over all work items on a GPU in a fixed order: a tree in each cube, then the cubes' sums.

use cubecl::prelude::*;

/// Work items in a cube, also of the second pass.
pub(crate) const UNITS: u32 = 256;

/// The sum of `term` over the cube, for each of its items. All items must call it.
#[cube]
pub(crate) fn cube_sum(term: f32) -> f32 {
    let mut terms = Shared::<[f32]>::new_slice(256usize);
    let unit = UNIT_POS as usize;
    // An earlier sum may still be read.
    sync_cube();
    terms[unit] = term;
    sync_cube();
    let mut half = 128u32;
    while half > 0 {
        if UNIT_POS < half {
            let other = terms[unit + half as usize];
            terms[unit] += other;
        }
        sync_cube();
        half /= 2;
    }
    terms[0usize]
}

/// The sum of `len` terms from `first` on, for each item of the only cube.
#[cube]
pub(crate) fn sum_of(terms: &[f32], first: u32, len: u32) -> f32 {
    let mut own = f32::new(0.0);
    let mut at = UNIT_POS;
    while at < len {
        own += terms[(first + at) as usize];
        at += UNITS;
    }
    cube_sum(own)
}

/// Index of the cube's sum in the terms of the second pass.
#[cube]
pub(crate) fn cube_index() -> u32 {
    CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X
}
