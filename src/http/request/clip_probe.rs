//! The trait by which routes probe an uploaded clip, and its implementation by `video::probe`.

use crate::engine::Tenant;
use crate::video::{self, Clip, ToolMissing, Tools, VideoConfig, VideoError};
use futures_util::future::BoxFuture;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio::task::spawn_blocking;

/// Probes clips before a job is created for them.
pub trait Inspect: Send + Sync + 'static {
    /// Whether the programs that it needs are installed.
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>>;

    /// What the system lacks to confine the programs; `None` before they were found.
    fn missing_confinement(&self) -> Option<Vec<&'static str>> {
        None
    }

    /// The properties of the clip in a file of an account; accounts take turns.
    fn probe<'a>(&'a self, account: &'a str, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>>;
}

/// Probes clips with ffprobe.
#[derive(Debug)]
pub struct Inspector {
    config: VideoConfig,
    /// Cached once found.
    tools: Arc<OnceLock<Tools>>,
    missing_confinement: OnceLock<Vec<&'static str>>,
}

impl Inspector {
    /// Finds the programs at first use: they may be installed while the daemon runs.
    #[must_use]
    pub fn new(config: VideoConfig) -> Self {
        Self { config, tools: Arc::default(), missing_confinement: OnceLock::new() }
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
        Box::pin(async move {
            let tools = self.tools().await?;
            if self.missing_confinement.get().is_none() {
                let missing = video::missing_confinement(&tools).await;
                let missing = missing.map_err(|error| ToolMissing(format!("ffprobe that runs confined ({error})")))?;
                // Another call may have been faster.
                let _: Result<(), _> = self.missing_confinement.set(missing);
            }
            Ok(())
        })
    }

    fn missing_confinement(&self) -> Option<Vec<&'static str>> {
        self.missing_confinement.get().cloned()
    }

    fn probe<'a>(&'a self, account: &'a str, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>> {
        Box::pin(async move {
            let tools = self.tools().await.map_err(|missing| VideoError::Tool(missing.to_string()))?;
            video::probe(&tools, file, Tenant::of(account)).await
        })
    }
}
