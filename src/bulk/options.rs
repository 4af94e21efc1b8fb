//! The options of a run: which objects, how results are named, and what identifies an unchanged result.

use super::filter::KeyFilter;
use super::key_template::KeyTemplate;
use super::shard::Shard;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Which objects.
    pub filter: KeyFilter,
    /// Keys of the results.
    pub template: KeyTemplate,
    /// Extension of the results.
    pub extension: &'static str,
    /// The part of the run that this machine processes.
    pub shard: Option<Shard>,
    /// Maximum number of objects to process; those already done or rejected without reading do not count.
    pub limit: Option<u64>,
    /// Hash of the endpoint, its parameters and the model.
    pub parameters: String,
    /// Name and version of the weights.
    pub model: String,
    /// Maximum size of a source in bytes.
    pub max_bytes: u64,
}
