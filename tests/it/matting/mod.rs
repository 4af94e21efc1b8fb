//! Matting: agreement with PyMatting, halos, opaque subjects, reproducibility, thin pictures.

pub(crate) mod closed_form;
pub(crate) mod halo;
pub(crate) mod product;
pub(crate) mod reproducible;
pub(crate) mod thin_pictures;
