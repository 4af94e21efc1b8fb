//! The engine: queue, batches, device, pipeline.

pub(crate) mod device;
pub(crate) mod guidance;
pub(crate) mod pipeline;
pub(crate) mod queue;
pub(crate) mod support;
