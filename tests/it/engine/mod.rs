//! The engine: queue, batches, device, pipeline.

pub(crate) mod device;
pub(crate) mod fake;
pub(crate) mod pipeline;
pub(crate) mod queue;
