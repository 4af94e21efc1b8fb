//! The trait by which routes probe an uploaded clip, and its implementation by `video::probe`.

use crate::video::{self, Clip, ToolMissing, Tools, VideoConfig, VideoError};
use futures_util::future::BoxFuture;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio::task::spawn_blocking;

/// Probes clips before a job is created for them.
pub trait Inspect: Send + Sync + 'static {
    /// Whether the programs that it needs are installed.
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>>;

    /// The properties of the clip in a file.
    fn probe<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>>;
}

/// Probes clips with ffprobe.
#[derive(Debug)]
pub struct Inspector {
    config: VideoConfig,
    /// Cached once found.
    tools: Arc<OnceLock<Tools>>,
}

impl Inspector {
    /// Finds the programs at first use: they may be installed while the daemon runs.
    #[must_use]
    pub fn new(config: VideoConfig) -> Self {
        Self { config, tools: Arc::default() }
    }

    async fn tools(&self) -> Result<Tools, ToolMissing> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools.clone());
        }
        let (config, cache) = (self.config.clone(), self.tools.clone());
        let found = spawn_blocking(move || {
            let tools = Tools::find(&config)?;
            Ok(cache.get_or_init(|| tools).clone())
        });
        found.await.unwrap_or_else(|error| Err(ToolMissing(error.to_string())))
    }
}

impl Inspect for Inspector {
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>> {
        Box::pin(async move { self.tools().await.map(|_| ()) })
    }

    fn probe<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>> {
        Box::pin(async move {
            let tools = self.tools().await.map_err(|missing| VideoError::Tool(missing.to_string()))?;
            video::probe(&tools, file).await
        })
    }
}
