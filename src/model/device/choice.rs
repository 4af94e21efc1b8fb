//! The `device` setting, and its errors.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::UnsupportedPrecision;

/// The `device` setting: `auto`, `cpu`, `gpu`, or a part of an adapter's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum DeviceChoice {
    /// A hardware GPU that works, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A hardware GPU, or an error.
    Gpu,
    /// The first adapter, software ones included, whose name contains this text (case-insensitive), or an error.
    Named(String),
}

impl From<String> for DeviceChoice {
    fn from(text: String) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "" | "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "gpu" => Self::Gpu,
            _ => Self::Named(text),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text.to_owned()))
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Named(name) => name,
        })
    }
}

/// Why the configured device is not available.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The program was built without GPU support.
    #[error("device {0} needs GPU support, which this build does not have (feature `gpu`)")]
    NotBuiltIn(DeviceChoice),
    /// The precision is supported on the CPU only.
    #[error("engine.precision bf16 is for the CPU, but device {0} selected a GPU; set `cpu`")]
    PrecisionOnGpu(DeviceChoice),
    /// The CPU lacks the precision's instructions.
    #[error(transparent)]
    Precision(#[from] UnsupportedPrecision),
    /// No hardware GPU was found.
    #[error("device gpu: no GPU was found ({found}); use `cpu`, or name an adapter")]
    NoGpu {
        /// The adapters of this machine.
        found: String,
    },
    /// No adapter has this name.
    #[error("no adapter is named {name} ({found})")]
    UnknownName {
        /// The configured name.
        name: String,
        /// The adapters of this machine.
        found: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_kinds_of_device_settings_are_parsed() {
        for (text, expected) in [
            ("auto", DeviceChoice::Auto),
            ("CPU", DeviceChoice::Cpu),
            ("gpu", DeviceChoice::Gpu),
            ("Radeon 780M", DeviceChoice::Named("Radeon 780M".to_owned())),
        ] {
            assert_eq!(text.parse().as_ref(), Ok(&expected));
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        assert_eq!(DeviceChoice::default(), DeviceChoice::Auto);
    }
}
