//! A network in ONNX Runtime: inspection of its inputs and outputs, and its runs.

use super::conventions::{Conventions, Fit, Output};
use super::runtime::Runtime;
use half::f16;
use ort::ep;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::value::{DynValue, Outlet, Tensor, TensorElementType, ValueType};
use std::path::Path;

/// The execution device of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// An NVIDIA GPU with TensorRT. Never tried by Backdrop's developers.
    Tensorrt,
    /// Core ML on Apple devices. Never tried by Backdrop's developers.
    Coreml,
    /// DirectML under Windows. Never tried by Backdrop's developers.
    Directml,
    /// OpenVINO on Intel devices. Never tried by Backdrop's developers.
    Openvino,
}

impl Device {
    /// Name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Tensorrt => "tensorrt",
            Self::Coreml => "coreml",
            Self::Directml => "directml",
            Self::Openvino => "openvino",
        }
    }
}

/// Why a file cannot be used as a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// ONNX Runtime refuses the file on this device.
    #[error("ONNX Runtime refuses the file on {device}: {reason}", device = .device.name())]
    Refused {
        /// The device.
        device: Device,
        /// ONNX Runtime's message.
        reason: String,
    },
    /// Inputs or outputs do not fit a network from picture to mask.
    #[error("{0}")]
    Shape(String),
}

/// A loaded network.
pub(super) struct Graph {
    session: Session,
    input: String,
    /// Whether the input has half precision.
    is_half: bool,
    output: usize,
    /// Whether one run takes several pictures.
    pub(super) takes_batches: bool,
    /// Height and width, if the graph fixes them.
    pub(super) fixed: Option<[usize; 2]>,
}

impl Graph {
    pub(super) fn open(
        runtime: &Runtime,
        file: &Path,
        conventions: &Conventions,
        device: Device,
        threads: usize,
    ) -> Result<Self, GraphError> {
        let refused =
            |error: &dyn std::fmt::Display| GraphError::Refused { device, reason: first_line(&error.to_string()) };
        let mut builder = builder(runtime, device, threads, conventions.fit).map_err(|error| refused(&error))?;
        let session = builder.commit_from_file(file).map_err(|error| refused(&error))?;
        let (input, shape, is_half) = picture_input(session.inputs(), conventions.input.as_deref())?;
        let fixed = match shape[2..] {
            [height, width] if height > 0 && width > 0 => Some([height as usize, width as usize]),
            _ => None,
        };
        let outputs = session.outputs();
        let output = match &conventions.output {
            Output::First => Some(0),
            Output::Last => outputs.len().checked_sub(1),
            Output::Named(name) => outputs.iter().position(|outlet| outlet.name() == name),
        };
        let wanted = || GraphError::Shape(format!("no such output; the graph has {}", described(outputs)));
        let output = output.filter(|index| *index < outputs.len()).ok_or_else(wanted)?;
        let takes_batches = shape[0] < 0;
        Ok(Self { input: input.to_owned(), is_half, output, takes_batches, fixed, session })
    }

    /// Runs the network on `pictures`, each 3 planes of `height` rows of `width`. Returns the output, height and width.
    pub(super) fn run(
        &mut self,
        planes: Vec<f32>,
        pictures: usize,
        [height, width]: [usize; 2],
    ) -> Result<(Vec<f32>, [usize; 2]), String> {
        let shape = [pictures as i64, 3, height as i64, width as i64];
        let input: DynValue = if self.is_half {
            let planes: Vec<f16> = planes.into_iter().map(f16::from_f32).collect();
            Tensor::from_array((shape, planes)).map_err(text)?.into_dyn()
        } else {
            Tensor::from_array((shape, planes)).map_err(text)?.into_dyn()
        };
        let outputs = self.session.run([(self.input.as_str(), input)].into_iter().collect::<Vec<_>>()).map_err(text)?;
        let (_, output) = outputs.iter().nth(self.output).ok_or("the output is missing")?;
        let (shape, values) = match output.try_extract_tensor::<f32>() {
            Ok((shape, values)) => (shape.to_vec(), values.to_vec()),
            Err(_) => {
                let (shape, values) = output.try_extract_tensor::<f16>().map_err(text)?;
                (shape.to_vec(), values.iter().map(|value| value.to_f32()).collect())
            }
        };
        let wrong =
            || format!("the output has the shape {shape:?}; expected one plane for each of {pictures} pictures");
        let (others, &[height, width]) = shape.split_last_chunk::<2>().ok_or_else(wrong)?;
        let size = [height, width].map(|side| usize::try_from(side).unwrap_or_default());
        let planes: i64 = others.iter().product();
        if planes != pictures as i64 || values.len() != pictures * size[0] * size[1] || values.is_empty() {
            return Err(wrong());
        }
        Ok((values, size))
    }
}

/// A builder of sessions whose waiting threads do not spin. If all runs have one input size, the memory of a run is
/// kept, which saves IS-Net a fifth of its time; with several sizes the kept memory would only grow.
fn builder(runtime: &Runtime, device: Device, threads: usize, fit: Fit) -> ort::Result<SessionBuilder> {
    let is_kept = fit != Fit::ShorterSide;
    let provider = match device {
        Device::Cpu => None,
        Device::Cuda => Some(ep::CUDA::default().build()),
        Device::Tensorrt => Some(ep::TensorRT::default().build()),
        Device::Coreml => Some(ep::CoreML::default().build()),
        Device::Directml => Some(ep::DirectML::default().build()),
        Device::Openvino => Some(ep::OpenVINO::default().build()),
    };
    // A provider that cannot start is an error, instead of a run on the CPU.
    let providers = provider.into_iter().map(ep::ExecutionProviderDispatch::error_on_failure);
    let providers: Vec<_> = providers.chain([ep::CPU::default().with_arena_allocator(is_kept).build()]).collect();
    let builder = Session::builder(&runtime.environment)?;
    Ok(builder
        .with_intra_threads(threads)?
        .with_intra_op_spinning(false)?
        .with_memory_pattern(is_kept)?
        .with_execution_providers(providers)?)
}

/// Name, shape, and half precision of the picture's input.
fn picture_input<'a>(inputs: &'a [Outlet], name: Option<&str>) -> Result<(&'a str, Vec<i64>, bool), GraphError> {
    let wrong = |what: &str| GraphError::Shape(format!("{what}; the graph has {}", described(inputs)));
    let input = match (name, inputs) {
        (Some(name), _) => inputs.iter().find(|input| input.name() == name).ok_or_else(|| wrong("no such input"))?,
        (None, [input]) => input,
        (None, _) => return Err(wrong("expected one input")),
    };
    if inputs.len() != 1 {
        return Err(wrong("expected one input"));
    }
    let ValueType::Tensor { ty, shape, .. } = input.dtype() else { return Err(wrong("expected a tensor")) };
    let is_half = *ty == TensorElementType::Float16;
    if !is_half && *ty != TensorElementType::Float32 {
        return Err(wrong("expected numbers of single or half precision"));
    }
    match shape.to_vec()[..] {
        [-1 | 1, -1 | 3, _, _] => Ok((input.name(), shape.to_vec(), is_half)),
        _ => Err(wrong("expected a batch of pictures with three planes")),
    }
}

/// `input [1, 3, 1024, 1024] f32, …`.
fn described(outlets: &[Outlet]) -> String {
    let one = |outlet: &Outlet| format!("`{}` {}", outlet.name(), outlet.dtype());
    outlets.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn text(error: impl std::fmt::Display) -> String {
    first_line(&error.to_string())
}

/// Drops the stack trace after the first line of ONNX Runtime's messages.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim().to_owned()
}
