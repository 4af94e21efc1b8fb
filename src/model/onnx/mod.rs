//! Published networks as ONNX files, run by ONNX Runtime (crate `ort`; the library is loaded at run time).

mod conventions;
mod file;
mod graph;
mod runtime;
mod segmenter;

use crate::model::Segmenter;
pub use conventions::{Activation, Conventions, Fit, ModelType, Order, Output, Range, ResultKind};
pub use file::{FileError, GraphFile, Outlet};
pub use graph::{Device, GraphError};
pub use runtime::{Runtime, RuntimeError};

use fast_image_resize::Resizer;
use segmenter::OnnxSegmenter;
use std::path::Path;

/// Loads `file`. `model`: its name and version, for `x-service-model`. A run uses `threads`.
///
/// # Errors
/// [`GraphError`].
pub fn open(
    runtime: &Runtime,
    file: &Path,
    conventions: Conventions,
    model: String,
    device: Device,
    threads: usize,
) -> Result<Box<dyn Segmenter>, GraphError> {
    let graph = graph::Graph::open(runtime, file, &conventions, device, threads)?;
    // A picture uses all cores, and several pictures would take several times the memory.
    let takes_batches = graph.takes_batches && device != Device::Cpu;
    let device = format!("{} (ONNX Runtime, {threads} threads)", device.name());
    Ok(Box::new(OnnxSegmenter { graph, conventions, model, device, takes_batches, resizer: Resizer::new() }))
}
