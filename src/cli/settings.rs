//! The flags that stand for settings of the configuration.

use crate::config::{self, Config, Problems};
use clap::Args;
use std::path::PathBuf;

/// Flags that every command with a configuration takes. They are text here: the configuration checks them, together
/// with the variables and the file, and tells every mistake at once.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Settings {
    /// TOML file with settings [env: BACKDROP_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) config: Option<PathBuf>,
    /// Folder of accounts and keys [env: BACKDROP_DATA_DIR] [default: backdrop-data]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) data_dir: Option<String>,
    /// auto, cpu, gpu, or part of a GPU's name [env: BACKDROP_DEVICE] [default: auto]
    #[arg(long, value_name = "DEVICE", global = true)]
    pub(super) device: Option<String>,
    /// Weights file to use in place of the built-in one [env: BACKDROP_WEIGHTS]
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) weights: Option<String>,
}

impl Settings {
    /// The configuration in force. `more` are flags of the one command.
    pub(super) fn load(&self, more: &[(&'static str, &'static str, &Option<String>)]) -> Result<Config, Problems> {
        let own = [
            ("data_dir", "--data-dir", &self.data_dir),
            ("device", "--device", &self.device),
            ("weights", "--weights", &self.weights),
        ];
        let given = |&(setting, flag, value): &(&'static str, &'static str, &Option<String>)| {
            value.as_ref().map(|value| (setting, flag, value.clone()))
        };
        let flags = own.iter().chain(more).filter_map(given).collect();
        Ok(config::load(self.config.as_deref(), flags)?.settings)
    }
}
