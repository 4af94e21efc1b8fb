//! Pictures that a request names by their address.

use super::App;
use super::error::ApiError;
use super::form::{Share, UploadMemory};
use crate::image::SourceUrl;
use crate::recipe::{Recipe, Source};
use crate::telemetry::metrics;
use bytes::Bytes;

/// The pictures that a recipe wants beside its source.
#[derive(Debug, Default)]
pub(super) struct BesideFiles {
    pub(super) background: Option<Bytes>,
    pub(super) mark: Option<Bytes>,
    /// Whether any of them had to be fetched.
    pub(super) fetched: bool,
    /// Their share of the memory for uploads; to be dropped after them.
    pub(super) share: [Share; 2],
}

/// Fetches one picture. `param` is the field that named it.
pub(super) async fn fetch(
    app: &App,
    memory: &UploadMemory,
    url: &SourceUrl,
    param: &str,
) -> Result<(Bytes, Share), ApiError> {
    let mut share = memory.wait().await?;
    let bytes = app.fetcher.fetch(url).await.map_err(|error| {
        metrics::fetch_failed(error.reason());
        ApiError::from(error).param(param)
    })?;
    share.shrink_to(bytes.len());
    Ok((bytes, share))
}

/// Gathers what `recipe` wants; `attached` is the background that came with the request.
pub(super) async fn beside(
    app: &App,
    memory: &UploadMemory,
    recipe: &Recipe,
    attached: Option<Bytes>,
) -> Result<BesideFiles, ApiError> {
    let background = async {
        Ok::<_, ApiError>(match &recipe.wants.background {
            Some(Source::Url(url)) => Some(fetch(app, memory, url, "bg_url").await?),
            Some(Source::Attached) => attached.map(|bytes| (bytes, Share::default())),
            // Made elsewhere.
            Some(Source::Generated(_)) | None => None,
        })
    };
    let mark = async {
        Ok::<_, ApiError>(match &recipe.wants.mark {
            Some(url) => Some(fetch(app, memory, url, "watermark").await?),
            None => None,
        })
    };
    let (background, mark) = tokio::try_join!(background, mark)?;
    let fetched = matches!(recipe.wants.background, Some(Source::Url(_))) || mark.is_some();
    let (background, background_share) = background.unzip();
    let (mark, mark_share) = mark.unzip();
    let share = [background_share.unwrap_or_default(), mark_share.unwrap_or_default()];
    Ok(BesideFiles { background, mark, fetched, share })
}
