//! Checks ffmpeg and ffprobe, and the encoders that clips need.

use super::check::Check;
use crate::video::{Tools, VideoConfig};

const INSTALL: &str = "install ffmpeg (Debian, Ubuntu: apt install ffmpeg), or set its path in [video]";

pub(super) fn check(config: &VideoConfig) -> Check {
    let tools = match Tools::find(config) {
        Ok(tools) => tools,
        Err(missing) => return Check::warning("clips", format!("{missing}; clips cannot be processed"), INSTALL),
    };
    match tools.version().and_then(|version| Ok((version, tools.missing_encoders()?))) {
        Ok((version, missing)) if missing.is_empty() => Check::ok("clips", version),
        Ok((version, missing)) => {
            let missing: Vec<_> = missing.iter().map(|(encoder, of)| format!("{encoder} ({of})")).collect();
            let remedy = "install an ffmpeg with these encoders; other formats of clips work";
            Check::warning("clips", format!("{version} lacks {}", missing.join(", ")), remedy)
        }
        Err(error) => Check::warning("clips", format!("ffmpeg cannot be run: {error}"), INSTALL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::check::Status;

    #[test]
    fn a_missing_ffmpeg_is_a_warning_with_a_remedy() {
        let check = check(&VideoConfig { ffmpeg: "/nowhere/ffmpeg".into(), ..VideoConfig::default() });
        assert_eq!((check.status, check.remedy.as_deref()), (Status::Warning, Some(INSTALL)));
        assert!(check.message.contains("/nowhere/ffmpeg is not installed"), "{}", check.message);
    }
}
