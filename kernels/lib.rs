//! The compute kernels of Backdrop.
