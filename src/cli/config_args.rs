//! Command line flags that set configuration values.

use crate::config::{self, Config, Problems};
use clap::Args;
use std::path::PathBuf;

/// A setting, its flag, and the flag's value.
type Flag<'a> = (&'static str, &'static str, &'a Option<String>);

/// Flags of all commands. Values are text: the configuration validates them together with the environment and the file,
/// and reports all mistakes at once.
#[derive(Args, Clone, Debug)]
pub(super) struct ConfigArgs {
    /// Configuration file in TOML [env: BACKDROP_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Folder for accounts, keys and results [env: BACKDROP_DATA_DIR] [default: backdrop-data]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<String>,
}

impl ConfigArgs {
    /// Loads the configuration. `more` are flags of one command.
    pub(super) fn load(&self, more: &[Flag<'_>]) -> Result<Config, Problems> {
        let data_dir: Flag<'_> = ("data_dir", "--data-dir", &self.data_dir);
        let given = |&(setting, flag, value): &Flag<'_>| value.as_ref().map(|value| (setting, flag, value.clone()));
        let flags = [data_dir].iter().chain(more).filter_map(given).collect();
        config::load(self.config.as_deref(), flags)
    }
}

/// The flags of every command that runs the network.
#[derive(Args, Clone, Debug)]
pub(super) struct EngineArgs {
    #[command(flatten)]
    config_args: ConfigArgs,
    /// auto, cpu, gpu, or part of a GPU's name [env: BACKDROP_DEVICE] [default: auto]
    #[arg(long, value_name = "DEVICE", global = true)]
    device: Option<String>,
    /// Weights file, instead of the built-in weights [env: BACKDROP_WEIGHTS]
    #[arg(long, value_name = "FILE", global = true)]
    weights: Option<String>,
    /// standard, with a second pass over small subjects; quality, over all subjects that do not fill the frame; fast, one pass; or the name of an
    /// added model [env: BACKDROP_ENGINE_MODEL]
    /// [default: standard]
    #[arg(long, value_name = "MODEL", global = true)]
    model: Option<String>,
    /// Arithmetic of the network: f32, or bf16 on a CPU with AVX-512 BF16 [env: BACKDROP_ENGINE_PRECISION] [default: f32]
    #[arg(long, value_name = "PRECISION", global = true)]
    precision: Option<String>,
    /// Decoders that run in processes without any right: heic, all, or off [env: BACKDROP_DECODE_SANDBOX] [default: heic]
    #[arg(long, value_name = "FORMATS", global = true)]
    decode_sandbox: Option<String>,
}

impl EngineArgs {
    /// Loads the configuration. `more` are flags of one command.
    pub(super) fn load(&self, more: &[Flag<'_>]) -> Result<Config, Problems> {
        let own: [Flag<'_>; 5] = [
            ("device", "--device", &self.device),
            ("weights", "--weights", &self.weights),
            ("engine.model", "--model", &self.model),
            ("engine.precision", "--precision", &self.precision),
            ("decode.sandbox", "--decode-sandbox", &self.decode_sandbox),
        ];
        self.config_args.load(&[&own, more].concat())
    }
}
