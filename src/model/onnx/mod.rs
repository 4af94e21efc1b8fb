//! Networks that others have published, as ONNX files, run by ONNX Runtime (crate `ort`; its library is loaded at run time).

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

/// Loads `file`. `model` is its name with its version, for `x-service-model`; a run uses `threads`.
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
    // A picture uses all cores, and several at once would take its memory several times.
    let takes_batches = graph.takes_batches && device != Device::Cpu;
    let device = format!("{} (ONNX Runtime, {threads} threads)", device.name());
    Ok(Box::new(OnnxSegmenter { graph, conventions, model, device, takes_batches, resizer: Resizer::new() }))
}
