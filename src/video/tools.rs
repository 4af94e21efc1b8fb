//! Configuration and lookup of the `ffmpeg` and `ffprobe` programs.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    /// The invalid values in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let named = [("ffmpeg", &self.ffmpeg), ("ffprobe", &self.ffprobe)];
        let empty = named.into_iter().filter(|(_, program)| program.as_os_str().is_empty());
        empty.map(|(name, _)| format!("video.{name}: expected a program, such as `{name}`")).collect()
    }
}

/// Paths of the programs.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(super) ffmpeg: PathBuf,
    pub(super) ffprobe: PathBuf,
}

/// A program is not installed; the message names the program and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not installed; install ffmpeg, or set its path in [video]")]
pub struct ToolMissing(pub String);

/// The encoders of ffmpeg that the formats require.
const ENCODERS: [(&str, &str); 7] = [
    ("libvpx-vp9", "webm"),
    ("libopus", "the sound of webm"),
    ("prores_ks", "mov"),
    ("libx264", "mp4"),
    ("aac", "the sound of mov and mp4"),
    ("ffv1", "gif"),
    ("gif", "gif"),
];

impl Tools {
    /// The first line of `ffmpeg -version`.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn version(&self) -> io::Result<String> {
        Ok(output(&self.ffmpeg, &["-version"])?.lines().next().unwrap_or_default().to_owned())
    }

    /// The encoders that this ffmpeg lacks, each with the format that requires it.
    ///
    /// # Errors
    /// When ffmpeg cannot be run.
    pub fn missing_encoders(&self) -> io::Result<Vec<(&'static str, &'static str)>> {
        let listing = output(&self.ffmpeg, &["-hide_banner", "-encoders"])?;
        let has = |encoder: &str| listing.lines().any(|line| line.split_whitespace().nth(1) == Some(encoder));
        Ok(ENCODERS.into_iter().filter(|(encoder, _)| !has(encoder)).collect())
    }

    /// Resolves the programs.
    ///
    /// # Errors
    /// [`ToolMissing`].
    pub fn find(config: &VideoConfig) -> Result<Self, ToolMissing> {
        let path = |program: &Path| resolve(program).ok_or_else(|| ToolMissing(program.display().to_string()));
        Ok(Self { ffmpeg: path(&config.ffmpeg)?, ffprobe: path(&config.ffprobe)? })
    }
}

/// Standard output of a program that exits at once.
fn output(program: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{} ended with {}", program.display(), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Path of a program; a bare name is resolved through `PATH`, as by a shell.
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

    #[cfg(unix)]
    #[test]
    fn encoders_absent_from_the_listing_are_missing() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ffmpeg");
        let script = "#!/bin/sh\n[ $1 = -version ] && echo 'ffmpeg version 7' && exit\n\
            printf ' V....D libvpx-vp9  x\\n A....D libopus x\\n V..... prores_ks x\\n A..... aac x\\n V..... ffv1 x\\n V..... gif libx264\\n'\n";
        // Written by another process, so that no child of another test inherits its open descriptor.
        let written = Command::new("sh").args(["-c", "cat > \"$0\""]).arg(&program).stdin(Stdio::piped()).spawn();
        let mut writer = written.unwrap();
        io::Write::write_all(&mut writer.stdin.take().unwrap(), script.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let tools = Tools { ffmpeg: program.clone(), ffprobe: program };
        assert_eq!(tools.missing_encoders().unwrap(), [("libx264", "mp4")]);
        assert_eq!(tools.version().unwrap(), "ffmpeg version 7");
        assert!(Tools { ffmpeg: "/bin/false".into(), ..tools }.version().is_err());
    }

    #[test]
    fn an_empty_name_is_invalid() {
        assert!(VideoConfig::default().validate().is_empty());
        let empty = VideoConfig { ffmpeg: PathBuf::new(), ffprobe: PathBuf::new() };
        assert_eq!(empty.validate().len(), 2);
    }
}
