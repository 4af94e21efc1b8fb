//! The temporal filter's state between frames, and its serialised form.

use super::thumbnail::Thumbnail;
use crate::image::{AlphaMatte, RawMask, Size};
use crate::matting::FrameMatte;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug)]
pub(super) struct TemporalState {
    pub(super) frame: Size,
    /// The frame on the mask's grid.
    pub(super) thumbnail: Thumbnail,
    pub(super) mask: RawMask,
    /// Accumulated weight of each cell, in frames of full certainty.
    pub(super) weight: Vec<f32>,
    /// Consecutive frames in which the network contradicted each cell: positive for subject, negative for background.
    pub(super) contradictions: Vec<i8>,
    /// The matte before cleaning; `None` without a subject.
    pub(super) matte: Option<FrameMatte>,
}

/// The serialised state; the first byte is the version.
#[derive(Serialize, Deserialize)]
enum Saved {
    V1(Option<SavedState>),
}

#[derive(Serialize, Deserialize)]
struct SavedState {
    frame: (u32, u32),
    grid: (u32, u32),
    cells: Vec<u8>,
    mask: Vec<f32>,
    weight: Vec<f32>,
    contradictions: Vec<i8>,
    matte: Option<Vec<u8>>,
}

pub(super) fn save(state: Option<&TemporalState>) -> Vec<u8> {
    let saved = state.map(|state| SavedState {
        frame: (state.frame.width, state.frame.height),
        grid: (state.mask.size().width, state.mask.size().height),
        cells: state.thumbnail.cells.clone(),
        mask: state.mask.values().to_vec(),
        weight: state.weight.clone(),
        contradictions: state.contradictions.clone(),
        // A matte that its device has lost is omitted: the resumed clip starts without it.
        matte: state.matte.as_ref().and_then(|matte| Some(matte.downloaded().ok()?.coverage().to_vec())),
    });
    postcard::to_stdvec(&Saved::V1(saved)).expect("plain fields, and a Vec grows")
}

/// Parses the result of [`save`]; `None` for other bytes.
pub(super) fn restore(bytes: &[u8]) -> Option<Option<TemporalState>> {
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
        && finite(&saved.weight)
        && saved.contradictions.len() == cells
        && saved.matte.as_ref().is_none_or(|matte| matte.len() == frame.area());
    let mask = RawMask::new(grid, saved.mask).ok()?;
    fits.then(|| {
        Some(TemporalState {
            frame,
            thumbnail: Thumbnail { size: grid, cells: saved.cells },
            mask,
            weight: saved.weight,
            contradictions: saved.contradictions,
            matte: saved.matte.map(|coverage| FrameMatte::Host(AlphaMatte::new(frame, coverage))),
        })
    })
}
