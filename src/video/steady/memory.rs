//! What is remembered from one frame to the next, and as bytes.

use super::small::Small;
use crate::image::{AlphaMatte, RawMask, Size};
use serde::{Deserialize, Serialize};

/// What is known after a frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Memory {
    /// Size of the frames.
    pub(super) frame: Size,
    /// The frame on the mask's grid.
    pub(super) small: Small,
    /// The mask, held together with those before.
    pub(super) mask: RawMask,
    /// How many sure frames each cell of it stands for.
    pub(super) age: Vec<f32>,
    /// For how many frames on end the network has contradicted each cell: above zero where it sees subject.
    pub(super) contradicted: Vec<i8>,
    /// The matte before it was swept; none when there was no subject.
    pub(super) matte: Option<AlphaMatte>,
}

/// The bytes: the first tells the version.
#[derive(Serialize, Deserialize)]
enum Saved {
    V1(Option<SavedMemory>),
}

#[derive(Serialize, Deserialize)]
struct SavedMemory {
    frame: (u32, u32),
    grid: (u32, u32),
    cells: Vec<u8>,
    mask: Vec<f32>,
    age: Vec<f32>,
    contradicted: Vec<i8>,
    matte: Option<Vec<u8>>,
}

pub(super) fn save(memory: Option<&Memory>) -> Vec<u8> {
    let saved = memory.map(|memory| SavedMemory {
        frame: (memory.frame.width, memory.frame.height),
        grid: (memory.mask.size().width, memory.mask.size().height),
        cells: memory.small.cells.clone(),
        mask: memory.mask.values().to_vec(),
        age: memory.age.clone(),
        contradicted: memory.contradicted.clone(),
        matte: memory.matte.as_ref().map(|matte| matte.coverage().to_vec()),
    });
    postcard::to_stdvec(&Saved::V1(saved)).expect("plain fields, and a Vec grows")
}

/// Nothing when the bytes are not of [`save`].
pub(super) fn restore(bytes: &[u8]) -> Option<Option<Memory>> {
    let (Saved::V1(saved), rest) = postcard::take_from_bytes(bytes).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let Some(saved) = saved else { return Some(None) };
    let [frame, grid] = [saved.frame, saved.grid].map(|(width, height)| Size::new(width, height));
    let cells = grid.area();
    let finite = |values: &[f32]| values.len() == cells && values.iter().all(|value| value.is_finite());
    let fits = cells > 0
        && saved.cells.len() == cells.checked_mul(3)?
        && finite(&saved.age)
        && saved.contradicted.len() == cells
        && saved.matte.as_ref().is_none_or(|matte| matte.len() == frame.area());
    let mask = RawMask::new(grid, saved.mask).ok()?;
    fits.then(|| {
        Some(Memory {
            frame,
            small: Small { size: grid, cells: saved.cells },
            mask,
            age: saved.age,
            contradicted: saved.contradicted,
            matte: saved.matte.map(|coverage| AlphaMatte::new(frame, coverage)),
        })
    })
}
