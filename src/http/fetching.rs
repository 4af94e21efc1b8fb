//! Pictures that a request names by their address.

use super::App;
use super::error::ApiError;
use super::upload_memory::{AccountMemory, Share, no_room};
use crate::image::SourceUrl;
use crate::recipe::{Recipe, Source};
use crate::source::FetchError;
use crate::telemetry::metrics;
use bytes::Bytes;

/// The pictures that a recipe wants beside its source.
#[derive(Debug, Default)]
pub(super) struct BesideFiles {
    pub(super) background: Option<Bytes>,
    pub(super) mark: Option<Bytes>,
    /// Those of them that had to be fetched: the background, the watermark.
    pub(super) fetched: [Option<Bytes>; 2],
    /// Their share of the memory for uploads; to be dropped after them.
    pub(super) share: [Option<Share>; 2],
}

/// Fetches one picture. `param` is the field that named it.
pub(super) async fn fetch(
    app: &App,
    memory: &AccountMemory,
    url: &SourceUrl,
    param: &str,
) -> Result<(Bytes, Share), ApiError> {
    let share = memory.share();
    let bytes = app.fetcher.fetch(url, &share).await.map_err(|error| {
        metrics::fetch_failed(error.reason());
        // No field is at fault for that.
        if matches!(error, FetchError::OutOfMemory) { no_room() } else { ApiError::from(error).param(param) }
    })?;
    Ok((bytes, share))
}

/// Gathers what `recipe` wants; `attached` is the background that came with the request.
pub(super) async fn beside(
    app: &App,
    memory: &AccountMemory,
    recipe: &Recipe,
    attached: Option<Bytes>,
) -> Result<BesideFiles, ApiError> {
    let background = async {
        Ok::<_, ApiError>(match &recipe.inputs.background {
            Some(Source::Url(url)) => Some(fetch(app, memory, url, "bg_url").await?),
            Some(Source::Attached) => attached.map(|bytes| (bytes, memory.share())),
            // Made elsewhere.
            Some(Source::Generated(_)) | None => None,
        })
    };
    let mark = async {
        Ok::<_, ApiError>(match &recipe.inputs.mark {
            Some(url) => Some(fetch(app, memory, url, "watermark").await?),
            None => None,
        })
    };
    let (background, mark) = tokio::try_join!(background, mark)?;
    let is_url = matches!(recipe.inputs.background, Some(Source::Url(_)));
    let (background, background_share) = background.unzip();
    let (mark, mark_share) = mark.unzip();
    let fetched = [background.clone().filter(|_| is_url), mark.clone()];
    Ok(BesideFiles { background, mark, fetched, share: [background_share, mark_share] })
}
