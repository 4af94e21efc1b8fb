//! Tests of the stages from the network to the cutout.

mod matting_on_gpu;
