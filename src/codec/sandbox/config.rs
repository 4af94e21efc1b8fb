//! Configuration section `[decode]`: which decoders run in a sandbox.

use crate::codec::Container;

/// Settings of decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeConfig {
    /// Which decoders run in processes without rights: `heic` (its decoder is C++), `all`, or `off`. Linux only.
    pub sandbox: SandboxMode,
}

/// Which decoders run in worker processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// None.
    Off,
    /// HEIC's.
    #[default]
    Heic,
    /// All.
    All,
}

impl SandboxMode {
    /// `off`, `heic` or `all`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Heic => "heic",
            Self::All => "all",
        }
    }

    /// Whether files of `container` are decoded in a worker.
    #[must_use]
    pub const fn covers(self, container: Container) -> bool {
        match self {
            Self::Off => false,
            Self::Heic => matches!(container, Container::Heic),
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_off_heic_or_all() {
        let mode = |text: &str| toml::from_str::<DecodeConfig>(text).map(|config| config.sandbox);
        assert_eq!(mode("").unwrap(), SandboxMode::Heic);
        for named in [SandboxMode::Off, SandboxMode::Heic, SandboxMode::All] {
            assert_eq!(mode(&format!("sandbox = \"{}\"", named.name())).unwrap(), named);
        }
        assert!(mode("sandbox = \"jpeg\"").is_err());
    }

    #[test]
    fn heic_alone_is_covered_by_default() {
        let covered = |mode: SandboxMode| [Container::Heic, Container::Jpeg].map(|container| mode.covers(container));
        assert_eq!(covered(SandboxMode::Heic), [true, false]);
        assert_eq!(covered(SandboxMode::All), [true, true]);
        assert_eq!(covered(SandboxMode::Off), [false, false]);
    }
}
