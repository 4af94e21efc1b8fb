//! Object names of results, `<job id>.<extension>`: built from a job, and validated before any use in a path.

use crate::recipe::VideoFormat;

/// The object name of a job's result.
pub(super) fn object_name(job_id: &str, format: VideoFormat) -> String {
    format!("{job_id}.{}", format.extension())
}

/// The format by the extension; `None` for an invalid name. A valid one has letters, digits and `_` only before the
/// extension, so that it cannot lead out of the folder.
pub(super) fn format_of(object: &str) -> Option<VideoFormat> {
    let (name, extension) = object.split_once('.')?;
    let plain = (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    VideoFormat::ALL.into_iter().find(|format| plain && format.extension() == extension)
}

/// The value of `content-disposition`: to be saved, under its own name.
#[must_use]
pub fn disposition(object: &str) -> String {
    format!("attachment; filename=\"{object}\"")
}
