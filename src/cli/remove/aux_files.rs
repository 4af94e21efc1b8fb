//! Auxiliary pictures of a recipe: background, watermark and mask. Read or fetched once, and used for every input.

use super::file_io::read_file;
use crate::cli::endpoint_args::{FieldArg, attached_file};
use crate::image::SourceUrl;
use crate::pipeline::Files;
use crate::recipe::{BG_FILE, MASK_FILE, MASK_URL, MaskSource, ModelId, PromptRequest, Recipe, Source};
use crate::source::{FetchError, Fetcher};
use bytes::Bytes;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The auxiliary pictures of a recipe.
#[derive(Clone, Default)]
pub(in crate::cli) struct AuxFiles {
    pub(in crate::cli) background: Option<Bytes>,
    pub(in crate::cli) mark: Option<Bytes>,
    mask: Option<Bytes>,
}

/// Why an auxiliary picture cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum AuxFileError {
    #[error("cannot read {name} {}: {error}", path.display())]
    Read { name: &'static str, path: PathBuf, error: io::Error },
    #[error("cannot fetch {param} {url}")]
    Fetch { param: &'static str, url: SourceUrl, source: FetchError },
    #[error("model {0}: only a daemon calls image APIs; on the command line `model` is auto, the built-in generator")]
    ImageApi(ModelId),
}

impl AuxFiles {
    /// Reads the files that `set` names, and fetches the URLs of the recipe; each file has at most the fetcher's `max_bytes`.
    pub(in crate::cli) async fn load(
        fetcher: &Fetcher,
        recipe: &Recipe,
        set: &[FieldArg],
    ) -> Result<Self, AuxFileError> {
        let max_bytes = fetcher.max_bytes();
        let background = match &recipe.inputs.background {
            Some(Source::Attached) => read(set, BG_FILE, max_bytes).await?,
            Some(Source::Url(url)) => Some(fetch(fetcher, url, "bg_url").await?),
            Some(Source::Generated(PromptRequest { model: Some(model), .. })) => {
                return Err(AuxFileError::ImageApi(*model));
            }
            // The pipeline renders it.
            Some(Source::Generated(_)) | None => None,
        };
        let mark = match &recipe.inputs.mark {
            Some(url) => Some(fetch(fetcher, url, "watermark").await?),
            None => None,
        };
        let mask = match &recipe.inputs.mask {
            Some(MaskSource::Attached) => read(set, MASK_FILE, max_bytes).await?,
            Some(MaskSource::Url(url)) => Some(fetch(fetcher, url, MASK_URL).await?),
            None => None,
        };
        Ok(Self { background, mark, mask })
    }

    /// The background and the watermark of a queued run.
    pub(in crate::cli) fn of_queue(background: Option<Vec<u8>>, mark: Option<Vec<u8>>) -> Self {
        Self { background: background.map(Bytes::from), mark: mark.map(Bytes::from), mask: None }
    }

    /// Adds the file of a field; only the fields of a background and of a mask have files.
    pub(in crate::cli) fn attach(&mut self, name: &str, file: Bytes) {
        *(if name == MASK_FILE { &mut self.mask } else { &mut self.background }) = Some(file);
    }

    /// The files of a run with this source.
    pub(in crate::cli) fn with(&self, source: Bytes) -> Files {
        let Self { background, mark, mask } = self.clone();
        Files { source, background, mark, mask, fetch: Duration::ZERO }
    }
}

/// Reads the file of `--set name=PATH`.
async fn read(set: &[FieldArg], name: &'static str, max_bytes: usize) -> Result<Option<Bytes>, AuxFileError> {
    let Some(path) = attached_file(set, name) else { return Ok(None) };
    let read = read_file(path.to_owned(), max_bytes).await;
    read.map(Some).map_err(|error| AuxFileError::Read { name, path: path.to_owned(), error })
}

async fn fetch(fetcher: &Fetcher, url: &SourceUrl, param: &'static str) -> Result<Bytes, AuxFileError> {
    fetcher.fetch(url).await.map_err(|source| AuxFileError::Fetch { param, url: url.clone(), source })
}
