//! Object names of results, `<job id>.<extension>`, of clips, `<job id>.input`, and of the files of checkpoints,
//! `<job id>.checkpoint/<name>`: built from a job, and validated before any use in a path.

use object_store::path::Path;

use crate::recipe::VideoFormat;

/// The object name of a job's result.
pub(super) fn object_name(job_id: &str, format: VideoFormat) -> String {
    format!("{job_id}.{}", format.extension())
}

/// The object name of a job's clip; `None` for an invalid id. No format has its extension, so no address opens it.
pub(super) fn input_name(job_id: &str) -> Option<String> {
    is_plain(job_id).then(|| format!("{job_id}.input"))
}

/// The folder of a job's checkpoint; `None` for an invalid id.
pub(super) fn checkpoint_folder(job_id: &str) -> Option<String> {
    is_plain(job_id).then(|| format!("{job_id}.checkpoint"))
}

/// The object name of a file of a job's checkpoint; `None` for an invalid id or name.
pub(super) fn checkpoint_name(job_id: &str, name: &str) -> Option<String> {
    let is_valid = (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    Some(format!("{}/{name}", checkpoint_folder(job_id).filter(|_| is_valid)?))
}

/// The path of an object below a prefix.
pub(super) fn path_of(prefix: &Path, object: &str) -> Path {
    object.split('/').fold(prefix.clone(), |path, part| path.join(part))
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
