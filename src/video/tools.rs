//! Configuration and lookup of the `ffmpeg` and `ffprobe` programs.

use std::path::{Path, PathBuf};

/// Section `[video]`: the programs that decode, encode and inspect clips.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VideoConfig {
    /// The program that decodes and encodes; a bare name is resolved through `PATH`.
    pub ffmpeg: PathBuf,
    /// The program that lists a file's streams.
    pub ffprobe: PathBuf,
}

impl Default for VideoConfig {
    fn default() -> Self {
        Self { ffmpeg: "ffmpeg".into(), ffprobe: "ffprobe".into() }
    }
}

impl VideoConfig {
    /// Every invalid value in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let named = [("ffmpeg", &self.ffmpeg), ("ffprobe", &self.ffprobe)];
        let empty = named.into_iter().filter(|(_, program)| program.as_os_str().is_empty());
        empty.map(|(name, _)| format!("video.{name}: expected a program, such as `{name}`")).collect()
    }
}

/// The programs' paths.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(super) ffmpeg: PathBuf,
    pub(super) ffprobe: PathBuf,
}

/// A program is not installed; the message names it and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not installed; install ffmpeg, or set its path in [video]")]
pub struct ToolMissing(pub String);

impl Tools {
    /// Resolves the programs.
    ///
    /// # Errors
    /// [`ToolMissing`].
    pub fn find(config: &VideoConfig) -> Result<Self, ToolMissing> {
        let path = |program: &Path| resolve(program).ok_or_else(|| ToolMissing(program.display().to_string()));
        Ok(Self { ffmpeg: path(&config.ffmpeg)?, ffprobe: path(&config.ffprobe)? })
    }
}

/// The path of a program: a bare name is resolved through `PATH`, as a shell does.
#[expect(clippy::disallowed_methods, reason = "`PATH` is not a setting of this daemon")]
fn resolve(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::path::absolute(program).ok().filter(|path| is_program(path));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let is_executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let is_executable = true;
    metadata.is_file() && is_executable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        let config = VideoConfig { ffprobe: "/nowhere/ffprobe".into(), ffmpeg: "sh".into() };
        assert_eq!(Tools::find(&config).unwrap_err(), ToolMissing("/nowhere/ffprobe".to_owned()));
        let config = VideoConfig { ffmpeg: "no-such-program-here".into(), ..VideoConfig::default() };
        assert!(Tools::find(&config).unwrap_err().to_string().starts_with("no-such-program-here is not installed"));
    }

    #[test]
    fn an_empty_name_is_invalid() {
        assert!(VideoConfig::default().validate().is_empty());
        let empty = VideoConfig { ffmpeg: PathBuf::new(), ffprobe: PathBuf::new() };
        assert_eq!(empty.validate().len(), 2);
    }
}
