//! Which objects of a source are in a run, and how their results are named, as a caller sends it.

use super::filter::{GlobError, KeyFilter};
use super::key_template::{KeyTemplate, KeyTemplateError};
use serde::{Deserialize, Serialize};

/// Which objects of the source are in a run, and how their results are named: part of the identity of a queued run.
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
