//! The options of a run, parsed, and as a caller sends them.

use super::filter::{GlobError, KeyFilter};
use super::key_template::{KeyTemplate, KeyTemplateError};
use super::shard::Shard;
use serde::{Deserialize, Serialize};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The objects to process.
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

/// Filter, template and limit as a caller sends them: part of the identity of a queued run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Globs of the keys to process instead of all pictures.
    pub include: Vec<String>,
    /// Globs of the keys to exclude.
    pub exclude: Vec<String>,
    /// The template of the keys of results.
    pub output: String,
    /// Maximum number of pictures to process.
    pub limit: Option<u64>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { include: Vec::new(), exclude: Vec::new(), output: KeyTemplate::DEFAULT.to_owned(), limit: None }
    }
}

impl Selection {
    /// The filter of its globs.
    ///
    /// # Errors
    /// When a glob is malformed.
    pub fn filter(&self) -> Result<KeyFilter, GlobError> {
        KeyFilter::new(&self.include, &self.exclude)
    }

    /// Its template.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn template(&self) -> Result<KeyTemplate, KeyTemplateError> {
        self.output.parse()
    }
}
