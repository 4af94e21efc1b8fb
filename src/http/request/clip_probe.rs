//! The trait by which routes probe an uploaded clip, and its implementation by `video::probe`.

use crate::engine::{Engine, Tenant};
use crate::video::{self, Clip, ToolMissing, Tools, VideoConfig, VideoError};
use futures_util::future::BoxFuture;
use std::path::Path;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// Probes clips before a job is created for them.
pub trait Inspect: Send + Sync + 'static {
    /// Whether the programs that it needs are installed.
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>>;

    /// What the system lacks to confine the programs; `None` before they were found.
    fn missing_confinement(&self) -> Option<Vec<&'static str>>;

    /// The properties of the clip in a file of an account; accounts take turns.
    fn probe<'a>(&'a self, account: &'a str, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>>;
}

/// Probes clips with ffprobe.
#[derive(Debug)]
pub struct Inspector {
    config: VideoConfig,
    engine: Engine,
    tools: OnceCell<Tools>,
    missing_confinement: OnceCell<Vec<&'static str>>,
}

impl Inspector {
    /// Finds the programs at first use: they may be installed while the daemon runs.
    #[must_use]
    pub fn new(config: VideoConfig, engine: Engine) -> Self {
        Self { config, engine, tools: OnceCell::new(), missing_confinement: OnceCell::new() }
    }

    async fn tools(&self) -> Result<&Tools, ToolMissing> {
        let find = || async {
            let config = self.config.clone();
            let found = spawn_blocking(move || Tools::find(&config)).await;
            found.unwrap_or_else(|error| Err(ToolMissing(error.to_string())))
        };
        self.tools.get_or_try_init(find).await
    }
}

impl Inspect for Inspector {
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>> {
        Box::pin(async move {
            let tools = self.tools().await?;
            let missing = || async {
                let missing = video::missing_confinement(tools).await;
                missing.map_err(|error| ToolMissing(format!("ffprobe that runs confined ({error})")))
            };
            self.missing_confinement.get_or_try_init(missing).await.map(drop)
        })
    }

    fn missing_confinement(&self) -> Option<Vec<&'static str>> {
        self.missing_confinement.get().cloned()
    }

    fn probe<'a>(&'a self, account: &'a str, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>> {
        Box::pin(async move {
            let tools = self.tools().await.map_err(|missing| VideoError::Tool(missing.to_string()))?;
            video::probe(&self.engine, Tenant::of(account), tools, file).await
        })
    }
}
