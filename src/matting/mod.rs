//! Matting: from the network's mask to a cutout at source size.
//!
//! `RawMask` → [`CleanMask`] (colour random walker, component rules) → `Trimap` → `AlphaMatte` (closed-form matting of
//! the unknown band) → `Cutout` (unmixed foreground colours). [`refine`] and [`mask_union`] improve the mask before
//! cleaning; [`uncertainty()`] predicts from the mask alone how likely the cutout is to be bad.

pub(crate) mod chamfer;
pub mod clahe;
pub mod clean;
mod clip;
pub mod closed_form;
pub(crate) mod connected_components;
mod cut_out;
pub mod despill;
pub mod edge;
mod error;
pub mod foreground;
mod frame_matte;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(feature = "gpu")]
pub mod gpu;
mod guide;
mod hair;
pub mod mask_union;
mod matte;
mod options;
pub mod outline;
pub mod prior;
mod pyramid;
pub mod refine;
mod specks;
mod subject_bounds;
pub mod trimap;
mod uncertainty;
pub(crate) mod union_find;
pub(crate) mod upsample;

pub use clean::{CleanMask, CleanParams, Seeds};
pub use clip::{TemporalMatte, clean_frame_mask, cut_out_frame, estimate_frame_matte, estimate_matte_with_prior};
pub use cut_out::{cut_out, cut_out_with, from_own_alpha};
pub use error::NoSubject;
pub use frame_matte::{FrameMatte, PreviousFrame};
pub use guide::{Guide, clean_mask};
pub use hair::Hair;
pub use matte::estimate_matte;
pub use options::{Edge, Method, Options};
pub use subject_bounds::subject_bounds;
pub use uncertainty::{BAD_MAE, uncertainty};
