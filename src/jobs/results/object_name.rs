//! Object names of results, `<job id>.<extension>`, and of clips, `<job id>.input`: built from a job, and validated
//! before any use in a path.

use crate::recipe::VideoFormat;

/// The object name of a job's result.
pub(super) fn object_name(job_id: &str, format: VideoFormat) -> String {
    format!("{job_id}.{}", format.extension())
}

/// The object name of a job's clip; `None` for an invalid id. No format has its extension, so no address opens it.
pub(super) fn input_name(job_id: &str) -> Option<String> {
    is_plain(job_id).then(|| format!("{job_id}.input"))
}

/// The format of a result by its extension; `None` for an invalid name.
pub(super) fn format_of(object: &str) -> Option<VideoFormat> {
    let (name, extension) = object.split_once('.')?;
    VideoFormat::ALL.into_iter().find(|format| is_plain(name) && format.extension() == extension)
}

/// Whether a name has letters, digits and `_` only, so that it cannot lead out of the folder.
fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value of `content-disposition`: to be saved, under its own name.
#[must_use]
pub fn disposition(object: &str) -> String {
    format!("attachment; filename=\"{object}\"")
}
