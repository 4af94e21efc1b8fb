//! The flags that stand for settings of the configuration.

use crate::config::{self, Config, Problems};
use clap::Args;
use std::path::PathBuf;

/// A setting, the flag that stands for it, and what was typed.
type Flag<'a> = (&'static str, &'static str, &'a Option<String>);

/// Where things are. Values are text here: the configuration checks them, together with the variables and the file,
/// and tells every mistake at once.
#[derive(Args, Clone, Debug)]
pub(super) struct Places {
    /// TOML file with settings [env: BACKDROP_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Folder of accounts and keys [env: BACKDROP_DATA_DIR] [default: backdrop-data]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<String>,
}

impl Places {
    /// The configuration in force. `more` are flags of the one command.
    pub(super) fn load(&self, more: &[Flag<'_>]) -> Result<Config, Problems> {
        let own: [Flag<'_>; 1] = [("data_dir", "--data-dir", &self.data_dir)];
        let given = |&(setting, flag, value): &Flag<'_>| value.as_ref().map(|value| (setting, flag, value.clone()));
        let flags = own.iter().chain(more).filter_map(given).collect();
        Ok(config::load(self.config.as_deref(), flags)?.settings)
    }
}

/// The flags of every command that runs the network.
#[derive(Args, Clone, Debug)]
pub(super) struct Settings {
    #[command(flatten)]
    places: Places,
    /// auto, cpu, gpu, or part of a GPU's name [env: BACKDROP_DEVICE] [default: auto]
    #[arg(long, value_name = "DEVICE", global = true)]
    device: Option<String>,
    /// Weights file to use in place of the built-in one [env: BACKDROP_WEIGHTS]
    #[arg(long, value_name = "FILE", global = true)]
    weights: Option<String>,
    /// Model that cuts out pictures: standard, or quality, which looks a second time [env: BACKDROP_ENGINE_MODEL] [default: standard]
    #[arg(long, value_name = "MODEL", global = true)]
    model: Option<String>,
}

impl Settings {
    /// The configuration in force. `more` are flags of the one command.
    pub(super) fn load(&self, more: &[Flag<'_>]) -> Result<Config, Problems> {
        let own: [Flag<'_>; 3] = [
            ("device", "--device", &self.device),
            ("weights", "--weights", &self.weights),
            ("engine.model", "--model", &self.model),
        ];
        self.places.load(&[&own, more].concat())
    }
}
