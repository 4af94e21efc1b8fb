//! The networks against recorded outputs of PyTorch on every CPU path, and on a GPU against the CPU; added models.

pub(crate) mod added;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
pub(crate) mod parity;
pub(crate) mod retouch_parity;
pub(crate) mod retouch_support;
