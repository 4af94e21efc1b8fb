//! Imports segmentation weights from safetensors files and PyTorch checkpoints of the same architecture.

use std::collections::HashMap;
use std::path::Path;

#[cfg(feature = "pytorch")]
use burn_store::pytorch_reader;

use super::architecture::{Architecture, Network, fgnet};
#[cfg(feature = "pytorch")]
use super::container::checkpoint_error;
use super::container::{RawTensor, open, read};
#[cfg(feature = "pytorch")]
use super::error::{MAX_FILE_BYTES, io_error};
use super::{Card, Tensor, Weights, WeightsError, exactly};

/// Prefixes of the weights in a checkpoint, best first: averaged weights give the better model.
#[cfg(feature = "pytorch")]
const NESTINGS: [&str; 4] = ["", "ema.", "state_dict.", "model."];

/// The imported network. Foreign files do not state the side of training.
const NETWORK: Network = Network::Fgnet { input_side: 384 };

/// Prefix of the auxiliary heads of training.
const TRAINING_ONLY: &str = "side.";

/// Reads segmentation weights from a `.safetensors` file or a PyTorch checkpoint (`.pth`, `.pt`), with batch
/// normalisation folded or not, in any floating-point type. Heads that only training uses are dropped.
///
/// The card is the file's if it is a Backdrop weights file, else made from the file's name; [`Weights::with_card`]
/// changes it. Its name and version are checked by [`Weights::save`], so that they can be replaced before.
///
/// # Errors
/// When the file cannot be read, is a checkpoint that this build has no reader for, lacks a tensor, has a tensor of
/// another shape, or a tensor that the network does not have.
pub fn import(path: &Path) -> Result<Weights, WeightsError> {
    let is = |extension: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
    if is("pth") || is("pt") {
        return from_checkpoint(path);
    }
    let bytes = read(path)?;
    if let Ok(weights) = Weights::with_any_label(&bytes) {
        return weights.require(Architecture::Fgnet);
    }
    let (container, _) = open(&bytes)?;
    let entries = container.iter().map(|(name, view)| (name.to_owned(), RawTensor::Safetensors(view))).collect();
    from_entries(card(path), entries)
}

#[cfg(not(feature = "pytorch"))]
fn from_checkpoint(_: &Path) -> Result<Weights, WeightsError> {
    Err(WeightsError::Container {
        format: "PyTorch checkpoint",
        reason: "this build has no reader for it (feature `pytorch`); convert it to safetensors".to_owned(),
    })
}

#[cfg(feature = "pytorch")]
fn from_checkpoint(path: &Path) -> Result<Weights, WeightsError> {
    let bytes = std::fs::metadata(path).map_err(|source| io_error(path, source))?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(WeightsError::TooLarge { bytes });
    }
    let tensors = pytorch_reader::PytorchReader::new(path).map_err(|error| checkpoint_error(&error))?.into_tensors();
    let first = &NETWORK.tensors()[0].name;
    let nesting = NESTINGS.into_iter().find(|nesting| tensors.contains_key(&format!("{nesting}{first}"))).unwrap_or("");
    let entries = tensors
        .into_iter()
        .filter_map(|(name, tensor)| Some((name.strip_prefix(nesting)?.to_owned(), RawTensor::Pytorch(tensor))))
        .collect();
    from_entries(card(path), entries)
}

fn card(path: &Path) -> Card {
    let name = path.file_stem().map_or_else(|| "imported".to_owned(), |stem| stem.to_string_lossy().into_owned());
    Card { name, version: "1".to_owned(), network: NETWORK, licence: "not stated".to_owned() }
}

fn from_entries(card: Card, mut entries: HashMap<String, RawTensor<'_>>) -> Result<Weights, WeightsError> {
    entries.retain(|name, _| !name.starts_with(TRAINING_ONLY) && !name.ends_with(".num_batches_tracked"));
    if entries.keys().any(|name| name.ends_with(".bn.running_var")) {
        Weights::from_tensors(card, folded(&entries)?)
    } else {
        let network = card.network;
        Weights::from_tensors(card, exactly(network, &entries)?)
    }
}

/// Folds batch normalisation into the convolutions: `w' = w · γ / √(σ² + ε)`, `b' = β - μ · γ / √(σ² + ε)`.
fn folded(entries: &HashMap<String, RawTensor<'_>>) -> Result<HashMap<String, Tensor>, WeightsError> {
    let mut tensors = HashMap::new();
    let mut used = Vec::new();
    let mut take = |name: String, shape: &[usize]| {
        let entry =
            entries.get(&name).ok_or_else(|| WeightsError::Missing { name: name.clone(), shape: shape.to_vec() })?;
        let values = entry.values(&name, shape)?;
        used.push(name);
        Ok::<_, WeightsError>(values)
    };
    for convolution in fgnet::convolutions() {
        let shape = convolution.shape;
        let mut weights = take(format!("{}.weight", convolution.name), &shape)?;
        let bias = if let Some(module) = convolution.normalised() {
            let mut statistic = |name: &str| take(format!("{module}.bn.{name}"), &shape[..1]);
            let (gamma, beta) = (statistic("weight")?, statistic("bias")?);
            let (mean, variance) = (statistic("running_mean")?, statistic("running_var")?);
            let scales: Vec<f64> = gamma
                .iter()
                .zip(&variance)
                .map(|(&gamma, &variance)| f64::from(gamma) / (f64::from(variance) + fgnet::BATCH_NORM_EPSILON).sqrt())
                .collect();
            let taps = weights.len() / shape[0];
            for (filter, scale) in weights.chunks_exact_mut(taps).zip(&scales) {
                for weight in filter {
                    *weight = (f64::from(*weight) * scale) as f32;
                }
            }
            let shifted =
                |((&beta, &mean), scale): ((&f32, &f32), &f64)| (f64::from(beta) - f64::from(mean) * scale) as f32;
            beta.iter().zip(&mean).zip(&scales).map(shifted).collect()
        } else {
            take(format!("{}.bias", convolution.name), &shape[..1])?
        };
        let name = &convolution.name;
        tensors.insert(format!("{name}.weight"), Tensor { shape: shape.to_vec(), values: weights });
        tensors.insert(format!("{name}.bias"), Tensor { shape: vec![shape[0]], values: bias });
    }
    let mut surplus: Vec<String> = entries.keys().filter(|name| !used.contains(name)).cloned().collect();
    if !surplus.is_empty() {
        surplus.sort();
        return Err(WeightsError::Surplus(surplus));
    }
    Ok(tensors)
}
