//! Auxiliary pictures of a recipe, background and watermark: read or fetched once, used for every input.

use super::file_io::read_file;
use crate::cli::exit_code::Failure;
use crate::image::SourceUrl;
use crate::recipe::{BG_FILE, PromptRequest, Recipe, Source};
use crate::source::Fetcher;
use bytes::Bytes;
use std::path::Path;

/// The auxiliary pictures of a recipe.
#[derive(Default)]
pub(in crate::cli) struct AuxFiles {
    pub(in crate::cli) background: Option<Bytes>,
    pub(in crate::cli) mark: Option<Bytes>,
}

impl AuxFiles {
    /// Loads them. `attached` is the file of `--set bg_file=`, of at most `max_bytes`.
    pub(in crate::cli) async fn load(
        fetcher: &Fetcher,
        recipe: &Recipe,
        attached: Option<&Path>,
        max_bytes: usize,
    ) -> Result<Self, Failure> {
        let background = match (&recipe.inputs.background, attached) {
            (Some(Source::Attached), Some(path)) => {
                let read = read_file(path.to_owned(), max_bytes).await;
                Some(read.map_err(|error| format!("cannot read {BG_FILE} {}: {error}", path.display()))?)
            }
            (Some(Source::Url(url)), _) => Some(fetch(fetcher, url, "bg_url").await?),
            (Some(Source::Generated(PromptRequest { model: Some(model), .. })), _) => {
                let why = "only a daemon calls image APIs; on the command line `model` is auto, the built-in generator";
                return Err(format!("model {model}: {why}").into());
            }
            // The pipeline renders it.
            (Some(Source::Generated(_)), _) | (Some(Source::Attached), None) | (None, _) => None,
        };
        let mark = match &recipe.inputs.mark {
            Some(url) => Some(fetch(fetcher, url, "watermark").await?),
            None => None,
        };
        Ok(Self { background, mark })
    }
}

async fn fetch(fetcher: &Fetcher, url: &SourceUrl, param: &str) -> Result<Bytes, Failure> {
    let fetched = fetcher.fetch(url).await;
    fetched.map_err(|error| format!("cannot fetch {param} {url}: {}", crate::telemetry::with_causes(&error)).into())
}
