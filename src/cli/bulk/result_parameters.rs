//! Hashes the endpoint, fields, auxiliary files and models that a result depends on, in addition to its source.

use crate::cli::remove::AuxFiles;
use crate::model::weights::Weights;
use crate::model::{CpuRetoucher, Precision};
use crate::pipeline;
use crate::recipe::{Endpoint, Fields, Recipe};
use sha2::{Digest, Sha256};

/// Name and version of the model that a report row states.
pub(super) fn model_of(recipe: &Recipe, weights: &Weights, precision: Precision) -> String {
    pipeline::model_of(recipe, || precision.of(&weights.model()), &CpuRetoucher::default())
}

/// The hash, as 16 hexadecimal digits.
pub(super) fn parameters_hash(endpoint: &Endpoint, fields: &Fields, aux_files: &AuxFiles, models: &[String]) -> String {
    let mut sorted: Vec<(&str, &str)> = fields.iter().collect();
    sorted.sort_unstable();
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(endpoint.path.as_bytes());
    for model in models {
        part(model.as_bytes());
    }
    for (name, value) in sorted {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    for file in [&aux_files.background, &aux_files.mark] {
        part(file.as_deref().unwrap_or_default());
    }
    format!("{:.16x}", hasher.finalize())
}
